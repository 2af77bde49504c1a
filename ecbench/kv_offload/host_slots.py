"""Where chunks lie in host memory: slots of one size, whatever the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload.layout import OffloadLayout


@dataclass(frozen=True, slots=True)
class HostSlots:
    """Slots one after the other; in each, a part per copy, and in each part the blocks of one chunk.

    A part holds whole block strides, so the padding of pages, narrower groups and what rounds a slot up to pages of the
    operating system all stay unused.

    Args:
        slots: Slots.
        slot_bytes: From one slot to the next.
        block_bytes: From one block of a chunk to the next.
        blocks_per_chunk: Blocks of a chunk.
        copies: Parts of a slot: one per rank, or one that all ranks share.
    """

    slots: int
    slot_bytes: int
    block_bytes: int
    blocks_per_chunk: int
    copies: int

    @classmethod
    def of(cls, layout: OffloadLayout, slots: int) -> HostSlots:
        """Slots for a model under settings."""
        return cls(slots, layout.host_slot_bytes, layout.block_stride_bytes, layout.blocks_per_chunk, layout.copies)

    @property
    def nbytes(self) -> int:
        """All slots."""
        return self.slots * self.slot_bytes

    def part_offset(self, rank: int) -> int:
        """Where a rank's part of a slot begins.

        Raises:
            EcbenchError: There is no such part.
        """
        if rank < 0 or (self.copies > 1 and rank >= self.copies):
            raise EcbenchError(
                f"rank {rank} has no part of a host slot with {self.copies} copies: give 0 to {self.copies - 1}"
            )
        return rank * self.blocks_per_chunk * self.block_bytes if self.copies > 1 else 0

    def block_offsets(self, slots: NDArray[np.int64], skip: int, blocks: int) -> NDArray[np.int64]:
        """First byte of each of consecutive blocks, in the first part of their slots.

        Args:
            slots: Slots of the chunks, in order; int64, shape ``(chunks,)``.
            skip: Blocks of the first chunk that come before the first one.
            blocks: Blocks.

        Returns:
            int64, shape ``(blocks,)``.
        """
        chunk, within = np.divmod(np.arange(skip, skip + blocks, dtype=np.int64), self.blocks_per_chunk)
        offsets: NDArray[np.int64] = slots[chunk] * self.slot_bytes + within * self.block_bytes
        return offsets
