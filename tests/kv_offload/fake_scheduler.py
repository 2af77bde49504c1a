"""A scheduler that does as planned, but for what a test makes it do otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ecbench.kv_offload.differential import replay_hit
from ecbench.kv_offload.real_scheduler import Scheduled, ScheduledGroup, SchedulerRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from ecbench.kv_offload import OffloadPlan


def as_planned(plan: OffloadPlan) -> Scheduled:
    """What a scheduler does that follows the plan."""
    layout = plan.layout
    return Scheduled(
        alignment_tokens=plan.alignment_tokens,
        scheduler_block_size=layout.scheduler_block_size,
        hash_block_size=layout.hash_block_size,
        block_stride_bytes=layout.block_stride_bytes,
        host_slot_bytes=layout.host_slot_bytes,
        replay_hit_tokens=replay_hit(plan),
        groups=tuple(
            ScheduledGroup(
                caches=group.layout.group.layers,
                tokens_per_block=group.layout.tokens_per_block,
                tokens_per_chunk=group.layout.tokens_per_chunk,
                window_chunks=group.layout.window_chunks,
                eagle=group.layout.group.eagle,
                page_size_bytes=group.layout.group.page_size_bytes,
                real_page_size_bytes=group.layout.group.real_page_size_bytes,
                stored=group.stored.copy(),
            )
            for group in plan.groups
        ),
    )


def flip(scheduled: Scheduled, group: int, chunk: int) -> Scheduled:
    """The same where one chunk of one group is stored that was not, or the other way round."""
    stored = scheduled.groups[group].stored.copy()
    stored[chunk] = not stored[chunk]
    groups = list(scheduled.groups)
    groups[group] = replace(groups[group], stored=stored)
    return replace(scheduled, groups=tuple(groups))


def unchanged(request: SchedulerRequest, scheduled: Scheduled) -> Scheduled:
    return scheduled


@dataclass
class FakeScheduler:
    """Follows the plan, then changes what it did; `before` may raise."""

    change: Callable[[SchedulerRequest, Scheduled], Scheduled] = unchanged
    before: Callable[[SchedulerRequest], object] = lambda _: None
    masks_change: bool = False
    name: str = "vllm"
    version: str = "0.33.0"
    stand_ins: tuple[str, ...] = ("config object",)
    asked: list[SchedulerRequest] = field(default_factory=list)

    def schedule(self, request: SchedulerRequest) -> Scheduled:
        self.asked.append(request)
        self.before(request)
        return self.change(request, as_planned(request.plan()))

    def masks(self, request: SchedulerRequest) -> tuple[np.ndarray | None, ...]:
        scheduled = as_planned(request.plan())
        scheduled = self.change(request, scheduled) if self.masks_change else scheduled
        kinds = [group.kind for group in request.model.groups]
        return tuple(
            group.stored if kind in {"sliding", "mamba"} else None
            for group, kind in zip(scheduled.groups, kinds, strict=True)
        )
