"""What one drawn request comes to: equal, different, or different for a reason that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ecbench.kv_offload.differential import Difference, compare_masks, compare_plan
from ecbench.kv_offload.known_differences import Known, known_difference, known_refusal
from ecbench.kv_offload.real_scheduler import RequestRefusedError

if TYPE_CHECKING:
    from ecbench.kv_offload.real_scheduler import RealScheduler, SchedulerRequest

MASK, SCHEDULER = "mask", "scheduler"


class Outcome(NamedTuple):
    """What one request came to."""

    check: str
    differences: tuple[Difference, ...] = ()
    refused: str | None = None
    known: Known | None = None

    @property
    def suspect(self) -> bool:
        """It differs, and nothing known explains it."""
        return self.known is None and (bool(self.differences) or self.refused is not None)

    @property
    def nature(self) -> tuple[str, str | None]:
        """What a smaller form must show as well: the same check, and the first thing that differs."""
        first = self.differences[0].what if self.differences else None
        return self.check, first


def check_masks(scheduler: RealScheduler, request: SchedulerRequest) -> Outcome:
    """Compares which chunks are stored, by the scheduler's rule alone."""
    try:
        return Outcome(MASK, compare_masks(request.plan(), scheduler.masks(request)))
    except RequestRefusedError as refusal:
        return Outcome(MASK, refused=str(refusal), known=known_refusal(str(refusal)))


def check_schedule(scheduler: RealScheduler, request: SchedulerRequest) -> Outcome:
    """Compares everything that a plan says with what the whole scheduler does."""
    plan = request.plan()
    try:
        scheduled = scheduler.schedule(request)
    except RequestRefusedError as refusal:
        return Outcome(SCHEDULER, refused=str(refusal), known=known_refusal(str(refusal)))
    differences = compare_plan(plan, scheduled)
    return Outcome(SCHEDULER, differences, known=known_difference(request, plan, scheduled) if differences else None)
