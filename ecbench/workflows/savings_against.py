"""``dsv4-swa-savings --against``: the same request through a real scheduler, beside our plan of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.differential_records import PlanDifference, ScheduledGroup, SchedulerComparison
from ecbench.core.errors import EcbenchError
from ecbench.core.registry import load_registered
from ecbench.kv_offload import GroupKind
from ecbench.kv_offload.differential import Difference, compare_masks, compare_plan
from ecbench.kv_offload.known_differences import STATES_BY_RULE, known_difference, known_refusal
from ecbench.kv_offload.real_scheduler import IMPLEMENTED_POLICY, RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ecbench.kv_offload import OffloadPlan
    from ecbench.kv_offload.real_scheduler import RealScheduler, Scheduled, SchedulerRequest
    from ecbench.workflows.savings_case import SavingsPlan

SCHEDULERS = {"vllm": "ecbench.targets.vllm.kv_scheduler:VllmScheduler"}
"""Real schedulers that plans can be held against: ``"module:class"`` by name."""


def open_scheduler(name: str, report: Callable[[str], None]) -> RealScheduler:
    """Opens a real scheduler.

    Args:
        name: Registered name.
        report: Told that this takes seconds.

    Raises:
        EcbenchError: An unknown name; the message lists the choices.
        UnavailableError: It cannot run here.
    """
    make = load_registered("scheduler", name, SCHEDULERS)
    report(f"importing {name}, which can take seconds")
    scheduler: RealScheduler = make()
    return scheduler


def refuse_what_no_scheduler_does(name: str, wanted: Iterable[SavingsPlan]) -> None:
    """Refuses cases that have no counterpart in a real scheduler.

    Args:
        name: The scheduler.
        wanted: What is to be held against it.

    Raises:
        EcbenchError: An unknown scheduler, another policy than the one that is implemented, or an alignment of the
            user's own.
    """
    if name not in SCHEDULERS:
        load_registered("scheduler", name, SCHEDULERS)
    for case in wanted:
        if case.settings.policy != IMPLEMENTED_POLICY:
            raise EcbenchError(
                f"policy {case.settings.policy} cannot be held against {name}: it implements {IMPLEMENTED_POLICY}, "
                "so leave the policy out"
            )
        if case.settings.alignment_tokens is not None:
            raise EcbenchError(
                f"alignment of {case.settings.alignment_tokens} tokens cannot be held against {name}, which takes its "
                "own from the full-attention groups: leave it out"
            )


def hold_against(
    name: str, scheduler: RealScheduler, request: SchedulerRequest, plan: OffloadPlan
) -> SchedulerComparison:
    """Runs a request through a real scheduler, and compares.

    Args:
        name: The scheduler's.
        scheduler: From `open_scheduler`.
        request: What is asked.
        plan: Our plan of it.

    Returns:
        Both side by side. A request that the scheduler does not take is a result. With Mamba states only what is stored
        is compared, by the scheduler's rule alone.
    """
    label = label_of(name, scheduler)
    if any(group.kind == GroupKind.MAMBA for group in request.model.groups):
        return _by_rule_alone(label, scheduler, request, plan)
    try:
        scheduled = scheduler.schedule(request)
    except RequestRefusedError as refusal:
        known = known_refusal(str(refusal))
        return SchedulerComparison(scheduler=label, refused=str(refusal), explained=known.reason if known else None)
    differences = compare_plan(plan, scheduled)
    known = known_difference(request, plan, scheduled) if differences else None
    return SchedulerComparison(
        scheduler=label,
        groups=_groups(plan, scheduled),
        stored_real_bytes=scheduled.stored_real_bytes,
        stored_host_bytes=scheduled.stored_host_bytes,
        replay_hit_tokens=scheduled.replay_hit_tokens,
        differences=as_records(differences),
        explained=known.reason if known else None,
    )


def _by_rule_alone(
    label: str, scheduler: RealScheduler, request: SchedulerRequest, plan: OffloadPlan
) -> SchedulerComparison:
    masks = scheduler.masks(request)
    return SchedulerComparison(
        scheduler=label,
        groups=[
            ScheduledGroup(
                name=group.name,
                tokens_per_block=group.layout.tokens_per_block,
                full_chunks=len(mask),
                stored_chunks=int(mask.sum()),
            )
            for group, mask in zip(plan.groups, masks, strict=True)
            if mask is not None
        ],
        differences=as_records(compare_masks(plan, masks)),
        explained=STATES_BY_RULE.reason,
    )


def label_of(name: str, scheduler: RealScheduler) -> str:
    """A scheduler with its version."""
    return f"{name} {scheduler.version}"


def as_records(differences: Sequence[Difference]) -> list[PlanDifference]:
    """Differences as they are kept."""
    return [PlanDifference(**difference._asdict()) for difference in differences]


def _groups(plan: OffloadPlan, scheduled: Scheduled) -> list[ScheduledGroup]:
    names = [group.name for group in plan.groups]
    return [
        ScheduledGroup(
            name=names[index] if index < len(names) else f"group {index}",
            tokens_per_block=group.tokens_per_block,
            full_chunks=len(group.stored),
            stored_chunks=group.stored_chunks,
        )
        for index, group in enumerate(scheduled.groups)
    ]
