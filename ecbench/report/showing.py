"""The text of a result: the rendering of its kind, or of its document where the kind has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from ecbench.report.formats.comparison_console import print_comparison
from ecbench.report.formats.comparison_markdown import render_comparison_markdown
from ecbench.report.formats.console import print_round_trip
from ecbench.report.formats.doctor_console import print_diagnosis
from ecbench.report.formats.document_console import print_document
from ecbench.report.formats.document_markdown import render_document_markdown
from ecbench.report.formats.listing_console import print_listing
from ecbench.report.formats.markdown import render_markdown
from ecbench.report.formats.probe_console import print_probe
from ecbench.report.formats.probe_markdown import render_probe_markdown
from ecbench.report.formats.scan_markdown import render_scan_markdown
from ecbench.report.formats.scan_text import render_scan_text
from ecbench.report.formats.sweep_console import print_sweep
from ecbench.report.formats.sweep_markdown import render_sweep_markdown
from ecbench.report.kinds import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from ecbench.core.doctor_records import ListingResult
    from ecbench.core.scan_records import ScanResult
    from ecbench.report.kinds import AnyResult


def _print_scan(result: ScanResult, console: Console) -> None:
    console.print(Text(render_scan_text(result).rstrip("\n")), soft_wrap=True)


def _print_listing(result: ListingResult, console: Console) -> None:
    print_listing(result.cases, console)


_CONSOLE: dict[str, Callable[[Any, Console], None]] = {
    "roundtrip": print_round_trip,
    "sweep": print_sweep,
    "probe-ptr-overflow": print_probe,
    "scan-ptrs": _print_scan,
    "compare": print_comparison,
    "gate": print_comparison,
    "ab": print_comparison,
    "doctor": print_diagnosis,
    "list": _print_listing,
}
_MARKDOWN: dict[str, Callable[[Any], str]] = {
    "roundtrip": render_markdown,
    "sweep": render_sweep_markdown,
    "probe-ptr-overflow": render_probe_markdown,
    "scan-ptrs": render_scan_markdown,
    "compare": render_comparison_markdown,
    "gate": render_comparison_markdown,
    "ab": render_comparison_markdown,
}


def print_result(result: AnyResult, console: Console) -> None:
    """Prints a result of any kind."""
    if show := _CONSOLE.get(result.kind):
        show(result, console)
    else:
        print_document(describe(result), console)


def result_markdown(result: AnyResult) -> str:
    """Renders a result of any kind as Markdown."""
    if render := _MARKDOWN.get(result.kind):
        return render(result)
    return render_document_markdown(describe(result))
