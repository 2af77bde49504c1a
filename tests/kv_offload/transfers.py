"""Small hybrids in memory, and where each of their bytes belongs, worked out one byte at a time."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from ecbench.kv_offload import CacheGroup, CacheTensor, GroupKind, HybridModel, KvPlacement, OffloadSettings, lay_out
from ecbench.kv_offload.device_blocks import KvLayout, lay_out_blocks
from ecbench.kv_offload.host_slots import HostSlots
from ecbench.kv_offload.layout import HostLayout
from ecbench.kv_offload.transfers import GroupTransfer, KvMemory


def tensor(real, padding=0, layers=1, kv="together", name="kv"):
    return CacheTensor(
        name=name, layers=layers, page_size_bytes=real + padding, real_page_size_bytes=real, kv=KvPlacement(kv)
    )


def full_group(name, *tensors):
    return CacheGroup(name=name, kind=GroupKind.FULL, tokens_per_block=16, tensors=tensors)


def memory_of(*groups, layout="per-layer", blocks=6, slots=8, **settings):
    """Memory in which every group has `blocks` blocks."""
    model = HybridModel(name="small", title="Small", groups=groups)
    layout_of = lay_out(model, OffloadSettings(**settings))
    device = lay_out_blocks(layout_of, KvLayout(layout), [blocks] * len(groups))
    return KvMemory(layout_of, device, HostSlots.of(layout_of, slots))


def transfer(group, blocks, slots, skip=0):
    return GroupTransfer(group, np.array(blocks, dtype=np.int64), np.array(slots, dtype=np.int64), skip)


def byte_moves(memory, transfers, rank=0):
    """Pairs of device and host byte: loops over blocks, tensors, layers, halves and bytes, and nothing clever."""
    moves = []
    for moved in transfers:
        for number, block in enumerate(moved.block_ids.tolist()):
            chunk, within = divmod(moved.skip + number, memory.layout.blocks_per_chunk)
            part = rank if memory.layout.copies > 1 else 0
            host = int(moved.slots[chunk]) * memory.layout.host_slot_bytes
            host += (part * memory.layout.blocks_per_chunk + within) * memory.layout.block_stride_bytes
            moves += [(there, host + here) for there, here in _block_bytes(memory, moved.group, block)]
    return moves


def _block_bytes(memory, group, block):
    tensors = iter(memory.device.tensors[group])
    if memory.device.layout is KvLayout.PACKED:
        start = next(tensors).first_byte + block * memory.layout.block_stride_bytes
        yield from ((start + byte, byte) for byte in range(memory.layout.block_stride_bytes))
        return
    page = 0
    for cache in memory.layout.groups[group].group.tensors:
        for _ in range(cache.layers):
            halves = 2 if cache.kv is KvPlacement.APART else 1
            length, row = cache.real_page_size_bytes // halves, cache.page_size_bytes // halves
            for half in range(halves if length else 0):
                start = next(tensors).first_byte + block * row
                yield from ((start + byte, page + half * length + byte) for byte in range(length))
            page += cache.page_size_bytes


@st.composite
def memories(draw):
    """Memory of a random hybrid of a few bytes, and a rank that has a part of its slots."""
    groups = []
    for index in range(draw(st.integers(1, 3))):
        tensors = [
            tensor(
                2 * draw(st.integers(index == 0, 6)), draw(st.integers(0, 5)), draw(st.integers(1, 2)), kv, f"t{number}"
            )
            for number, kv in enumerate(draw(st.lists(st.sampled_from(["together", "apart"]), min_size=1, max_size=2)))
        ]
        groups.append(full_group(f"g{index}", *tensors))
    ranks = draw(st.integers(1, 3))
    memory = memory_of(
        *groups,
        layout=draw(st.sampled_from(["packed", "per-layer"])),
        blocks_per_chunk=draw(st.integers(1, 3)),
        tensor_parallel=ranks,
        host_layout=draw(st.sampled_from(list(HostLayout))),
    )
    return memory, draw(st.integers(0, ranks - 1))


@st.composite
def transfers_in(draw, memory):
    """Transfers that share no block and no slot."""
    per_chunk = memory.layout.blocks_per_chunk
    slots = iter(draw(st.permutations(range(memory.host.slots))))
    shared_ids = iter(draw(st.permutations(range(memory.device.blocks[0]))))
    moved = []
    for group in range(len(memory.layout.groups)):
        packed = memory.device.layout is KvLayout.PACKED
        ids = shared_ids if packed else iter(draw(st.permutations(range(memory.device.blocks[group]))))
        skip = draw(st.integers(0, per_chunk - 1))
        blocks = list(itertools.islice(ids, draw(st.integers(0, 5))))
        chunks = -(-(skip + len(blocks)) // per_chunk)
        taken = list(itertools.islice(slots, chunks))
        if len(taken) < chunks:
            break
        moved.append(transfer(group, blocks, taken, skip))
    return moved
