"""The command-line application: which commands there are."""

from __future__ import annotations

from typing import Annotated

import typer

from ecbench.cli.ab import ab
from ecbench.cli.compare import compare
from ecbench.cli.conformance import conformance
from ecbench.cli.doctor import doctor
from ecbench.cli.dsv4_swa_savings import dsv4_swa_savings
from ecbench.cli.gate import gate
from ecbench.cli.list_command import list_app
from ecbench.cli.probe_ptr_overflow import probe_ptr_overflow
from ecbench.cli.report import report
from ecbench.cli.roundtrip import roundtrip
from ecbench.cli.scan_ptrs import scan_ptrs
from ecbench.cli.selftest import selftest
from ecbench.cli.sweep import sweep
from ecbench.version import __version__

app = typer.Typer(
    name="ecbench",
    help="Byte-verified benchmarks and diagnostics for encoder-cache and KV-offload transfers of vLLM-style engines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(roundtrip)
app.command()(sweep)
app.command()(dsv4_swa_savings)
app.command()(conformance)
app.command()(probe_ptr_overflow)
app.command()(scan_ptrs)
app.command()(compare)
app.command()(gate)
app.command()(ab)
app.command()(selftest)
app.command()(report)
app.command()(doctor)
app.add_typer(list_app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ecbench {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Shared by all commands."""
