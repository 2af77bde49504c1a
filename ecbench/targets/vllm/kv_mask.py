"""vLLM's own rule for what a group stores, without a scheduler around it: thousands of requests in a second."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ecbench.kv_offload import GroupKind
from ecbench.targets.vllm.kv_models import named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload import OffloadPlan
    from ecbench.kv_offload.layout import GroupLayout
    from ecbench.kv_offload.real_scheduler import SchedulerRequest

_MANAGERS = "vllm.v1.core.single_type_kv_cache_manager"
_SPECS = "vllm.v1.kv_cache_interface"


def group_masks(request: SchedulerRequest) -> tuple[NDArray[np.bool_] | None, ...]:
    """Asks vLLM which chunks of a request each group stores.

    The arguments are those that vLLM's scheduler gives: the plan's alignment, the retention interval, the boundaries of
    the request, and the end of the prompt where a last, cut segment may keep its tail. The prompt is asked about in the
    request's steps.

    Returns:
        One mask per group, bool, shape ``(chunks,)``; None for a group whose kind has no mask.
    """
    plan = request.plan()
    return tuple(_mask(request, plan, group.layout) for group in plan.groups)


def _mask(request: SchedulerRequest, plan: OffloadPlan, layout: GroupLayout) -> NDArray[np.bool_] | None:
    rule = _rule(layout.kind)
    if rule is None:
        return None
    per_chunk, retention = layout.blocks_per_chunk, request.settings.retention_interval
    chunks = request.tokens // layout.tokens_per_chunk
    asked = {
        "alignment_tokens": plan.alignment_tokens,
        "kv_cache_spec": _spec(layout),
        "use_eagle": layout.group.eagle,
        "retention_interval": retention,
        "reachable_boundaries": () if retention is None else plan.prompt.boundaries,
        "final_segment_end_block": chunks * per_chunk if retention is None and not layout.group.eagle else None,
    }
    masks = [
        _chunks(rule(start_block=first * per_chunk, end_block=end * per_chunk, **asked), end - first, per_chunk)
        for first, end in _steps(request, layout, chunks)
    ]
    return np.concatenate([np.empty(0, dtype=np.bool_), *masks])


def _steps(request: SchedulerRequest, layout: GroupLayout, chunks: int) -> list[tuple[int, int]]:
    step = request.step_tokens or max(request.tokens, 1)
    ends = [min(done // layout.tokens_per_chunk, chunks) for done in range(step, request.tokens + step, step)]
    return [(first, end) for first, end in zip([0, *ends], ends, strict=False) if end > first]


def _chunks(blocks: list[bool] | None, chunks: int, per_chunk: int) -> NDArray[np.bool_]:
    """A chunk is stored if any of its blocks is; no mask at all stores everything."""
    if blocks is None:
        return np.ones(chunks, dtype=np.bool_)
    of_blocks = np.array(blocks, dtype=np.bool_).reshape(chunks, per_chunk)
    stored: NDArray[np.bool_] = np.logical_or.reduce(of_blocks, axis=1)
    return stored


def _rule(kind: GroupKind) -> Any:
    managers = {GroupKind.SLIDING: "SlidingWindowManager", GroupKind.MAMBA: "MambaManager"}
    return named(_MANAGERS, managers[kind]).reachable_block_mask if kind in managers else None


def _spec(layout: GroupLayout) -> Any:
    group = layout.group
    # What is retained beyond the window is stored with it.
    window = (group.window_tokens or 1) + group.retained_tokens
    return _sliding(layout.tokens_per_block, window) if group.window_tokens else _mamba(layout.tokens_per_block)


@cache
def _sliding(tokens_per_block: int, window: int) -> Any:
    return named(_SPECS, "SlidingWindowSpec")(
        block_size=tokens_per_block, num_kv_heads=1, head_size=1, dtype=torch.uint8, sliding_window=window
    )


@cache
def _mamba(tokens_per_block: int) -> Any:
    return named(_SPECS, "MambaSpec")(block_size=tokens_per_block, shapes=((1,),), dtypes=(torch.uint8,))
