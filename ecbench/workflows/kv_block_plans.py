"""What a KV store or load must do, block by block, worked out without the code that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.kv_offload.device_blocks import KvLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ecbench.kv_offload.placement import PlacedTransfers
    from ecbench.kv_offload.transfers import GroupTransfer, KvMemory


def block_plan(placed: PlacedTransfers, direction: Direction, slots_offset: int, region_bytes: int) -> CopyPlan:
    """The copies that a correct worker's memory amounts to.

    Args:
        placed: Blocks and slots.
        direction: Store (to the host) or load (to the device).
        slots_offset: Where slot 0 begins in the region.
        region_bytes: The region, guards included.

    Returns:
        One copy per page of each block; offsets in device memory and in the region.
    """
    memory = placed.memory
    transfers = placed.stores if direction is Direction.TO_HOST else placed.loads
    rows = [_group_rows(memory, transfer, slots_offset) for transfer in transfers if transfer.blocks]
    on_device, on_host, sizes = np.concatenate(rows).T if rows else np.empty((3, 0), dtype=np.int64)
    if direction is Direction.TO_HOST:
        return CopyPlan(on_device, on_host, sizes, memory.device.nbytes, region_bytes)
    return CopyPlan(on_host, on_device, sizes, region_bytes, memory.device.nbytes)


def _group_rows(memory: KvMemory, transfer: GroupTransfer, slots_offset: int) -> NDArray[np.int64]:
    """Device offset, host offset and size of each copy; int64, shape ``(blocks * pages, 3)``."""
    starts = slots_offset + np.array(_host_blocks(memory, transfer), dtype=np.int64)
    tensors = memory.device.tensors[transfer.group]
    columns = []
    for tensor, (within, size) in zip(tensors, _pages(memory, transfer.group), strict=True):
        on_device = tensor.first_byte + tensor.row_bytes * transfer.block_ids
        columns.append(np.stack([on_device, starts + within, np.full(transfer.blocks, size)], axis=1))
    return np.stack(columns, axis=1).reshape(-1, 3) if columns else np.empty((0, 3), dtype=np.int64)


def _host_blocks(memory: KvMemory, transfer: GroupTransfer) -> list[int]:
    """Where each block begins among the slots, counted out slot by slot; rank 0 has the first part."""
    stride, per_chunk = memory.layout.block_stride_bytes, memory.layout.blocks_per_chunk
    slot_bytes = memory.layout.host_slot_bytes
    every = [slot * slot_bytes + block * stride for slot in transfer.slots.tolist() for block in range(per_chunk)]
    return every[transfer.skip : transfer.skip + transfer.blocks]


def _pages(memory: KvMemory, group: int) -> Iterator[tuple[int, int]]:
    """Offset within a block on the host, and bytes, of each page or half page that moves."""
    if memory.device.layout is KvLayout.PACKED:
        yield 0, memory.layout.block_stride_bytes
        return
    start = 0
    for tensor in memory.layout.groups[group].group.tensors:
        for _ in range(tensor.layers):
            moved = 0
            for size in filter(None, tensor.transfer_sizes_bytes):
                yield start + moved, size
                moved += size
            start += tensor.page_size_bytes
