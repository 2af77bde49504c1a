"""Our plan against what a real scheduler did with the same request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecbench.kv_offload.lookup import look_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ecbench.kv_offload.planning import OffloadPlan
    from ecbench.kv_offload.real_scheduler import Scheduled


class Difference(NamedTuple):
    """Something that the two do not agree on."""

    what: str
    ours: str
    theirs: str
    first_chunk: int | None = None
    """The first chunk that only one of them stores."""
    group: str | None = None


def compare_plan(plan: OffloadPlan, scheduled: Scheduled) -> tuple[Difference, ...]:
    """Finds all differences between a plan and what a scheduler did.

    Args:
        plan: Ours.
        scheduled: The scheduler's.

    Returns:
        Differences in the order of causes: sizes, groups, stored chunks, bytes, the hit. Where the groups are not the
        same, no chunks are compared.
    """
    sizes = [*_layout_differences(plan, scheduled)]
    if len(plan.groups) != len(scheduled.groups):
        groups = Difference("cache groups", str(len(plan.groups)), str(len(scheduled.groups)))
        return (*sizes, groups)
    return (*sizes, *_group_differences(plan, scheduled), *_total_differences(plan, scheduled))


def compare_masks(plan: OffloadPlan, masks: tuple[NDArray[np.bool_] | None, ...]) -> tuple[Difference, ...]:
    """Finds the groups of which another mask stores other chunks; groups without a mask are left out."""
    pairs = zip(plan.groups, masks, strict=True)
    found = [_chunk_difference(group.name, group.stored, mask) for group, mask in pairs if mask is not None]
    return tuple(difference for difference in found if difference is not None)


def replay_hit(plan: OffloadPlan) -> int:
    """Tokens that the same prompt and one token more hits."""
    return look_up(plan, plan.prompt.tokens + 1).tokens


def _layout_differences(plan: OffloadPlan, scheduled: Scheduled) -> Iterator[Difference]:
    layout = plan.layout
    yield from _unequal(
        None,
        ("alignment in tokens", plan.alignment_tokens, scheduled.alignment_tokens),
        ("scheduler block", layout.scheduler_block_size, scheduled.scheduler_block_size),
        ("hash block", layout.hash_block_size, scheduled.hash_block_size),
        ("block stride in bytes", layout.block_stride_bytes, scheduled.block_stride_bytes),
        ("host slot in bytes", layout.host_slot_bytes, scheduled.host_slot_bytes),
    )


def _group_differences(plan: OffloadPlan, scheduled: Scheduled) -> Iterator[Difference]:
    for ours, theirs in zip(plan.groups, scheduled.groups, strict=True):
        layout, group = ours.layout, ours.layout.group
        yield from _unequal(
            ours.name,
            ("caches", group.layers, theirs.caches),
            ("tokens per block", layout.tokens_per_block, theirs.tokens_per_block),
            ("tokens per chunk", layout.tokens_per_chunk, theirs.tokens_per_chunk),
            ("window in chunks", layout.window_chunks, theirs.window_chunks),
            ("EAGLE", group.eagle, theirs.eagle),
            ("page in bytes", group.page_size_bytes, theirs.page_size_bytes),
            ("real page in bytes", group.real_page_size_bytes, theirs.real_page_size_bytes),
        )
        different = _chunk_difference(ours.name, ours.stored, theirs.stored)
        if different is not None:
            yield different


def _total_differences(plan: OffloadPlan, scheduled: Scheduled) -> Iterator[Difference]:
    totals = plan.totals
    yield from _unequal(
        None,
        ("stored real bytes", totals.stored_real_bytes, scheduled.stored_real_bytes),
        ("stored host bytes", totals.stored_host_bytes, scheduled.stored_host_bytes),
        ("replay hit in tokens", replay_hit(plan), scheduled.replay_hit_tokens),
    )


def _unequal(group: str | None, *facts: tuple[str, object, object]) -> Iterator[Difference]:
    for what, ours, theirs in facts:
        if ours != theirs:
            yield Difference(what, _shown(ours), _shown(theirs), group=group)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value).lower()


def _chunk_difference(name: str, ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> Difference | None:
    if len(ours) != len(theirs):
        return Difference("whole chunks", _shown(len(ours)), _shown(len(theirs)), group=name)
    apart = np.flatnonzero(ours != theirs)
    if not len(apart):
        return None
    counts = [_shown(int(np.count_nonzero(mask))) for mask in (ours, theirs)]
    return Difference("stored chunks", counts[0], counts[1], first_chunk=int(apart[0]), group=name)
