"""Draws requests for a differential test."""

from __future__ import annotations

import random

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.block_sizes import scaled_block_size
from ecbench.kv_offload.groups import CacheGroup, CacheTensor, GroupKind, HybridModel, MambaCacheMode
from ecbench.kv_offload.layout import HostLayout, OffloadSettings
from ecbench.kv_offload.real_scheduler import SchedulerRequest

MODEL_NAME = "fuzzed"
MAX_GROUPS = 5
MAX_TOKENS = 4096
_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256)
_KINDS = (*[GroupKind.FULL] * 12, *[GroupKind.SLIDING] * 24, *[GroupKind.CHUNKED] * 4, GroupKind.MAMBA)
"""As often as hybrids have them."""
_SEGMENTS = 6
"""Alignment segments that the longest prompts have: rules repeat from one to the next."""
_MAX_CHUNKS = 1 << 14
"""Of all groups together; longer prompts show nothing new and take longer."""
_DRAWS = 200
"""Tries to draw a request that fits; one in three does."""


def draw_request(seed: int, number: int) -> SchedulerRequest:
    """Draws a request.

    Args:
        seed: Of the whole run.
        number: Which of its requests; the same two numbers give the same request.

    Returns:
        A request that ecbench can plan.

    Raises:
        EcbenchError: Nothing that fits was drawn.
    """
    draw = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
    for _ in range(_DRAWS):
        request = _draw(draw)
        if fits(request):
            return request
    raise EcbenchError(f"seed {seed}: no request that fits was drawn in {_DRAWS} tries: give another seed")


def fits(request: SchedulerRequest) -> bool:
    """Whether ecbench can plan the request, and in reasonable time."""
    groups, settings = request.model.groups, request.settings
    per_chunk = settings.blocks_per_chunk or 1
    if sum(request.tokens // (scaled_block_size(group) * per_chunk) for group in groups) > _MAX_CHUNKS:
        return False
    try:
        request.plan()
    except EcbenchError:
        return False
    return True


def _draw(draw: random.Random) -> SchedulerRequest:
    groups = _draw_groups(draw)
    settings = _draw_settings(draw, groups)
    tokens = _draw_tokens(draw, groups, settings)
    return SchedulerRequest(
        model=HybridModel(name=MODEL_NAME, title="Drawn", groups=groups),
        tokens=tokens,
        settings=settings,
        step_tokens=draw.choice((None, None, draw.randint(1, tokens))),
        shared_prefix=draw.choice((None, None, draw.randint(1, tokens))),
    )


def _draw_groups(draw: random.Random) -> tuple[CacheGroup, ...]:
    unit = draw.choice(_BLOCKS[:8])
    kinds = [draw.choice(_KINDS) for _ in range(draw.randint(1, MAX_GROUPS))]
    return tuple(_draw_group(draw, f"g{index}", kind, unit) for index, kind in enumerate(kinds))


def _draw_group(draw: random.Random, name: str, kind: GroupKind, unit: int) -> CacheGroup:
    block = unit * draw.choice((1, 1, 2, 4, 8)) * (draw.choice((1, 2, 4)) if kind == GroupKind.FULL else 1)
    sliding = kind == GroupKind.SLIDING
    return CacheGroup(
        name=name,
        kind=kind,
        tokens_per_block=block,
        tensors=(_tensor(draw, block),),
        window_tokens=_draw_window(draw, block) if kind in {GroupKind.SLIDING, GroupKind.CHUNKED} else None,
        eagle=kind != GroupKind.MAMBA and draw.random() < _EAGLE_SHARE,
        mamba_cache_mode=MambaCacheMode.ALIGN if kind == GroupKind.MAMBA else None,
        retained_tokens=draw.choice((0, 0, 0, 0, 1, draw.randint(1, 2 * block))) if sliding else 0,
    )


_EAGLE_SHARE = 0.15


def _tensor(draw: random.Random, block: int) -> CacheTensor:
    real = block * draw.choice((1, 8, 584))
    return CacheTensor(
        layers=draw.randint(1, 3), page_size_bytes=real + draw.choice((0, 0, 64)), real_page_size_bytes=real
    )


def _draw_window(draw: random.Random, block: int) -> int:
    """Often a whole number of blocks, or one token beside it: there the rules change."""
    near = block * draw.randint(1, 8) + draw.choice((-1, 0, 0, 1))
    return max(draw.choice((near, near, draw.randint(1, 6 * block))), 1)


def _draw_settings(draw: random.Random, groups: tuple[CacheGroup, ...]) -> OffloadSettings:
    per_chunk = draw.choice((1, 1, 1, 2, 3, 4))
    interval = max(group.tokens_per_block for group in groups) * per_chunk
    return OffloadSettings(
        retention_interval=draw.choice((None, None, 0, interval * draw.choice((1, 2, 3, 8)))),
        blocks_per_chunk=per_chunk,
        prefix_match_unit=draw.choice((None, None, None, 1, 2, min(group.tokens_per_block for group in groups))),
        tensor_parallel=draw.choice((1, 1, 1, 2, 4)),
        host_layout=draw.choice((HostLayout.PER_RANK, HostLayout.PER_RANK, HostLayout.REPLICATED)),
    )


def _draw_tokens(draw: random.Random, groups: tuple[CacheGroup, ...], settings: OffloadSettings) -> int:
    segment = max(
        max(group.tokens_per_block for group in groups) * (settings.blocks_per_chunk or 1),
        settings.retention_interval or 0,
    )
    ends = segment * draw.randint(1, _SEGMENTS) + draw.choice((-1, 0, 0, 1, groups[0].tokens_per_block))
    return min(max(draw.choice((ends, draw.randint(1, _SEGMENTS * segment))), 1), MAX_TOKENS)
