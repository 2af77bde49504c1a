"""What a KV store or load must do, block by block, worked out without the code that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.core.host_memory import SlotOrder
from ecbench.kv_offload.device_blocks import KvLayout
from ecbench.kv_offload.layout import HOST_PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ecbench.kv_offload.placement import PlacedTransfers
    from ecbench.kv_offload.transfers import GroupTransfer, KvMemory


class _PagePlace(NamedTuple):
    """Where a slot holds a page, or half a page, of each block of a chunk."""

    first_byte: int
    block_bytes: int
    moved_bytes: int


class _SlotPlaces(NamedTuple):
    """A slot, and for each group the places of its pages."""

    slot_bytes: int
    groups: list[list[_PagePlace]]


def block_plan(
    placed: PlacedTransfers,
    direction: Direction,
    slots_offset: int,
    region_bytes: int,
    order: SlotOrder = SlotOrder.BLOCKS,
) -> CopyPlan:
    """The copies that a correct worker's memory amounts to.

    Args:
        placed: Blocks and slots.
        direction: Store (to the host) or load (to the device).
        slots_offset: Where slot 0 begins in the region.
        region_bytes: The region, guards included.
        order: In which order a slot holds the pages of a chunk.

    Returns:
        One copy per page of each block; offsets in device memory and in the region.
    """
    memory = placed.memory
    transfers = placed.stores if direction is Direction.TO_HOST else placed.loads
    places = _places(memory, order)
    rows = [_group_rows(memory, transfer, slots_offset, places) for transfer in transfers if transfer.blocks]
    on_device, on_host, sizes = np.concatenate(rows).T if rows else np.empty((3, 0), dtype=np.int64)
    if direction is Direction.TO_HOST:
        return CopyPlan(on_device, on_host, sizes, memory.device.nbytes, region_bytes)
    return CopyPlan(on_host, on_device, sizes, region_bytes, memory.device.nbytes)


def _group_rows(memory: KvMemory, transfer: GroupTransfer, slots_offset: int, places: _SlotPlaces) -> NDArray[np.int64]:
    """Device offset, host offset and size of each copy; int64, shape ``(blocks * pages, 3)``."""
    slots, within = np.array(_chunk_blocks(memory, transfer), dtype=np.int64).T
    columns = []
    for tensor, place in zip(memory.device.tensors[transfer.group], places.groups[transfer.group], strict=True):
        on_device = tensor.first_byte + tensor.row_bytes * transfer.block_ids
        on_host = slots_offset + slots * places.slot_bytes + place.first_byte + within * place.block_bytes
        columns.append(np.stack([on_device, on_host, np.full(transfer.blocks, place.moved_bytes)], axis=1))
    return np.stack(columns, axis=1).reshape(-1, 3) if columns else np.empty((0, 3), dtype=np.int64)


def _chunk_blocks(memory: KvMemory, transfer: GroupTransfer) -> list[tuple[int, int]]:
    """Slot of each block and its number there, counted out slot by slot; rank 0 has the first part of a slot."""
    per_chunk = memory.layout.blocks_per_chunk
    every = [(slot, block) for slot in transfer.slots.tolist() for block in range(per_chunk)]
    return every[transfer.skip : transfer.skip + transfer.blocks]


def _places(memory: KvMemory, order: SlotOrder) -> _SlotPlaces:
    layout = memory.layout
    if memory.device.layout is KvLayout.PACKED:
        # A block is one page, so both orders are one.
        whole = _PagePlace(0, layout.block_stride_bytes, layout.block_stride_bytes)
        return _SlotPlaces(layout.host_slot_bytes, [[whole]] * len(layout.groups))
    if order is SlotOrder.BLOCKS:
        return _SlotPlaces(layout.host_slot_bytes, [list(_in_block(memory, group)) for group in _groups(memory)])
    return _tensor_by_tensor(memory)


def _groups(memory: KvMemory) -> range:
    return range(len(memory.layout.groups))


def _in_block(memory: KvMemory, group: int) -> Iterator[_PagePlace]:
    """Pages with their padding one after the other, V behind K."""
    start = 0
    for tensor in memory.layout.groups[group].group.tensors:
        for _ in range(tensor.layers):
            moved = 0
            for size in filter(None, tensor.transfer_sizes_bytes):
                yield _PagePlace(start + moved, memory.layout.block_stride_bytes, size)
                moved += size
            start += tensor.page_size_bytes


def _tensor_by_tensor(memory: KvMemory) -> _SlotPlaces:
    """Every tensor's pages of a whole chunk, one tensor after the other through all groups."""
    per_chunk, end = memory.layout.blocks_per_chunk, 0
    places: list[list[_PagePlace]] = [[] for _ in _groups(memory)]
    for group in _groups(memory):
        for tensor in memory.layout.groups[group].group.tensors:
            halves = [size for size in tensor.transfer_sizes_bytes if size]
            for size in halves * tensor.layers:
                page_bytes = tensor.page_size_bytes // len(halves)
                places[group].append(_PagePlace(end, page_bytes, size))
                end += page_bytes * per_chunk
    return _SlotPlaces(-(-end * memory.layout.copies // HOST_PAGE_BYTES) * HOST_PAGE_BYTES, places)
