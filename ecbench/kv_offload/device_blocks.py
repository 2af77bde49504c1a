"""Where blocks lie in device memory: one buffer for all groups, or a tensor for every cache of every layer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ecbench.kv_offload.groups import KvPlacement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecbench.kv_offload.groups import CacheGroup
    from ecbench.kv_offload.layout import OffloadLayout

GUARD_BYTES = 4096
"""Poisoned bytes before, between and after tensors."""
ALIGNMENT_BYTES = 512
"""Where torch's CUDA allocator begins a tensor."""


class KvLayout(StrEnum):
    """How the caches of a hybrid lie on the device."""

    PACKED = "packed"
    """One buffer in steps of the block stride; groups lie over one another, and a block moves whole."""
    PER_LAYER = "per-layer"
    """One tensor per cache and layer, K and V in halves of it; real pages move, one by one."""


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """Rows of equal length, one per block.

    Args:
        first_byte: First byte of row 0 in device memory.
        row_bytes: From one row to the next.
        rows: Blocks.
    """

    first_byte: int
    row_bytes: int
    rows: int

    @property
    def end_byte(self) -> int:
        """One behind the last byte."""
        return self.first_byte + self.row_bytes * self.rows


@dataclass(frozen=True, slots=True)
class DeviceBlocks:
    """The device memory of a model's caches.

    Args:
        layout: How caches lie there.
        tensors: For each group, where its transfers read and write: one tensor per transfer of a block, in the order of
            `CacheGroup.tensors`, their layers, K before V.
        blocks: For each group, how many block ids it may use, from 0 on.
        nbytes: All of it, guards included.
    """

    layout: KvLayout
    tensors: tuple[tuple[DeviceTensor, ...], ...]
    blocks: tuple[int, ...]
    nbytes: int


def lay_out_blocks(layout: OffloadLayout, kind: KvLayout, blocks: Sequence[int]) -> DeviceBlocks:
    """Works out device memory.

    Args:
        layout: Model and settings.
        kind: How caches lie.
        blocks: Blocks that each group needs. Packed, the groups share the sum of them, and a block belongs to one group
            at a time; per layer, each group has its own.
    """
    if kind is KvLayout.PACKED:
        pool = sum(blocks)
        buffer = DeviceTensor(GUARD_BYTES, layout.block_stride_bytes, pool)
        groups = len(layout.groups)
        return DeviceBlocks(kind, ((buffer,),) * groups, (pool,) * groups, buffer.end_byte + GUARD_BYTES)
    return _one_tensor_per_cache(layout, blocks)


def _one_tensor_per_cache(layout: OffloadLayout, blocks: Sequence[int]) -> DeviceBlocks:
    end = 0
    groups = []
    for group, rows in zip(layout.groups, blocks, strict=True):
        tensors = []
        for row_bytes in _row_sizes(group.group):
            tensors.append(DeviceTensor(_round_up(end + GUARD_BYTES, ALIGNMENT_BYTES), row_bytes, rows))
            end = tensors[-1].end_byte
        groups.append(tuple(tensors))
    return DeviceBlocks(KvLayout.PER_LAYER, tuple(groups), tuple(blocks), end + GUARD_BYTES)


@dataclass(frozen=True, slots=True)
class BlockPiece:
    """One transfer of a block.

    Args:
        host_offset: Its first byte within the block's bytes on the host.
        size_bytes: Bytes that move.
    """

    host_offset: int
    size_bytes: int


def block_pieces(layout: OffloadLayout, group: int, kind: KvLayout) -> tuple[BlockPiece, ...]:
    """The transfers of one block, one per tensor of `DeviceBlocks.tensors`.

    On the host a block is laid out alike for both layouts: pages with their padding one after the other, V behind K.

    Args:
        layout: Model and settings.
        group: Index of the group.
        kind: How caches lie on the device.
    """
    if kind is KvLayout.PACKED:
        return (BlockPiece(0, layout.block_stride_bytes),)
    return tuple(_pieces(layout.groups[group].group))


def _pieces(group: CacheGroup) -> Iterator[BlockPiece]:
    page_start = 0
    for tensor in group.tensors:
        for _ in range(tensor.layers):
            start = page_start
            for size in filter(None, tensor.transfer_sizes_bytes):
                yield BlockPiece(start, size)
                start += size
            page_start += tensor.page_size_bytes


def _row_sizes(group: CacheGroup) -> Iterator[int]:
    """K of all blocks comes before V of all blocks where they lie apart."""
    for tensor in group.tensors:
        if not tensor.real_page_size_bytes:
            continue
        halves = 2 if tensor.kv is KvPlacement.APART else 1
        for _ in range(tensor.layers * halves):
            yield tensor.page_size_bytes // halves


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step
