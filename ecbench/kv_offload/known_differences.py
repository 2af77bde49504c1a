"""Differences from vLLM's scheduler that are understood, each with its reason and with what it predicts exactly."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecbench.kv_offload.differential import compare_plan
from ecbench.kv_offload.groups import GroupKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload.planning import GroupPlan, OffloadPlan
    from ecbench.kv_offload.real_scheduler import Scheduled, SchedulerRequest


class Known(NamedTuple):
    """A difference that is understood."""

    name: str
    reason: str


FREED_EARLY = Known(
    "freed-before-whole",
    "the prompt is computed in steps shorter than a chunk, so that a window has passed the chunk's first blocks before "
    "its last one is computed; vLLM 0.33 does not store such a chunk, 0.32 stores it with a part left unwritten",
)
STATES_BY_RULE = Known(
    "states-by-rule-alone",
    "vLLM's engine hands Mamba states over in a way of its own, which is not run here: what is stored is compared by "
    "the rule alone, and bytes and hits are not",
)
_REFUSALS = (
    (
        re.compile(r"prefix_match_unit.*single KV cache group"),
        Known(
            "match-unit-of-one-group",
            "with one cache group vLLM hashes whole blocks and takes no other prefix match unit; the unit has no "
            "effect on a plan",
        ),
    ),
    (
        re.compile(r"prefix_cache_retention_interval is set but this model has no sliding-window"),
        Known(
            "retention-without-window",
            "vLLM refuses a retention interval above 0 where no group is sliding or keeps Mamba states; a plan stores "
            "everything, as without it",
        ),
    ),
    (re.compile(r"keeps Mamba states"), STATES_BY_RULE),
)


def known_refusal(words: str) -> Known | None:
    """Why vLLM refuses a request that can be planned, where that is understood."""
    return next((known for pattern, known in _REFUSALS if pattern.search(words)), None)


def known_difference(request: SchedulerRequest, plan: OffloadPlan, scheduled: Scheduled) -> Known | None:
    """Why a scheduler did otherwise than planned, where that explains all of the difference.

    Args:
        request: What was asked.
        plan: Ours.
        scheduled: The scheduler's.

    Returns:
        The reason; None where nothing known turns the plan into what the scheduler did.
    """
    if request.step_tokens is None or len(plan.groups) != len(scheduled.groups):
        return None
    pairs = zip(plan.groups, scheduled.groups, strict=True)
    if any(len(ours.stored) != len(theirs.stored) for ours, theirs in pairs):
        return None
    groups = tuple(
        replace(ours, stored=ours.stored & (theirs.stored | ~_may_be_freed(ours, request.step_tokens)))
        for ours, theirs in zip(plan.groups, scheduled.groups, strict=True)
    )
    return FREED_EARLY if not compare_plan(replace(plan, groups=groups), scheduled) else None


def _may_be_freed(group: GroupPlan, step: int) -> NDArray[np.bool_]:
    """Chunks whose first block the window has passed before the step in which they become whole; bool, per chunk."""
    layout = group.layout
    starts = np.arange(group.full_chunks, dtype=np.int64) * layout.tokens_per_chunk
    computed = (starts + layout.tokens_per_chunk - 1) // step * step
    return starts + layout.tokens_per_block <= _passed(group, computed)


def _passed(group: GroupPlan, computed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens that nothing looks back at any more once so many are computed."""
    window = group.layout.group.window_tokens or 1
    if group.layout.kind == GroupKind.SLIDING:
        return computed - group.layout.group.retained_window_tokens + 1
    if group.layout.kind == GroupKind.CHUNKED:
        return computed // window * window
    return np.zeros_like(computed)
