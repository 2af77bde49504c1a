"""``ecbench dsv4-swa-savings``: models, prompts and policies -> plans -> proofs -> measured copies -> one result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.savings_records import SavingsResult
from ecbench.engine.registry import open_device
from ecbench.kv_offload import host_capacity
from ecbench.workflows.case_runs import exit_code_for, run_cases, went_wrong
from ecbench.workflows.savings_against import hold_against, open_scheduler, refuse_what_no_scheduler_does
from ecbench.workflows.savings_case import describe_plan
from ecbench.workflows.savings_copies import CopyBench
from ecbench.workflows.savings_request import requested_plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.errors import ExitCode
    from ecbench.core.protocols import Device
    from ecbench.core.records import Environment, Param
    from ecbench.core.savings_records import SavingsCase
    from ecbench.kv_offload import OffloadPlan
    from ecbench.kv_offload.real_scheduler import RealScheduler
    from ecbench.measure.stages import StageClock
    from ecbench.workflows.savings_case import SavingsPlan
    from ecbench.workflows.savings_request import SavingsOptions

    CaseReport = Callable[[str], None]

KIND = "dsv4-swa-savings"
PROVED_UP_TO_TOKENS = 1 << 20
"""Longer prompts are proved only on request."""


@dataclass(frozen=True, eq=False)
class PreparedSavings:
    """A run whose every name and number was checked; every prompt is planned, nothing is allocated."""

    options: SavingsOptions
    bench: CopyBench | None
    device: Device
    cases: list[tuple[SavingsPlan, OffloadPlan]]
    scheduler: RealScheduler | None = None
    """What the plans are held against."""


def _in_silence(_: str) -> None:
    """Takes no notice."""


def prepare_savings(options: SavingsOptions, report: CaseReport = _in_silence) -> PreparedSavings:
    """Checks what was asked for and plans it.

    Args:
        options: What is asked for.
        report: Told what takes long.

    Raises:
        EcbenchError: A name or number that does not fit (exit 2), or a device or scheduler that is not here (exit 3).
    """
    planned = [(case, case.plan()) for case in requested_plans(options)]
    if options.against is not None:
        refuse_what_no_scheduler_does(options.against, [case for case, _ in planned])
    bench = CopyBench.open(options.measure, options.device) if options.measure else None
    for _, plan in planned:
        host_capacity(plan, options.host_memory_bytes)
        if bench is not None:
            bench.refuse_too_little_memory(plan)
    scheduler = open_scheduler(options.against, report) if options.against is not None else None
    return PreparedSavings(options, bench, bench.device if bench else open_device("cpu"), planned, scheduler)


def run_savings(prepared: PreparedSavings, clock: StageClock, report: CaseReport) -> SavingsResult:
    """Proves and measures every case.

    Args:
        prepared: From `prepare_savings`.
        clock: Takes the time of each stage.
        report: Told what happens now.

    Returns:
        The result; where Ctrl-C or a lost device ended the run, it is incomplete and holds the finished cases.
    """
    result = run_cases(
        prepared.cases,
        lambda case, environment: _run_case(prepared, *case, environment=environment, clock=clock, report=report),
        kind=KIND,
        device=prepared.device,
        settings=_settings(prepared.options),
        clock=clock,
        targets=[] if prepared.scheduler is None else [prepared.scheduler],
    )
    return SavingsResult(**msgspec.structs.asdict(result))


def _run_case(
    prepared: PreparedSavings,
    wanted: SavingsPlan,
    plan: OffloadPlan,
    *,
    environment: Environment,
    clock: StageClock,
    report: CaseReport,
) -> SavingsCase:
    options, bench = prepared.options, prepared.bench
    proved = options.prove if options.prove is not None else wanted.tokens <= PROVED_UP_TO_TOKENS
    report(f"{wanted.case_id}: {'proving' if proved else 'planning'}")
    with clock.stage("plan and prove"):
        case = describe_plan(wanted, plan, options.host_memory_bytes, proved=proved)
    if prepared.scheduler is not None:
        report(f"{wanted.case_id}: asking {options.against}")
        with clock.stage("ask the scheduler"):
            against = hold_against(str(options.against), prepared.scheduler, wanted.request(), plan)
        case = msgspec.structs.replace(case, against=against)
    if bench is None:
        return case
    report(f"{wanted.case_id}: measuring")
    return bench.measure(case, plan, bench.how.budget_s / len(prepared.cases), environment, clock)


def _settings(options: SavingsOptions) -> dict[str, Param]:
    """All that was asked for: a gate runs it again."""
    measure = options.measure
    return {
        "model": list(options.models),
        "tokens": list(options.tokens),
        "policy": list(options.policies),
        "retention_interval": list(options.retention_intervals),
        "alignment_tokens": options.alignment_tokens,
        "block_size": options.block_size,
        "blocks_per_chunk": options.blocks_per_chunk,
        "connector_block_size": options.connector_block_size,
        "eagle": options.eagle,
        "mtp": options.mtp,
        "indexer": options.indexer,
        "cache_dtype": options.cache_dtype,
        "tp": options.tensor_parallel,
        "host_layout": options.host_layout.value if options.host_layout is not None else None,
        "host_memory_bytes": options.host_memory_bytes,
        "prove": options.prove,
        "measure": measure is not None,
        "device": options.device if measure else None,
        "against": options.against,
        "step_tokens": options.step_tokens,
        **(measure.as_settings() if measure else {}),
    }


def exit_code_of(result: SavingsResult) -> ExitCode:
    """The exit code a result calls for.

    What cannot be loaded, was copied wrongly or differs from a real scheduler fails; what is lost does not.
    """
    differs = result.fuzz is not None and not result.fuzz.ok
    return exit_code_for(result, failed=differs or any(map(_failed, result.cases)))


def _failed(case: SavingsCase) -> bool:
    unproven = case.proof is not None and not case.proof.ok
    differs = case.against is not None and not case.against.ok
    return unproven or differs or any(map(went_wrong, [*case.legs, *case.legs_without_skip]))
