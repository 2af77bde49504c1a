"""Gives the chunks of a sample their blocks on the device and their slots on the host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from ecbench.kv_offload.device_blocks import KvLayout
from ecbench.kv_offload.transfers import GroupTransfer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ecbench.kv_offload.sampling import ChunkSample, GroupSample
    from ecbench.kv_offload.transfers import KvMemory


class BlockOrder(StrEnum):
    """In which order blocks and slots are given out."""

    IN_ORDER = "in-order"
    """A fresh engine: neighbours in the prompt are neighbours in memory."""
    SHUFFLED = "shuffled"
    """After hours of serving: no order is left."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedTransfers:
    """A store and a load, one transfer per group.

    Args:
        memory: Where everything lies.
        stores: What is stored.
        loads: What is loaded: from slots of the store, to blocks that a new request was given.
    """

    memory: KvMemory
    stores: tuple[GroupTransfer, ...]
    loads: tuple[GroupTransfer, ...]


def place_transfers(sample: ChunkSample, order: BlockOrder, seed: int) -> PlacedTransfers:
    """Places a sample.

    Args:
        sample: Chunks and their memory.
        order: How ids are given out.
        seed: Decides what a shuffle gives.
    """
    draw = np.random.default_rng(seed)
    memory = sample.memory
    slots = _parts(_ids(memory.host.slots, order, draw), [len(group.stored) for group in sample.groups])
    stored = _block_ids(memory, [group.stored_blocks for group in sample.groups], order, draw)
    loaded = _block_ids(memory, [group.loaded_blocks for group in sample.groups], order, draw)
    groups = range(len(sample.groups))
    return PlacedTransfers(
        memory,
        stores=tuple(GroupTransfer(group, stored[group], slots[group]) for group in groups),
        loads=tuple(_load(group, sample.groups[group], loaded[group], slots[group]) for group in groups),
    )


def _load(index: int, group: GroupSample, block_ids: NDArray[np.int64], slots: NDArray[np.int64]) -> GroupTransfer:
    return GroupTransfer(index, block_ids, slots[np.searchsorted(group.stored, group.loaded)], group.skip)


def _block_ids(
    memory: KvMemory, counts: Sequence[int], order: BlockOrder, draw: np.random.Generator
) -> list[NDArray[np.int64]]:
    if memory.device.layout is KvLayout.PACKED:
        return _parts(_ids(memory.device.blocks[0], order, draw), counts)
    return [_ids(there, order, draw)[:count] for there, count in zip(memory.device.blocks, counts, strict=True)]


def _ids(there: int, order: BlockOrder, draw: np.random.Generator) -> NDArray[np.int64]:
    return np.arange(there, dtype=np.int64) if order is BlockOrder.IN_ORDER else draw.permutation(there)


def _parts(ids: NDArray[np.int64], counts: Sequence[int]) -> list[NDArray[np.int64]]:
    ends = np.cumsum(counts)
    return [ids[end - count : end] for end, count in zip(ends, counts, strict=True)]
