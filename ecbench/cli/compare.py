"""``ecbench compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import STDOUT, JsonOption, QuietOption, printing, reports_errors, write_json
from ecbench.core.comparison_records import FailOn
from ecbench.core.errors import ExitCode
from ecbench.core.records import to_json

if TYPE_CHECKING:
    from ecbench.core.comparison_records import ComparisonResult


@reports_errors
def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="JSON result to compare with.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="JSON result to judge.")],
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit 1 for regressions, also 5 for what is inconclusive, or 1 for any change.")
    ] = FailOn.NEVER,
    threshold: Annotated[str, typer.Option(metavar="SHARE", help="Slowdown that is accepted, e.g. 5% or 0.05.")] = "5%",
    metric: Annotated[
        str, typer.Option(help="total_s, fill_s, submit_s, copy_s, or total_per_ceiling (free of unit).")
    ] = "total_s",
    under_test: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What is meant to differ: torch, driver, ecbench, numpy, python or kernel."),
    ] = None,
    json_path: JsonOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write JSON and Markdown into this folder.")
    ] = None,
    quiet: QuietOption = False,
) -> ExitCode:
    """Compare two results: exact figures exactly, times with a verdict that knows its own error rate.

    Environment differences come first; some of them forbid to compare times. Verdicts are REGRESSED, PASSED, IMPROVED
    or INCONCLUSIVE, each with its reason.

    Exit codes: 0 ok, 2 bad input, 4 unreadable or incomparable results; with --fail-on 1 and 5 as it says.
    """
    from ecbench.workflows.compare import CompareOptions, exit_code_of, run_compare  # noqa: PLC0415 - imports scipy

    options = CompareOptions(base, new, metric, threshold, tuple(under_test or ()))
    result = run_compare(options)
    code = exit_code_of(result, fail_on)
    publish(result, json_path, out, silent=quiet and code is ExitCode.OK, quiet=quiet)
    return code


def publish(result: ComparisonResult, json_path: Path | None, out: Path | None, *, silent: bool, quiet: bool) -> None:
    """Prints a comparison and writes what was asked for.

    Args:
        result: The comparison.
        json_path: Where ``--json`` says; stdout then has nothing else.
        out: Folder for JSON and Markdown.
        silent: Print no table.
        quiet: Do not tell where files are.
    """
    if json_path != STDOUT and not silent:
        from ecbench.report.formats.comparison_console import print_comparison  # noqa: PLC0415 - imports rich

        with printing() as console:
            print_comparison(result, console)
    if json_path is not None:
        write_json(json_path, result)
    if out is not None:
        _write_files(result, out, quiet=quiet)


def _write_files(result: ComparisonResult, out: Path, *, quiet: bool) -> None:
    from ecbench.report.files import refuse_unwritable, write_result_files  # noqa: PLC0415 - keeps --help light
    from ecbench.report.formats.comparison_markdown import render_comparison_markdown  # noqa: PLC0415 - likewise

    refuse_unwritable(out)
    stem = f"{result.kind}-{result.started_at.replace(':', '').replace('+0000', 'Z')}"
    contents = {".json": to_json(result), ".md": render_comparison_markdown(result).encode()}
    paths = write_result_files(out, stem, contents)
    if not quiet:
        typer.echo(f"reports: {', '.join(map(str, paths))}", err=True)
