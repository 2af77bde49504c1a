"""``ecbench probe-ptr-overflow``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import (
    DEFAULT_OUT,
    STDOUT,
    JsonOption,
    OutOption,
    QuietOption,
    printing,
    publish_result,
    refuse_unwritable_targets,
    reports_errors,
)
from ecbench.core.errors import ExitCode

if TYPE_CHECKING:
    from ecbench.core.probe_records import ProbeResult
    from ecbench.pointers.environments import Progress


class FailOnChoice(StrEnum):
    """What exits 1; a test holds it against `ecbench.pointers.rulings.FailOn`, which imports more than --help needs."""

    FAILS = "fails"
    CORRUPTION = "corruption"
    UNEXPECTED = "unexpected"
    NEVER = "never"


@reports_errors
def probe_ptr_overflow(
    torch: Annotated[
        list[str] | None,
        typer.Option("--torch", metavar="VERSION", help="Probe this torch in an environment of its own; repeatable."),
    ] = None,
    numpy: Annotated[
        list[str] | None,
        typer.Option("--numpy", metavar="VERSION", help="With this NumPy, each with each torch; repeatable."),
    ] = None,
    python: Annotated[
        list[Path] | None,
        typer.Option("--python", metavar="PATH", help="Probe an existing interpreter or environment; repeatable."),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Show every finding; also compiled graphs and Triton.")
    ] = False,
    fail_on: Annotated[
        FailOnChoice,
        typer.Option("--fail-on", help="What exits 1, each including those after it; see the exit codes."),
    ] = FailOnChoice.UNEXPECTED,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Show how torch and NumPy store addresses at or above 2**63, and which convention is safe.

    Without --torch, --numpy and --python, the torch and NumPy of this installation are probed.

    Exit codes: 0 ok; 1 a behaviour that is not expected of its version or an unsafe recommended convention (and, with
    --fail-on corruption or fails, any convention that corrupts or raises); 2 bad input; 3 a version or interpreter that
    could not be probed; 130 interrupted.
    """
    from ecbench.measure.stages import StageClock, seconds_since_process_start  # noqa: PLC0415 - keeps --help light
    from ecbench.pointers.rulings import FailOn  # noqa: PLC0415 - as above
    from ecbench.workflows.probe import ProbeOptions, exit_code_of, prepare_probe, run_probe  # noqa: PLC0415 - torch

    clock = StageClock(imports_s=seconds_since_process_start())
    options = ProbeOptions(tuple(torch or ()), tuple(numpy or ()), tuple(python or ()), details)
    prepared = prepare_probe(options)
    refuse_unwritable_targets(out, json_path)
    result = run_probe(prepared, clock, _progress(quiet=quiet))
    code = exit_code_of(result, FailOn(fail_on.value))
    if result.cases:
        silent = quiet and code is ExitCode.OK
        publish_result(result, json_path, out, silent=silent, quiet=quiet)
        if details and not silent and json_path != STDOUT:
            _print_details(result)
    if not result.complete:
        typer.echo(f"ecbench: interrupted; finished cases saved: {len(result.cases)}", err=True)
    return code


def _progress(*, quiet: bool) -> Progress:
    return (lambda _: None) if quiet else (lambda message: typer.echo(message, err=True))


def _print_details(result: ProbeResult) -> None:
    from ecbench.report.formats.probe_console import print_probe_details  # noqa: PLC0415 - imports rich

    with printing() as console:
        print_probe_details(result, console)
