"""Chooses an engine per batch, by what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ecbench.core.descriptors import DescriptorBatch, PreparedCopy
    from ecbench.core.protocols import CopyEngine


@dataclass(frozen=True)
class HostChoice:
    """When one vectorised call beats a loop of ``memmove``.

    Args:
        min_blocks: Least number of equal blocks.
        max_block_bytes: Largest such block.
    """

    min_blocks: int
    max_block_bytes: int


HOST_CHOICE = HostChoice(min_blocks=256, max_block_bytes=64 * 1024)
"""From ``benchmarks/engine_choice.py`` on two cores of an AMD EPYC (Zen 3, 32 MiB last-level cache): preparing a gather
costs as much as 256 calls of ``memmove`` save; from 64 KiB on, there is nothing to save."""


class AutoHostEngine:
    """``gather`` for many small equal blocks, ``memmove`` for everything else.

    Args:
        gather: Taken for many small equal blocks.
        memmove: Taken otherwise.
    """

    name = "auto"

    def __init__(self, gather: CopyEngine, memmove: CopyEngine) -> None:
        self._gather = gather
        self._memmove = memmove

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Prepares the batch with the engine that suits it; the result names it."""
        return self._choose(batch).prepare(batch)

    def _choose(self, batch: DescriptorBatch) -> CopyEngine:
        sizes = batch.sizes.numpy().view(np.uint64)
        if len(sizes) < HOST_CHOICE.min_blocks:
            return self._memmove
        common = int(np.median(sizes))
        equal = int((sizes == np.uint64(common)).sum())
        small = common <= HOST_CHOICE.max_block_bytes
        return self._gather if small and equal >= HOST_CHOICE.min_blocks else self._memmove
