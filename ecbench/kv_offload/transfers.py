"""What a store or a load moves, as block ids and host slots, and the copies that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.device_blocks import block_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ecbench.kv_offload.device_blocks import DeviceBlocks
    from ecbench.kv_offload.host_slots import HostSlots
    from ecbench.kv_offload.layout import OffloadLayout


@dataclass(frozen=True, slots=True, eq=False)
class GroupTransfer:
    """Consecutive blocks of one group, and the slots of the chunks that they belong to.

    Args:
        group: Index of the group.
        block_ids: Blocks on the device in the order of the request; int64, shape ``(blocks,)``.
        slots: Host slots of their chunks in order; int64, shape ``(chunks,)``. The last chunk need not be whole.
        skip: Blocks at the start of the first chunk that are not moved.
    """

    group: int
    block_ids: NDArray[np.int64]
    slots: NDArray[np.int64]
    skip: int = 0

    @property
    def blocks(self) -> int:
        """Blocks that move."""
        return len(self.block_ids)


@dataclass(frozen=True, slots=True)
class KvMemory:
    """Both sides of all transfers of a model.

    Args:
        layout: Model and settings.
        device: Where blocks lie on the device.
        host: Where chunks lie on the host.
    """

    layout: OffloadLayout
    device: DeviceBlocks
    host: HostSlots

    @property
    def nbytes(self) -> int:
        """Both sides together."""
        return self.device.nbytes + self.host.nbytes

    def block_bytes(self, group: int) -> int:
        """Bytes that move with one block of a group."""
        return sum(piece.size_bytes for piece in block_pieces(self.layout, group, self.device.layout))


class CopyPlanner:
    """Turns transfers into copies. What depends on the memory alone is worked out once.

    Args:
        memory: Where everything lies.
        rank: Whose part of the host slots.

    Raises:
        EcbenchError: The slots have no part for the rank.
    """

    def __init__(self, memory: KvMemory, rank: int = 0) -> None:
        self._memory = memory
        self._part_offset = memory.host.part_offset(rank)
        self._pieces = [_PieceArrays.of(memory, group) for group in range(len(memory.layout.groups))]

    def plan(self, transfers: Sequence[GroupTransfer], direction: Direction) -> CopyPlan:
        """Makes copies, block by block.

        Args:
            transfers: What moves.
            direction: Store (to the host) or load (to the device).

        Returns:
            Offsets in device memory and in the slots.

        Raises:
            EcbenchError: A block or slot that is not there, slots that do not match the blocks, or a destination that
                is written twice.
        """
        device, host = self._memory.device, self._memory.host
        tables = [self._table(transfer) for transfer in transfers]
        on_device, on_host, sizes = np.concatenate([np.empty((3, 0), dtype=np.int64), *tables], axis=1)
        if direction is Direction.TO_HOST:
            return CopyPlan(on_device, on_host, sizes, device.nbytes, host.nbytes)
        return CopyPlan(on_host, on_device, sizes, host.nbytes, device.nbytes)

    def _table(self, transfer: GroupTransfer) -> NDArray[np.int64]:
        """Device offsets, host offsets and sizes; int64, shape ``(3, blocks * pieces)``."""
        self._refuse_misfit(transfer)
        pieces = self._pieces[transfer.group]
        blocks = self._memory.host.block_offsets(transfer.slots, transfer.skip, transfer.blocks)
        table = np.empty((3, transfer.blocks, len(pieces.sizes)), dtype=np.int64)
        table[0] = pieces.starts + transfer.block_ids[:, None] * pieces.row_bytes
        table[1] = (blocks + self._part_offset)[:, None] + pieces.host_offsets
        table[2] = pieces.sizes
        return table.reshape(3, -1)

    def _refuse_misfit(self, transfer: GroupTransfer) -> None:
        memory, per_chunk = self._memory, self._memory.host.blocks_per_chunk
        name = memory.layout.groups[transfer.group].name
        needed = -(-(transfer.skip + transfer.blocks) // per_chunk)
        if not 0 <= transfer.skip < per_chunk or len(transfer.slots) != needed:
            raise EcbenchError(
                f"group {name}: {transfer.blocks} blocks behind {transfer.skip} skipped ones do not fit "
                f"{len(transfer.slots)} slots of {per_chunk}: give {needed} slots and skip less than {per_chunk}"
            )
        _refuse_outside(f"group {name}: block", transfer.block_ids, memory.device.blocks[transfer.group])
        _refuse_outside(f"group {name}: slot", transfer.slots, memory.host.slots)


@dataclass(frozen=True, slots=True, eq=False)
class _PieceArrays:
    """The transfers of one block of a group; int64, shape ``(pieces,)`` each."""

    starts: NDArray[np.int64]
    row_bytes: NDArray[np.int64]
    host_offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, memory: KvMemory, group: int) -> _PieceArrays:
        tensors = memory.device.tensors[group]
        pieces = block_pieces(memory.layout, group, memory.device.layout)
        return cls(
            np.array([tensor.first_byte for tensor in tensors], dtype=np.int64),
            np.array([tensor.row_bytes for tensor in tensors], dtype=np.int64),
            np.array([piece.host_offset for piece in pieces], dtype=np.int64),
            np.array([piece.size_bytes for piece in pieces], dtype=np.int64),
        )


def _refuse_outside(what: str, ids: NDArray[np.int64], there: int) -> None:
    if len(ids) and not 0 <= ids.min() <= ids.max() < there:
        outside = ids[(ids < 0) | (ids >= there)]
        raise EcbenchError(f"{what} {outside[0]} is not there: give 0 to {there - 1}")
