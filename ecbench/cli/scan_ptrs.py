"""``ecbench scan-ptrs``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import STDOUT, JsonOption, QuietOption, annotate_result, printing, reports_errors, write_json
from ecbench.core.errors import ExitCode
from ecbench.core.scan_records import FailOn
from ecbench.report.formats.names import DEFAULT_FILES

if TYPE_CHECKING:
    from ecbench.core.scan_records import ScanResult


class ScanFormat(StrEnum):
    """Formats on stdout."""

    TEXT = "text"
    MARKDOWN = "markdown"
    SARIF = "sarif"


@reports_errors
def scan_ptrs(
    path: Annotated[
        Path | None, typer.Argument(metavar="[PATH]", help="A Python file, or a folder of them.", show_default=False)
    ] = None,
    package: Annotated[
        str | None, typer.Option(metavar="NAME", help="An installed package instead; it is not imported.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option(help="Exit 1 for findings of this severity or worse.")] = FailOn.CRASH,
    baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="Findings in this file do not count.")] = None,
    write_baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all findings to this file; they do not count then.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 5 where a file cannot be parsed.")] = False,
    output_format: Annotated[ScanFormat, typer.Option("--format", help="What to print.")] = ScanFormat.TEXT,
    json_path: JsonOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write JSON, Markdown, a page and SARIF there.")
    ] = None,
    quiet: QuietOption = False,
) -> ExitCode:
    """Find where Python sources store addresses so that one >= 2**63 breaks. Nothing is imported or run.

    A comment "# ecbench: ignore[R1] reason" on a line accepts a finding there.

    Severities: corruption (a wrong address, silently), crash, latent (host addresses and platform-bound folders).

    Exit codes: 0 ok, 1 findings, 2 bad input, 4 an unreadable baseline, 5 a file that cannot be parsed with --strict.
    """
    from ecbench.workflows.scan import ScanOptions, exit_code_of, run_scan  # noqa: PLC0415 - keeps --help light

    options = ScanOptions(
        path=path,
        package=package,
        fail_on=fail_on,
        baseline=baseline,
        write_baseline=write_baseline,
        strict=strict,
    )
    result = run_scan(options)
    code = exit_code_of(result, options)
    if json_path != STDOUT and not (quiet and code is ExitCode.OK):
        with printing():
            sys.stdout.write(_rendered(result, output_format))
    if json_path is not None:
        write_json(json_path, result)
    annotate_result(result)
    if out is not None:
        _write_files(result, out, quiet=quiet)
    return code


def _rendered(result: ScanResult, output_format: ScanFormat) -> str:
    from ecbench.report.formats.sarif import render_sarif  # noqa: PLC0415 - keeps --help light
    from ecbench.report.formats.scan_markdown import render_scan_markdown  # noqa: PLC0415 - likewise
    from ecbench.report.formats.scan_text import render_scan_text  # noqa: PLC0415 - likewise

    render = {
        ScanFormat.TEXT: render_scan_text,
        ScanFormat.MARKDOWN: render_scan_markdown,
        ScanFormat.SARIF: render_sarif,
    }
    return render[output_format](result)


def _write_files(result: ScanResult, out: Path, *, quiet: bool) -> None:
    from ecbench.report.files import refuse_unwritable, write_result_files  # noqa: PLC0415 - keeps --help light
    from ecbench.workflows.reporting import render_files, report_on  # noqa: PLC0415 - imports rich

    refuse_unwritable(out)
    report = report_on(result)
    contents = {**render_files(report, DEFAULT_FILES), ".sarif": _rendered(result, ScanFormat.SARIF).encode()}
    paths = write_result_files(out, report.stem, contents)
    if not quiet:
        typer.echo(f"reports: {', '.join(map(str, paths))}", err=True)
