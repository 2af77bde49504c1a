"""Engines that move bytes with the host's own instructions."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.descriptors import PreparedCopy
from ecbench.engine.devices.host_pool import array_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import Stream

    Addresses = NDArray[np.uint64]

MAX_GROUPS = 64
"""Alignments of equal blocks that `GatherEngine` handles apart; beyond, single copies cost no more than grouping."""
ROWS_PER_STEP = 32
"""Blocks per step where neither side is contiguous: NumPy buffers them, and 32 x 16 KiB stay in a core's L2 cache."""


class MemmoveEngine:
    """One ``memmove`` per descriptor."""

    name = "memmove"

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Takes any batch of host addresses."""
        columns = [
            column.tolist()
            for column in (_addresses(batch.destinations), _addresses(batch.sources), _addresses(batch.sizes))
        ]
        copies = list(zip(*columns, strict=True))

        def run(_: Stream) -> None:
            memmove = ctypes.memmove
            for destination, source, size in copies:
                memmove(destination, source, size)

        return PreparedCopy(self.name, threads=1, run=run)


class GatherEngine:
    """One vectorised NumPy call for all blocks of equal size and alignment; ``memmove`` for the rest."""

    name = "gather"

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Takes any batch of host addresses."""
        sources, destinations = _addresses(batch.sources), _addresses(batch.destinations)
        sizes = _addresses(batch.sizes)
        groups, rest = _equal_blocks(sources, destinations, sizes)
        singles = list(zip(destinations[rest].tolist(), sources[rest].tolist(), sizes[rest].tolist(), strict=True))

        def run(_: Stream) -> None:
            for group in groups:
                group.copy()
            for destination, source, size in singles:
                ctypes.memmove(destination, source, size)

        return PreparedCopy(self.name, threads=1, run=run)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Blocks of one size as rows of an array over their memory.

    Args:
        view: void of the block's size, shape ``(rows,)``; spans from the lowest to the highest block.
        index: Row of each block, int64, shape ``(n,)``.
    """

    view: NDArray[np.void]
    index: NDArray[np.int64]

    @classmethod
    def over(cls, addresses: Addresses, block_bytes: int) -> _Rows:
        base = int(addresses.min())
        index = ((addresses - np.uint64(base)) // np.uint64(block_bytes)).astype(np.int64)
        memory = array_at(base, (int(index.max()) + 1) * block_bytes, None)
        return cls(memory.view(np.dtype((np.void, block_bytes))), index)

    @property
    def in_order(self) -> bool:
        return len(self.view) == len(self.index) and bool((self.index == np.arange(len(self.index))).all())


@dataclass(frozen=True, eq=False)
class _EqualBlocks:
    source: _Rows
    destination: _Rows

    def copy(self) -> None:
        if self.destination.in_order:
            np.take(self.source.view, self.source.index, out=self.destination.view, mode="clip")
        elif self.source.in_order:
            self.destination.view[self.destination.index] = self.source.view
        else:
            self._copy_in_steps()

    def _copy_in_steps(self) -> None:
        for start in range(0, len(self.source.index), ROWS_PER_STEP):
            step = slice(start, start + ROWS_PER_STEP)
            self.destination.view[self.destination.index[step]] = self.source.view[self.source.index[step]]


def _equal_blocks(
    sources: Addresses, destinations: Addresses, sizes: Addresses
) -> tuple[list[_EqualBlocks], NDArray[np.bool_]]:
    """Splits a batch into groups of equal blocks and a mask of what is left."""
    everything = np.ones(len(sizes), dtype=bool)
    values, counts = np.unique(sizes[sizes > 0], return_counts=True)
    if not len(values):
        return [], everything
    block = values[counts.argmax()]
    equal = sizes == block
    alignment = (sources[equal] % block) * block + destinations[equal] % block
    kinds, kind_of = np.unique(alignment, return_inverse=True)
    if len(kinds) > MAX_GROUPS:
        return [], everything
    members = [np.flatnonzero(equal)[kind_of == kind] for kind in range(len(kinds))]
    groups = [
        _EqualBlocks(_Rows.over(sources[rows], int(block)), _Rows.over(destinations[rows], int(block)))
        for rows in members
    ]
    return groups, ~equal


def _addresses(column: object) -> Addresses:
    return column.numpy().view(np.uint64)  # type: ignore[attr-defined, no-any-return]
