"""``ecbench gate``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecbench.cli.common import (
    DEFAULT_OUT,
    JsonOption,
    OutOption,
    QuietOption,
    SeedOption,
    announce_imports,
    publish_result,
    refuse_unwritable_targets,
    reports_errors,
    round_progress,
    write_json,
)
from ecbench.core.errors import ExitCode
from ecbench.core.host_memory import HostMemoryKind

if TYPE_CHECKING:
    from ecbench.core.comparison_records import ComparisonResult
    from ecbench.core.records import RunResult
    from ecbench.measure.stages import StageClock
    from ecbench.workflows.command_gate import CommandGate
    from ecbench.workflows.gate import Gate, GateOptions, RoundTripGate


@reports_errors
def gate(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO...]", help="Shipped names or TOML paths; none runs the baseline's own."),
    ] = None,
    *,
    baseline: Annotated[Path, typer.Option(metavar="FILE", help="Result to compare with; --update writes it.")],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="gate.toml: which times are gated, and how.")
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Run, and make the result the baseline.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 5 where something is inconclusive.")] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Process rounds; by default as many as the baseline has, and 10 for a new one.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="As for roundtrip.")] = "auto",
    model: Annotated[str | None, typer.Option(help="Replace the scenarios' model.")] = None,
    target: Annotated[str, typer.Option(help="As for roundtrip.")] = "reference",
    engine: Annotated[str, typer.Option(help="As for roundtrip.")] = "auto",
    writer: Annotated[str, typer.Option(help="As for roundtrip.")] = "numpy-batch",
    pinned: Annotated[bool, typer.Option("--pinned/--pageable", help="As for roundtrip.")] = True,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Rounds that count, per case and process.")
    ] = None,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Run round trips, compare them with a baseline, and fail where they got worse.

    Where the baseline is a result of dsv4-swa-savings, probe-ptr-overflow or scan-ptrs, that command runs again, with
    the options it had then.

    Exact gates always: right bytes, blocks, descriptors, bytes copied and checked. Times are gated as --config says, at
    a 5% slowdown without it; the baseline is of another time, so the limit is twice as wide, and three times with one
    process each. A baseline of another kind of machine has exact gates only.

    Exit codes: 0 ok, 1 a regression or wrong bytes, 2 bad input, 3 not available here, 4 an unreadable or incomparable
    baseline, 5 inconclusive with --strict, 130 interrupted.
    """
    from ecbench.measure.stages import StageClock, seconds_since_process_start  # noqa: PLC0415 - keeps --help light
    from ecbench.workflows.command_gate import ROUND_TRIP, command_of  # noqa: PLC0415 - imports torch
    from ecbench.workflows.gate import GateOptions, prepare_gate, prepare_update  # noqa: PLC0415 - as above
    from ecbench.workflows.round_trip import RoundTripOptions  # noqa: PLC0415 - imports torch

    clock = StageClock(imports_s=seconds_since_process_start())
    options = GateOptions(
        round_trip=RoundTripOptions(
            scenarios=tuple(scenarios or ()),
            device=device,
            model=model,
            engine=engine,
            writer=writer,
            rounds=rounds,
            seed=seed,
            host_memory=HostMemoryKind.PINNED if pinned else HostMemoryKind.PAGEABLE,
            target=target,
        ),
        baseline=baseline,
        config=config,
        processes=processes,
        strict=strict,
    )
    if command_of(baseline) != ROUND_TRIP:
        if update:
            return _update_command(options, json_path, quiet=quiet)
        return _judge_command(options, json_path, out, quiet=quiet)
    announce_imports(target, quiet=quiet)
    if update:
        return _update(prepare_update(options), clock, json_path, quiet=quiet)
    return _judge(prepare_gate(options), clock, json_path, out, quiet=quiet)


def _update(gate: RoundTripGate, clock: StageClock, json_path: Path | None, *, quiet: bool) -> ExitCode:
    from ecbench.workflows.gate import run_processes, write_baseline  # noqa: PLC0415 - imports torch

    with round_progress(quiet=quiet) as report_round:
        run = run_processes(gate, clock, report_round)
    if json_path is not None and run.cases:
        write_json(json_path, run)
    if not run.complete:
        return _report_unfinished(run, "no baseline was written")
    write_baseline(gate, run)
    if not quiet:
        typer.echo(f"baseline: {gate.options.baseline}, process rounds: {gate.processes}", err=True)
    return ExitCode.OK


def _judge(gate: RoundTripGate, clock: StageClock, json_path: Path | None, out: Path, *, quiet: bool) -> ExitCode:
    from ecbench.workflows.gate import judge_run, processes_of, run_processes  # noqa: PLC0415 - as above

    refuse_unwritable_targets(out, json_path)
    with round_progress(quiet=quiet) as report_round:
        run = run_processes(gate, clock, report_round)
    if not run.cases:
        return _report_unfinished(run, "nothing was compared")
    code = _publish(gate, judge_run(gate, run), json_path, out, quiet=quiet)
    if run.complete:
        return code
    return _report_unfinished(
        run, f"compared what was finished: {processes_of(run)} of {gate.processes} process rounds"
    )


def _update_command(options: GateOptions, json_path: Path | None, *, quiet: bool) -> ExitCode:
    from ecbench.workflows.command_gate import prepare_command_update, write_again  # noqa: PLC0415 - imports torch

    gate = prepare_command_update(options)
    run = _run_command(gate, quiet=quiet)
    if json_path is not None:
        write_json(json_path, run)
    if not run.complete:
        return _report_unfinished(run, "no baseline was written")
    write_again(gate, run)
    if not quiet:
        typer.echo(f"baseline: {options.baseline}", err=True)
    return ExitCode.OK


def _judge_command(options: GateOptions, json_path: Path | None, out: Path, *, quiet: bool) -> ExitCode:
    from ecbench.workflows.command_gate import judge_again, prepare_command_gate  # noqa: PLC0415 - imports torch

    gate = prepare_command_gate(options)
    refuse_unwritable_targets(out, json_path)
    run = _run_command(gate, quiet=quiet)
    code = _publish(gate, judge_again(gate, run), json_path, out, quiet=quiet)
    return code if run.complete else _report_unfinished(run, "compared what was finished")


def _run_command(gate: CommandGate, *, quiet: bool) -> RunResult[Any]:
    from ecbench.workflows.command_gate import run_again  # noqa: PLC0415 - imports torch

    if not quiet:
        typer.echo(f"gate: running ecbench {shlex.join(gate.arguments)}", err=True)
    return run_again(gate)


def _publish(gate: Gate, result: ComparisonResult, json_path: Path | None, out: Path, *, quiet: bool) -> ExitCode:
    from ecbench.workflows.gate import exit_code_of  # noqa: PLC0415 - imports torch

    code = exit_code_of(gate, result)
    publish_result(result, json_path, out, silent=quiet and code is ExitCode.OK, quiet=quiet)
    return code


def _report_unfinished(run: RunResult[Any], consequence: str) -> ExitCode:
    from ecbench.workflows.case_runs import exit_code_for  # noqa: PLC0415 - imports torch

    typer.echo(f"ecbench: {run.ended_by or 'interrupted'}; {consequence}", err=True)
    return exit_code_for(run, failed=False)
