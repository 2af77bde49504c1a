"""From layer caches to cache groups, as vLLM 0.33.0 plans them for blocks that lie packed.

Caches of one shape share a bucket. Buckets whose layers repeat a pattern of page sizes (one layer of each size) are cut
into groups of equally many repeats, so that all groups fill a block about as far; a bucket of unequal counts stays
whole.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ecbench.kv_offload.groups import CacheGroup, CacheTensor, GroupKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.kv_offload.models.layer_caches import CacheShape, LayerCache

Bucket = list["LayerCache"]


def group_caches(caches: Sequence[LayerCache]) -> list[tuple[CacheGroup, Bucket]]:
    """Groups caches.

    Args:
        caches: All caches of a model in the order of registration.

    Returns:
        Groups in that order, each with its caches.
    """
    buckets: dict[CacheShape, Bucket] = {}
    for cache in caches:
        buckets.setdefault(cache.shape, []).append(cache)
    repeats = _repeats_per_group(list(buckets.values()))
    return [
        (_make_group(name, part), part)
        for bucket in buckets.values()
        for name, part in _name_parts(bucket[0].shape.group, _split(bucket, repeats))
    ]


def _repeats_per_group(buckets: Sequence[Bucket]) -> int | None:
    """Pattern repeats of a group; None where no pattern mixes page sizes, so that nothing has to be cut."""
    balanced = [_page_counts(bucket) for bucket in buckets if _is_balanced(bucket)]
    floor = max((max(counts.values()) for counts in balanced if len(counts) > 1), default=0)
    if not floor:
        return None
    return _least_padding([max(counts.values()) for counts in balanced], floor)


def _least_padding(counts: Sequence[int], floor: int) -> int:
    """The number that all counts are rounded up to multiples of most cheaply; the larger of equals."""
    candidates = range(floor, max(floor, *counts) + 1)
    return min(candidates, key=lambda size: (sum(-count % size for count in counts), -size))


def _split(bucket: Bucket, repeats: int | None) -> list[Bucket]:
    if repeats is None or not _is_balanced(bucket):
        return [bucket]
    by_page: dict[int, Bucket] = {}
    for cache in bucket:
        by_page.setdefault(cache.page_size_bytes, []).append(cache)
    pattern = list(zip(*by_page.values(), strict=True))
    parts = -(-len(pattern) // repeats)
    return [[cache for repeat in pattern[part::parts] for cache in repeat] for part in range(parts)]


def _page_counts(bucket: Bucket) -> Counter[int]:
    return Counter(cache.page_size_bytes for cache in bucket)


def _is_balanced(bucket: Bucket) -> bool:
    return len(set(_page_counts(bucket).values())) == 1


def _name_parts(name: str, parts: list[Bucket]) -> list[tuple[str, Bucket]]:
    if len(parts) == 1:
        return [(name, parts[0])]
    return [(f"{name}-{chr(ord('a') + index)}", part) for index, part in enumerate(parts)]


def _make_group(name: str, caches: Bucket) -> CacheGroup:
    shape = caches[0].shape
    return CacheGroup(
        name=name,
        kind=GroupKind.FULL if shape.window_tokens is None else GroupKind.SLIDING,
        tokens_per_block=shape.tokens_per_block,
        window_tokens=shape.window_tokens,
        tensors=tuple(
            CacheTensor(
                name=cache.tensor,
                layers=layers,
                page_size_bytes=cache.page_size_bytes,
                real_page_size_bytes=cache.real_page_size_bytes,
            )
            for cache, layers in Counter(caches).items()
        ),
    )
