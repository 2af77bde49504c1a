"""A model's caches as vLLM's KV worker is told of them, and the host slots it makes of that. Needs no vLLM."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.host_memory import SlotOrder
from ecbench.kv_offload.device_blocks import block_pieces
from ecbench.kv_offload.layout import HOST_PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.kv_offload.device_blocks import DeviceTensor
    from ecbench.kv_offload.transfers import GroupTransfer, KvMemory

SLOT_ORDER = SlotOrder.TENSORS
"""A slot is a row of the shared region; every tensor has the same columns of all rows."""


@dataclass(frozen=True, slots=True)
class PageRef:
    """One transfer of a block.

    Args:
        tensor: Index of the tensor in `CacheRefs.tensors`.
        size_bytes: Bytes that move: the page without its padding.
    """

    tensor: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CacheRefs:
    """Tensors, and which of them each group reads and writes.

    Args:
        tensors: Each once, in the order in which they lie in a slot.
        groups: For each group, the transfers of one block.
        rank_bytes: What one rank puts into a slot: every tensor's page of each block of a chunk, padding included.
        slot_bytes: From one slot to the next.
    """

    tensors: tuple[DeviceTensor, ...]
    groups: tuple[tuple[PageRef, ...], ...]
    rank_bytes: int
    slot_bytes: int


def refer_to_caches(memory: KvMemory) -> CacheRefs:
    """Works out what the worker is told.

    Packed, all groups refer to one tensor, whose rows are whole blocks. Per layer, every tensor belongs to one group,
    and the worker gives each a part of every slot, also of the slots of other groups.

    Args:
        memory: Where everything lies.
    """
    index: dict[DeviceTensor, int] = {}
    groups = []
    for number, tensors in enumerate(memory.device.tensors):
        pieces = block_pieces(memory.layout, number, memory.device.layout)
        groups.append(
            tuple(
                PageRef(index.setdefault(tensor, len(index)), piece.size_bytes)
                for tensor, piece in zip(tensors, pieces, strict=True)
            )
        )
    rank_bytes = sum(tensor.row_bytes for tensor in index) * memory.layout.blocks_per_chunk
    return CacheRefs(tuple(index), tuple(groups), rank_bytes, _whole_pages(rank_bytes * memory.layout.copies))


def region_bytes(memory: KvMemory) -> int:
    """Host memory that the worker's region takes; it has no guards.

    Args:
        memory: Where everything lies; of its host side, only the number of slots counts.
    """
    return memory.host.slots * refer_to_caches(memory).slot_bytes


@dataclass(frozen=True, slots=True)
class JobIds:
    """What a job names, group by group.

    Args:
        block_ids: Blocks on the device.
        group_sizes: Blocks of each group.
        first_blocks: Where each group's first block lies in its chunk.
        slots: Host slots.
    """

    block_ids: list[int]
    group_sizes: list[int]
    first_blocks: list[int]
    slots: list[int]


def name_blocks(transfers: Sequence[GroupTransfer]) -> JobIds:
    """Lists what a store or a load moves.

    Args:
        transfers: One per group, in the order of the groups.
    """
    moving = [transfer for transfer in transfers if transfer.blocks]
    return JobIds(
        block_ids=list(itertools.chain.from_iterable(transfer.block_ids.tolist() for transfer in moving)),
        group_sizes=[transfer.blocks for transfer in transfers],
        first_blocks=[transfer.skip for transfer in transfers],
        # The worker passes over a group without blocks, and would take its slots for the next group's.
        slots=list(itertools.chain.from_iterable(transfer.slots.tolist() for transfer in moving)),
    )


def _whole_pages(size: int) -> int:
    return -(-size // HOST_PAGE_BYTES) * HOST_PAGE_BYTES
