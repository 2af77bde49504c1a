"""``ecbench list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ecbench.cli.common import STDOUT, JsonOption, printing, reports_errors, write_json
from ecbench.core.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

list_app = typer.Typer(
    name="list",
    help="What a command line can name, whether it works here, and why not.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@list_app.command()
@reports_errors
def devices(json_path: JsonOption = None) -> ExitCode:
    """List devices."""
    return _list("devices", json_path)


@list_app.command()
@reports_errors
def engines(json_path: JsonOption = None) -> ExitCode:
    """List copy engines, and the devices here that each runs on."""
    return _list("engines", json_path)


@list_app.command()
@reports_errors
def models(json_path: JsonOption = None) -> ExitCode:
    """List the models that scenarios can name."""
    return _list("models", json_path)


@list_app.command()
@reports_errors
def scenarios(json_path: JsonOption = None) -> ExitCode:
    """List the shipped scenarios."""
    return _list("scenarios", json_path)


@list_app.command()
@reports_errors
def targets(json_path: JsonOption = None) -> ExitCode:
    """List the connectors under test."""
    return _list("targets", json_path)


@list_app.command()
@reports_errors
def writers(json_path: JsonOption = None) -> ExitCode:
    """List the ways to write descriptors."""
    return _list("writers", json_path)


def _list(what: str, json_path: Path | None) -> ExitCode:
    from ecbench.report.formats.listing_console import print_listing  # noqa: PLC0415 - imports rich
    from ecbench.workflows.listing import Listable, list_entries, listing_result  # noqa: PLC0415 - keeps --help light

    entries = list_entries(Listable(what))
    if json_path != STDOUT:
        with printing() as console:
            print_listing(entries, console)
    if json_path is not None:
        write_json(json_path, listing_result(Listable(what), entries))
    return ExitCode.OK
