"""Brings a region into the state a scenario asks for, through the allocator and nothing else."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from ecbench.core.errors import EcbenchError
from ecbench.encoder_cache.cache import EmbeddingCache
from ecbench.encoder_cache.scheduler import EncoderCacheScheduler
from ecbench.encoder_cache.workloads.scenario import Placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.encoder_cache.blocks import BlockIds
    from ecbench.encoder_cache.workloads.scenario import EncoderCacheCase

CHURN_ALLOCATIONS = 1500
"""Runs per entry, mean of 12 seeds of ``ec-churned``: 7 after 250 allocations, 20 after 1500, 22 after 6000."""
CHURN_ENTRIES = 16
"""Mean-sized entries that fill a churned region: few enough for the default run's memory, enough to fragment."""


class BlockAllocator(Protocol):
    """What places entries: the reference's allocator, or another of the same operations."""

    def alloc(self, key: str, blocks: int, /) -> object | None:
        """Gives an entry its blocks; None where there is no room."""

    def mark_ready(self, key: str, /) -> None:
        """Makes an entry one that may be evicted."""

    def pin(self, key: str, /) -> None:
        """Holds a ready entry."""


def region_blocks_of(case: EncoderCacheCase) -> int:
    """Blocks of the region that a case needs."""
    if case.region_capacity_blocks is not None:
        return case.region_capacity_blocks
    wanted = sum(case.blocks_per_entry)
    match case.scenario.placement:
        case Placement.ONE_RUN:
            return wanted
        case Placement.SCATTERED:
            return 2 * wanted
        case Placement.CHURNED:
            sizes = _churn_sizes(case)
            # The entries of the case are held all at once; twice their room leaves the allocator something to evict.
            return max(2 * wanted, CHURN_ENTRIES * sum(sizes) // len(sizes))


def place_entries(case: EncoderCacheCase) -> dict[str, BlockIds]:
    """Allocates the entries of a case.

    Returns:
        Blocks of each entry, in the case's order.
    """
    cache = EmbeddingCache(region_blocks_of(case))
    prepare_allocator(case, cache)
    block_bytes = case.model.block_size_bytes
    wanted = {key: blocks * block_bytes for key, blocks in zip(case.shapes, case.blocks_per_entry, strict=True)}
    plan = EncoderCacheScheduler(cache, block_bytes).plan_step(wanted)
    if plan.skipped:
        raise EcbenchError(f"{case.case_id}: no room in the region for {', '.join(plan.skipped)}: use fewer images")
    return plan.saves


def prepare_allocator(case: EncoderCacheCase, cache: BlockAllocator) -> None:
    """Brings a fresh allocator into the state that the case's placement asks for.

    Args:
        case: Says which.
        cache: Of `region_blocks_of` blocks.
    """
    if case.scenario.placement is Placement.CHURNED:
        _churn(cache, _churn_sizes(case), random.Random(case.seed))  # noqa: S311 - a workload, no secret
    elif case.scenario.placement is Placement.SCATTERED:
        _occupy_every_other_block(cache, region_blocks_of(case))


def _churn_sizes(case: EncoderCacheCase) -> list[int]:
    """Every image size of the model up to the largest the case uses: real regions hold a mixture."""
    largest = max(case.tokens)
    return [tokens * case.model.rows_per_token for tokens in case.model.tokens.values() if tokens <= largest]


def _churn(cache: BlockAllocator, sizes: Sequence[int], draw: random.Random) -> None:
    for number in range(CHURN_ALLOCATIONS):
        key = f"churn-{number}"
        if cache.alloc(key, draw.choice(sizes)) is not None:
            cache.mark_ready(key)


def _occupy_every_other_block(cache: BlockAllocator, blocks: int) -> None:
    for block in range(blocks):
        cache.alloc(f"single-{block}", 1)
        cache.mark_ready(f"single-{block}")
    for block in range(0, blocks, 2):
        cache.pin(f"single-{block}")
