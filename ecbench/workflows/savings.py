"""``ecbench dsv4-swa-savings``: models, prompts and policies -> plans -> proofs -> measured copies -> one result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.engine.registry import open_device
from ecbench.kv_offload import host_capacity
from ecbench.workflows.case_runs import exit_code_for, run_cases, went_wrong
from ecbench.workflows.savings_case import describe_plan
from ecbench.workflows.savings_copies import CopyBench
from ecbench.workflows.savings_request import requested_plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.errors import ExitCode
    from ecbench.core.protocols import Device
    from ecbench.core.records import Environment, Param
    from ecbench.core.savings_records import SavingsCase, SavingsResult
    from ecbench.kv_offload import OffloadPlan
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


def prepare_savings(options: SavingsOptions) -> PreparedSavings:
    """Checks what was asked for and plans it.

    Raises:
        EcbenchError: A name or number that does not fit (exit 2), or a device that is not here (exit 3).
    """
    planned = [(case, case.plan()) for case in requested_plans(options)]
    bench = CopyBench.open(options.measure, options.device) if options.measure else None
    for _, plan in planned:
        host_capacity(plan, options.host_memory_bytes)
        if bench is not None:
            bench.refuse_too_little_memory(plan)
    return PreparedSavings(options, bench, bench.device if bench else open_device("cpu"), planned)


def run_savings(prepared: PreparedSavings, clock: StageClock, report: CaseReport) -> SavingsResult:
    """Proves and measures every case.

    Args:
        prepared: From `prepare_savings`.
        clock: Takes the time of each stage.
        report: Told what happens now.

    Returns:
        The result; where Ctrl-C or a lost device ended the run, it is incomplete and holds the finished cases.
    """
    return run_cases(
        prepared.cases,
        lambda case, environment: _run_case(prepared, *case, environment=environment, clock=clock, report=report),
        kind=KIND,
        device=prepared.device,
        settings=_settings(prepared.options),
        clock=clock,
    )


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
    if bench is None:
        return case
    report(f"{wanted.case_id}: measuring")
    return bench.measure(case, plan, bench.how.budget_s / len(prepared.cases), environment, clock)


def _settings(options: SavingsOptions) -> dict[str, Param]:
    measure = options.measure
    return {
        "device": options.device if measure else None,
        "prove": options.prove,
        "measure": measure is not None,
        "host_memory_bytes": options.host_memory_bytes,
        **(measure.as_settings() if measure else {}),
    }


def exit_code_of(result: SavingsResult) -> ExitCode:
    """The exit code a result calls for: what cannot be loaded or was copied wrongly fails, what is lost does not."""
    return exit_code_for(result, failed=any(map(_failed, result.cases)))


def _failed(case: SavingsCase) -> bool:
    unproven = case.proof is not None and not case.proof.ok
    return unproven or any(map(went_wrong, [*case.legs, *case.legs_without_skip]))
