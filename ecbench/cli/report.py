"""``ecbench report``."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import printing, reports_errors
from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.core.records import RoundTripResult, json_schema, to_json

if TYPE_CHECKING:
    from rich.console import Console


class Format(StrEnum):
    """Formats that a result can be shown in."""

    CONSOLE = "console"
    MARKDOWN = "markdown"
    JSON = "json"


@reports_errors
def report(
    results: Annotated[
        list[Path] | None, typer.Argument(metavar="[RESULT...]", help="JSON files of roundtrip.")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How to show them.")] = Format.CONSOLE,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of round-trip results.")] = False,
) -> ExitCode:
    """Show results again, with every figure computed anew from the raw samples.

    Exit codes: 0 ok, 2 bad input, 4 a file that is no result, damaged, or of a newer schema.
    """
    if schema:
        return _print_schema()
    if not results:
        raise EcbenchError("no result given: name a JSON file, or use --schema")
    from ecbench.report.formats.json_file import load_round_trip  # noqa: PLC0415 - keeps --help light

    loaded = [load_round_trip(path) for path in results]
    with printing() as console:
        for result in loaded:
            _show(result, output_format, console)
    return ExitCode.OK


def _print_schema() -> ExitCode:
    with printing():
        sys.stdout.write(json.dumps(json_schema(RoundTripResult), indent=2) + "\n")
    return ExitCode.OK


def _show(result: RoundTripResult, output_format: Format, console: Console) -> None:
    match output_format:
        case Format.CONSOLE:
            from ecbench.report.formats.console import print_round_trip  # noqa: PLC0415 - imports rich

            print_round_trip(result, console)
        case Format.MARKDOWN:
            from ecbench.report.formats.markdown import render_markdown  # noqa: PLC0415 - keeps --help light

            sys.stdout.write(render_markdown(result))
        case Format.JSON:
            sys.stdout.write(to_json(result).decode())
