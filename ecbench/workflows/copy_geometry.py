"""Where the blocks of a synthetic batch lie: packed on the device, in runs with gaps between them on the host."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np

from ecbench.core.copy_plan import CopyPlan, merge_adjacent
from ecbench.core.descriptors import Direction

GUARD_BYTES = mmap.PAGESIZE
"""Bytes around all blocks, on either side, that no copy may touch."""
_PLAN_BYTES_PER_BLOCK = 2 * 3 * 8
"""Two directions, three int64 each."""


@dataclass(frozen=True)
class CopyGeometry:
    """A batch of equal blocks.

    Args:
        block_size_bytes: Bytes of a block.
        blocks: Blocks of the batch.
        run_length: Blocks that are neighbours on the host; the last run may be shorter.
        byte_offset: Shift of every device address.
    """

    block_size_bytes: int
    blocks: int
    run_length: int
    byte_offset: int

    @property
    def copied_bytes(self) -> int:
        """Bytes of the batch."""
        return self.block_size_bytes * self.blocks

    @property
    def runs(self) -> int:
        """Runs of neighbours: the descriptors that are left when they are joined."""
        return -(-self.blocks // self.run_length)

    @property
    def arena_bytes(self) -> int:
        """Device memory, guards included."""
        return self.copied_bytes + self.byte_offset + 2 * GUARD_BYTES

    @property
    def region_blocks(self) -> int:
        """Blocks that runs and the gaps behind them take on the host."""
        return self.runs * (self.run_length + 1)

    @property
    def region_bytes(self) -> int:
        """Host memory, guards included: a run takes its blocks and one more, so that no two runs touch."""
        return self.runs * self._pitch_bytes + 2 * GUARD_BYTES

    @property
    def plan_bytes(self) -> int:
        """Memory of the plans of both directions, joined and apart."""
        return 2 * _PLAN_BYTES_PER_BLOCK * self.blocks

    @property
    def _pitch_bytes(self) -> int:
        return (self.run_length + 1) * self.block_size_bytes

    def plan(self, direction: Direction, seed: int) -> CopyPlan:
        """Lays the blocks out.

        Args:
            direction: Which way.
            seed: Decides the order of the runs, which is random as after hours of serving.

        Returns:
            One copy per block.
        """
        block = np.arange(self.blocks, dtype=np.int64)
        run, place = np.divmod(block, self.run_length)
        slot = np.random.default_rng(seed).permutation(self.runs)[run]
        on_device = GUARD_BYTES + self.byte_offset + block * self.block_size_bytes
        on_host = GUARD_BYTES + slot * self._pitch_bytes + place * self.block_size_bytes
        sizes = np.full(self.blocks, self.block_size_bytes, dtype=np.int64)
        if direction is Direction.TO_HOST:
            return CopyPlan(on_device, on_host, sizes, self.arena_bytes, self.region_bytes)
        return CopyPlan(on_host, on_device, sizes, self.region_bytes, self.arena_bytes)


def descriptors_of(plan: CopyPlan, coalesce: bool) -> CopyPlan:
    """The copies to submit for a plan of blocks: joined where neighbours continue each other, or as they are."""
    return merge_adjacent(plan) if coalesce else plan
