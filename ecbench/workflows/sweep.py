"""``ecbench sweep``: a grid -> interleaved, verified, journaled rounds -> cells and the model of their cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import EcbenchError, ExitCode, UnavailableError
from ecbench.core.records import SCHEMA_VERSION, LegStatus
from ecbench.core.sweep_records import SweepResult
from ecbench.core.units import format_seconds
from ecbench.engine.diagnostics.device_runs import read_device_runs
from ecbench.engine.machine import describe_environment
from ecbench.measure.rounds import WARM_UP_ROUNDS
from ecbench.stats.sweep_model import with_model
from ecbench.workflows.case_runs import exit_code_for, explain_device_failure, went_wrong, with_targets
from ecbench.workflows.leg_notes import with_notes
from ecbench.workflows.sweep_grid import Sweep, SweepOptions, prepare_sweep
from ecbench.workflows.sweep_journal import (
    JOURNAL_VERSION,
    Journal,
    JournalHeader,
    create_journal,
    resume_journal,
    unfinished_journals,
)
from ecbench.workflows.sweep_ledger import Ledger
from ecbench.workflows.sweep_rounds import SweepProgress, SweepRounds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ecbench.core.records import CaseResult, Environment, Param
    from ecbench.measure.stages import StageClock

__all__ = [
    "SweepOptions",
    "exit_code_of",
    "prepare_sweep",
    "ran_at_all",
    "reopen_journal",
    "run_sweep",
    "start_journal",
    "unfinished_sweeps",
]


def start_journal(sweep: Sweep, directory: Path) -> Journal:
    """Begins the journal of a new run.

    Args:
        sweep: What will be measured.
        directory: An existing folder.

    Raises:
        EcbenchError: The folder cannot be written.
    """
    header = _journal_header(sweep)
    return create_journal(directory, f"sweep-{sweep.plan.name}-{_file_time(header.started_at)}", header)


def reopen_journal(sweep: Sweep, directory: Path) -> Journal:
    """Opens the newest journal of the same scenario, to go on with it.

    Raises:
        EcbenchError: There is none, or another process is running it.
        DataError: It is of another machine, version or grid, or damaged.
    """
    found = unfinished_journals(directory, sweep.plan.name)
    if not found:
        raise EcbenchError(
            f"{directory} holds no unfinished sweep of {sweep.plan.name}: run without --resume, or name its folder "
            "with --out"
        )
    return resume_journal(found[-1], _journal_header(sweep))


def unfinished_sweeps(sweep: Sweep, directory: Path) -> list[Path]:
    """Journals of the same scenario that were left, the newest last."""
    return unfinished_journals(directory, sweep.plan.name)


def _file_time(started_at: str) -> str:
    """A start time as it stands in file names."""
    return started_at.replace(":", "").replace("+0000", "Z")


def _journal_header(sweep: Sweep) -> JournalHeader:
    """Says what this process would measure."""
    return JournalHeader(
        journal_version=JOURNAL_VERSION,
        scenario=sweep.plan.name,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=with_targets(describe_environment(sweep.device), sweep.targets),
        axes={name: list(values) for name, values in sweep.axes.items()},
        max_batch_bytes=sweep.plan.max_batch_bytes,
        rounds=sweep.plan.rounds,
        budget_s=sweep.plan.budget_s,
        seed=sweep.options.seed,
        targets=[f"{target.name} {target.version}" for target in sweep.targets],
    )


def run_sweep(
    sweep: Sweep, journal: Journal, clock: StageClock, report: Callable[[SweepProgress], None]
) -> SweepResult:
    """Runs what the journal does not hold yet.

    Args:
        sweep: From `prepare_sweep`.
        journal: Takes every round; the rounds it holds already are not run again.
        clock: Takes the time of each stage.
        report: Told after each round.

    Returns:
        The result; where Ctrl-C or a lost device ended the run, it is incomplete and holds what was measured.

    Raises:
        EcbenchError: The journal cannot be written, or memory is gone.
    """
    ledger = Ledger(sweep.cells, sweep.plan.family.workload)
    for entry in journal.rounds:
        ledger.add(entry)
    complete, ended_by = False, None
    try:
        SweepRounds(sweep, journal, ledger, clock, report).measure()
        complete = True
    except KeyboardInterrupt:
        pass
    except (UnavailableError, RuntimeError) as error:
        ended_by = explain_device_failure(error, sweep.device)
    with clock.stage("model"):
        result = with_model(_result(sweep, journal, ledger, complete=complete, ended_by=ended_by))
    return msgspec.structs.replace(result, stages_s=clock.seconds_by_stage())


def _result(sweep: Sweep, journal: Journal, ledger: Ledger, *, complete: bool, ended_by: str | None) -> SweepResult:
    pinning = dict.fromkeys(device.pinning for device in sweep.devices.values())
    # Asked again: opening a target's worker may have replaced more of its parts.
    environment = with_targets(
        msgspec.structs.replace(journal.header.environment, pinning="; ".join(pinning)), sweep.targets
    )
    return SweepResult(
        schema_version=SCHEMA_VERSION,
        kind="sweep",
        started_at=journal.header.started_at,
        environment=environment,
        settings=_settings(sweep, ledger),
        cases=_cases(sweep, ledger, environment, _why_unmeasured(sweep, complete=complete)),
        complete=complete,
        ended_by=ended_by,
        axes=journal.header.axes,
        fits=[],
        coalescing=[],
        crossovers=[],
        model_notes=[],
    )


def _settings(sweep: Sweep, ledger: Ledger) -> dict[str, Param]:
    return {
        "scenario": sweep.plan.name,
        "device": sweep.options.device,
        "max_batch_bytes": sweep.plan.max_batch_bytes,
        "rounds": sweep.plan.rounds if sweep.plan.budget_s is None else None,
        "budget_s": sweep.plan.budget_s,
        "seed": sweep.options.seed,
        "target": sweep.options.target,
        "warm_up_rounds": WARM_UP_ROUNDS,
        "processes": ledger.last_process + 1,
    }


def _why_unmeasured(sweep: Sweep, *, complete: bool) -> str:
    if not complete:
        return "the run ended before its first round that counts"
    return f"the budget of {format_seconds(sweep.plan.budget_s or 0)} was spent before its first round that counts"


def _cases(sweep: Sweep, ledger: Ledger, environment: Environment, reason: str) -> list[CaseResult]:
    params: dict[str, Param] = {"seed": sweep.options.seed}
    runs = read_device_runs()
    cases = [ledger.case(index, params, reason) for index in range(len(sweep.cells))]
    return [
        msgspec.structs.replace(case, legs=[with_notes(leg, environment, sweep.device, runs) for leg in case.legs])
        for case in cases
    ]


def ran_at_all(result: SweepResult) -> bool:
    """Tells whether there is anything to show: a cell that was measured, or that went wrong."""
    return any(leg.status is not LegStatus.SKIPPED for case in result.cases for leg in case.legs)


def exit_code_of(result: SweepResult) -> ExitCode:
    """The exit code a result calls for."""
    return exit_code_for(result, failed=any(went_wrong(leg) for case in result.cases for leg in case.legs))
