"""``ecbench selftest``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ecbench.cli.common import (
    DEFAULT_OUT,
    JsonOption,
    OutOption,
    QuietOption,
    SeedOption,
    publish_result,
    refuse_unwritable_targets,
    reports_errors,
)
from ecbench.core.errors import ExitCode
from ecbench.report.formats.names import DEFAULT_FILES, ReportFormat

REPORTS = (*DEFAULT_FILES, ReportFormat.PNG)
"""The power curve is what this command is for, so it is drawn unasked."""


@reports_errors
def selftest(
    scenario: Annotated[
        str, typer.Argument(metavar="[SCENARIO]", help="A shipped name or a TOML path; none runs a small one.")
    ] = "selftest",
    *,
    quick: Annotated[bool, typer.Option("--quick", help="At most a minute; the figures are coarser.")] = False,
    pairs: Annotated[
        int | None,
        typer.Option(min=6, max=200, help="Pairs of process rounds in a gate; default: 16, with --quick 10."),
    ] = None,
    device: Annotated[str, typer.Option(help="As for roundtrip.")] = "auto",
    engine: Annotated[str, typer.Option(help="As for roundtrip.")] = "auto",
    writer: Annotated[str, typer.Option(help="As for roundtrip.")] = "numpy-batch",
    seed: SeedOption = 0,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Find out what this tool finds here: every byte fault, and slowdowns of 3, 5, 10 and 20%.

    Injects byte faults and delays into real copies on this machine. Gives the gate's false-alarm rate, what it finds at
    which threshold, how often it cannot tell, and the threshold that fits this machine.

    Exit codes: 0 ok; 1 a fault is missed, or the gate fails on unchanged copies more often than promised; 2 bad input;
    3 device or engine not available; 4 a statistic cannot be computed; 130 interrupted.
    """
    from ecbench.measure.stages import StageClock, seconds_since_process_start  # noqa: PLC0415 - keeps --help light
    from ecbench.workflows.selftest import (  # noqa: PLC0415 - imports torch and scipy
        FULL,
        QUICK,
        SelftestOptions,
        exit_code_of,
        prepare_selftest,
        run_selftest,
    )

    clock = StageClock(imports_s=seconds_since_process_start())
    prepared = prepare_selftest(
        SelftestOptions(
            scenario=scenario,
            device=device,
            engine=engine,
            writer=writer,
            extent=QUICK if quick else FULL,
            pairs=pairs,
            seed=seed,
        )
    )
    refuse_unwritable_targets(out, json_path)
    result = run_selftest(prepared, clock, _progress(quiet=quiet))
    code = exit_code_of(result)
    if result.cases:
        publish_result(result, json_path, out, silent=quiet and code is ExitCode.OK, quiet=quiet, formats=REPORTS)
    if not result.complete:
        kept = "the turns that were finished are judged" if result.cases else "nothing was judged"
        typer.echo(f"ecbench: {result.ended_by or 'interrupted'}; {kept}", err=True)
    return code


def _progress(*, quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else (lambda message: typer.echo(message, err=True))
