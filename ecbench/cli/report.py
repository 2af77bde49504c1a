"""``ecbench report``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import DEFAULT_OUT, QuietOption, printing, reports_errors
from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.report.formats.names import DEFAULT_FILES, ENDINGS, ReportFormat

if TYPE_CHECKING:
    from ecbench.workflows.reporting import Report


@reports_errors
def report(
    results: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RESULT...]", help="JSON files of any command; several are set side by side."),
    ] = None,
    formats: Annotated[
        list[ReportFormat] | None, typer.Option("--format", help="How to show them; repeatable. Without: console.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR|FILE",
            help="Folder for the files, or one file that ends like its format. Without --format: JSON, Markdown, HTML.",
        ),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of results.")] = False,
    quiet: QuietOption = False,
) -> ExitCode:
    """Show results again, with every figure computed anew from the raw samples.

    One text format and no --out prints it; several formats, png and svg are written to files. In a GitHub step, the
    Markdown is added to its summary.

    Exit codes: 0 ok, 2 bad input or a folder that cannot be written, 4 a file that is no result, damaged, or of a newer
    schema.
    """
    if schema:
        return _print_schema()
    if not results:
        raise EcbenchError("no result given: name a JSON file, or use --schema")
    from ecbench.workflows.reporting import load_report, summarise_step  # noqa: PLC0415 - keeps --help light

    loaded = load_report(results)
    formats = list(dict.fromkeys(formats or ()))
    wanted = formats or [ReportFormat.CONSOLE]
    if out is None and len(wanted) == 1 and wanted[0] in ENDINGS:
        _print(loaded, wanted[0])
    else:
        _write(loaded, formats, out or DEFAULT_OUT, quiet=quiet)
    summarise_step(loaded)
    return ExitCode.OK


def _print_schema() -> ExitCode:
    from ecbench.report.schema import results_schema  # noqa: PLC0415 - keeps --help light

    with printing():
        sys.stdout.write(json.dumps(results_schema(), indent=2) + "\n")
    return ExitCode.OK


def _print(loaded: Report, wanted: ReportFormat) -> None:
    from ecbench.workflows.reporting import print_report, render_text  # noqa: PLC0415 - keeps --help light

    with printing() as console:
        if wanted is ReportFormat.CONSOLE:
            print_report(loaded, console)
        else:
            sys.stdout.write(render_text(loaded, wanted))


def _write(loaded: Report, formats: list[ReportFormat], out: Path, *, quiet: bool) -> None:
    """Prints too where no format is named, as every command does."""
    from ecbench.workflows.reporting import write_report  # noqa: PLC0415 - keeps --help light

    if not formats and not quiet:
        _print(loaded, ReportFormat.CONSOLE)
    paths = write_report(loaded, out, formats or DEFAULT_FILES)
    if not quiet:
        typer.echo(f"reports: {', '.join(map(str, paths))}", err=True)
