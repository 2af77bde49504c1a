"""``ecbench sweep``."""

from __future__ import annotations

import sys
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
)
from ecbench.cli.sweep_progress import sweep_progress
from ecbench.core.errors import ExitCode
from ecbench.core.units import parse_size

if TYPE_CHECKING:
    from ecbench.core.sweep_records import SweepResult
    from ecbench.measure.stages import StageClock
    from ecbench.workflows.sweep_grid import Sweep
    from ecbench.workflows.sweep_journal import Journal


@reports_errors
def sweep(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A shipped name or a TOML path.")],
    block_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE,...", help="Bytes of a block, e.g. 4KiB,7KiB; of KV cells tokens, e.g. 64,256."),
    ] = None,
    count: Annotated[str | None, typer.Option(metavar="N,...", help="Blocks of a batch, e.g. 16,256,4096.")] = None,
    run_length: Annotated[
        str | None, typer.Option(metavar="N,...", help="Blocks that are neighbours on the host.")
    ] = None,
    byte_offset: Annotated[
        str | None, typer.Option(metavar="BYTES,...", help="Shift of device addresses, e.g. 0,8,64,512,4096.")
    ] = None,
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--pageable", help="Only host memory that is pinned, or that is not.")
    ] = None,
    alignment_tokens: Annotated[
        str | None, typer.Option(metavar="TOKENS,...", help="KV: what hits end on, e.g. default,512,1024.")
    ] = None,
    blocks_per_chunk: Annotated[
        str | None, typer.Option(metavar="N,...", help="KV: blocks that are stored together, e.g. 1,2,4.")
    ] = None,
    retention_interval: Annotated[
        str | None, typer.Option(metavar="TOKENS,...", help="KV: from one kept tail to the next, e.g. none,0,4096.")
    ] = None,
    writer: Annotated[str | None, typer.Option(metavar="NAME,...", help="What writes descriptors.")] = None,
    target: Annotated[str, typer.Option(help="Whose connectors copy: reference, vllm or both.")] = "reference",
    engine: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="What moves bytes; all takes every engine that runs here.")
    ] = None,
    direction: Annotated[str | None, typer.Option(metavar="NAME,...", help="save (KV: store), load or both.")] = None,
    axis: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE,...", help="Any axis, e.g. coalesce=true,false.")
    ] = None,
    max_batch: Annotated[str | None, typer.Option(metavar="SIZE", help="Leave out larger batches, e.g. 64MiB.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda[:N], xpu[:N] or xpu-sim.")] = "auto",
    rounds: Annotated[int | None, typer.Option(min=1, max=10_000, help="Rounds that count, per cell.")] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time for all rounds, e.g. 60s, spent where intervals are widest."),
    ] = None,
    seed: SeedOption = 0,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Refuse a sweep whose peak host memory is larger, e.g. 2GiB.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cells, bytes and expected time; run nothing.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished sweep in the reports folder.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask about 10,000 cells or more.")] = False,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Measure a grid of copies, every byte verified, and explain the times with a cost model.

    Exit codes: 0 ok, 1 wrong bytes or a refused copy, 2 bad input, 3 nothing can run here, 4 a journal of another
    machine, version or grid, 130 interrupted (go on with --resume).
    """
    limit = parse_size(memory_limit) if memory_limit is not None else None
    from ecbench.measure.stages import StageClock, seconds_since_process_start  # noqa: PLC0415 - keeps --help light
    from ecbench.workflows.sweep import SweepOptions, prepare_sweep  # noqa: PLC0415 - imports torch and scipy
    from ecbench.workflows.sweep_axes import axes_of_options  # noqa: PLC0415 - keeps --help light

    clock = StageClock(imports_s=seconds_since_process_start())
    axes = axes_of_options(
        axis or [],
        block_size=block_size,
        count=count,
        run_length=run_length,
        byte_offset=byte_offset,
        alignment_tokens=alignment_tokens,
        blocks_per_chunk=blocks_per_chunk,
        retention_interval=retention_interval,
        host_memory={None: None, True: "pinned", False: "pageable"}[pinned],
        writer=writer,
        engine=engine,
        direction=direction,
    )
    announce_imports(target, quiet=quiet)
    prepared = prepare_sweep(
        SweepOptions(
            scenario=scenario,
            axes=axes,
            device=device,
            max_batch_bytes=parse_size(max_batch) if max_batch is not None else None,
            rounds=rounds,
            budget=budget,
            seed=seed,
            memory_limit_bytes=limit,
            target=target,
        )
    )
    if dry_run:
        return _print_plan(prepared)
    _confirm(prepared, yes=yes)
    return _run(prepared, clock, json_path, out, resume=resume, quiet=quiet)


def _print_plan(prepared: Sweep) -> ExitCode:
    from ecbench.report.formats.sweep_console import print_sweep_plan  # noqa: PLC0415 - imports rich
    from ecbench.workflows.sweep_grid import describe_cells, describe_totals  # noqa: PLC0415 - imports torch

    with printing() as console:
        print_sweep_plan(describe_cells(prepared), describe_totals(prepared), console)
    return ExitCode.OK


def _confirm(prepared: Sweep, *, yes: bool) -> None:
    from ecbench.workflows.sweep_grid import describe_totals, refuse_unconfirmed  # noqa: PLC0415 - imports torch

    if yes or not prepared.needs_confirmation:
        return
    if sys.stdin.isatty() and typer.confirm(f"{describe_totals(prepared)}: run it?", err=True):
        return
    refuse_unconfirmed(prepared)


def _run(
    prepared: Sweep, clock: StageClock, json_path: Path | None, out: Path, *, resume: bool, quiet: bool
) -> ExitCode:
    from ecbench.workflows.sweep import (  # noqa: PLC0415 - imports torch and scipy
        exit_code_of,
        ran_at_all,
        reopen_journal,
        run_sweep,
        start_journal,
        unfinished_sweeps,
    )

    refuse_unwritable_targets(out, json_path)
    left = [] if resume or quiet else unfinished_sweeps(prepared, out)
    if left:
        typer.echo(f"sweep: an unfinished one is in {left[-1]}: --resume would go on with it", err=True)
    with (reopen_journal if resume else start_journal)(prepared, out) as journal:
        with sweep_progress(quiet=quiet) as report:
            result = run_sweep(prepared, journal, clock, report)
        code = exit_code_of(result)
        if ran_at_all(result):
            publish_result(result, json_path, out, silent=quiet and code is ExitCode.OK, quiet=quiet)
        if result.complete:
            journal.discard()
        else:
            _say_how_to_go_on(result, journal)
    return code


def _say_how_to_go_on(result: SweepResult, journal: Journal) -> None:
    typer.echo(
        f"ecbench: {result.ended_by or 'interrupted'}; {journal.kept} cell-rounds are in {journal.path}: "
        "go on with --resume",
        err=True,
    )
