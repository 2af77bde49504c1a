"""``ecbench roundtrip``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import (
    DEFAULT_OUT,
    JsonOption,
    OutOption,
    QuietOption,
    SeedOption,
    announce_imports,
    printing,
    publish_result,
    refuse_unwritable_targets,
    reports_errors,
    round_progress,
)
from ecbench.core.errors import ExitCode
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.units import parse_size

if TYPE_CHECKING:
    from ecbench.measure.stages import StageClock
    from ecbench.workflows.round_trip import RoundTrip


@reports_errors
def roundtrip(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO...]", help="Shipped names or TOML paths; none runs the default set."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda[:N], xpu[:N] or xpu-sim (emulated high addresses).")
    ] = "auto",
    workload: Annotated[str, typer.Option(help="Which scenarios to run: ec, dsv4 or all.")] = "all",
    model: Annotated[str | None, typer.Option(help="Replace the scenarios' model, e.g. qwen2-vl-2b.")] = None,
    target: Annotated[str, typer.Option(help="Whose connectors run: reference, vllm or both.")] = "reference",
    engine: Annotated[str, typer.Option(help="auto, or one that the device runs: ecbench list engines.")] = "auto",
    writer: Annotated[str, typer.Option(help="setitem, setitem-twos, numpy-item or numpy-batch.")] = "numpy-batch",
    pinned: Annotated[
        bool, typer.Option("--pinned/--pageable", help="Register host memory with an accelerator's driver, or not.")
    ] = True,
    coalesce: Annotated[
        bool | None,
        typer.Option("--coalesce/--no-coalesce", help="Join neighbouring blocks, or one descriptor per block."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, max=10_000, help="Rounds that count, per case.")] = None,
    seed: SeedOption = 0,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Refuse cases whose peak host memory is larger, e.g. 2GiB.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the memory each case takes, and run nothing.")
    ] = False,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Save and load real bytes, verify every one of them, and show how far from the ceiling the copies are.

    Exit codes: 0 ok, 1 wrong bytes or a refused copy, 2 bad input, 3 device, engine or target not available, 130
    interrupted.
    """
    host_memory = HostMemoryKind.PINNED if pinned else HostMemoryKind.PAGEABLE
    limit = parse_size(memory_limit) if memory_limit is not None else None
    from ecbench.measure.stages import StageClock, seconds_since_process_start  # noqa: PLC0415 - keeps --help light
    from ecbench.workflows.round_trip import RoundTripOptions, prepare_round_trip  # noqa: PLC0415 - imports torch

    clock = StageClock(imports_s=seconds_since_process_start())
    options = RoundTripOptions(
        scenarios=tuple(scenarios or ()),
        device=device,
        workload=workload,
        model=model,
        engine=engine,
        writer=writer,
        coalesce=coalesce,
        rounds=rounds,
        seed=seed,
        memory_limit_bytes=limit,
        host_memory=host_memory,
        target=target,
    )
    announce_imports(target, quiet=quiet)
    with clock.stage("prepare"):
        prepared = prepare_round_trip(options)
    if dry_run:
        return _print_needs(prepared)
    return _run(prepared, clock, json_path, out, quiet=quiet)


def _print_needs(prepared: RoundTrip) -> ExitCode:
    from ecbench.report.formats.console import print_memory_needs  # noqa: PLC0415 - imports rich
    from ecbench.workflows.round_trip import describe_needs  # noqa: PLC0415 - imports torch

    with printing() as console:
        print_memory_needs(describe_needs(prepared.needs), console)
    return ExitCode.OK


def _run(prepared: RoundTrip, clock: StageClock, json_path: Path | None, out: Path, *, quiet: bool) -> ExitCode:
    from ecbench.workflows.round_trip import exit_code_of, run_round_trip  # noqa: PLC0415 - imports torch

    refuse_unwritable_targets(out, json_path)
    with round_progress(quiet=quiet) as report_round:
        result = run_round_trip(prepared, clock, report_round)
    code = exit_code_of(result)
    if result.cases:
        publish_result(result, json_path, out, silent=quiet and code is ExitCode.OK, quiet=quiet)
    if not result.complete:
        typer.echo(f"ecbench: {result.ended_by or 'interrupted'}; finished cases saved: {len(result.cases)}", err=True)
    return code
