"""What vLLM's KV worker is told of a model's caches, and where its slots then hold them. Needs no vLLM."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.descriptors import Direction
from ecbench.core.host_memory import SlotOrder
from ecbench.kv_offload import OffloadSettings, lay_out, load_model
from ecbench.kv_offload.device_blocks import KvLayout, lay_out_blocks
from ecbench.kv_offload.host_slots import HostSlots
from ecbench.kv_offload.placement import PlacedTransfers
from ecbench.kv_offload.transfers import KvMemory
from ecbench.targets.vllm.kv_layout import PageRef, name_blocks, refer_to_caches, region_bytes
from ecbench.workflows.kv_block_plans import block_plan
from tests.kv_offload.transfers import full_group, memories, memory_of, tensor, transfer, transfers_in


def flash(kind, **settings):
    layout = lay_out(load_model("deepseek-v4-flash"), OffloadSettings(**settings))
    return KvMemory(layout, lay_out_blocks(layout, kind, [4] * len(layout.groups)), HostSlots.of(layout, 5))


@pytest.mark.parametrize("settings", [{}, {"blocks_per_chunk": 4}, {"blocks_per_chunk": 4, "tensor_parallel": 4}])
def test_packed_all_groups_refer_to_one_tensor_and_move_whole_blocks(settings):
    memory = flash(KvLayout.PACKED, **settings)
    refs = refer_to_caches(memory)
    assert refs.tensors == memory.device.tensors[0]
    assert refs.groups == ((PageRef(0, 1_002_240),),) * 5
    assert refs.rank_bytes == 1_002_240 * memory.layout.blocks_per_chunk
    assert refs.slot_bytes == memory.layout.host_slot_bytes


def test_per_layer_every_tensor_has_a_part_of_a_slot_and_real_pages_move():
    memory = flash(KvLayout.PER_LAYER, blocks_per_chunk=4)
    refs = refer_to_caches(memory)
    assert [len(group) for group in refs.groups] == [22, 21, 62, 42, 20]
    assert [ref.tensor for group in refs.groups for ref in group] == list(range(22 + 21 + 62 + 42 + 20))
    real = [sum(ref.size_bytes for ref in group) for group in refs.groups]
    assert real == [822_272, 784_896, 985_664, 860_160, 655_360]
    assert refs.rank_bytes == 4 * (823_680 + 786_240 + 1_002_240 + 870_912 + 656_640)
    assert region_bytes(memory) == 5 * refs.slot_bytes


def test_slots_are_whole_pages_of_all_ranks():
    refs = refer_to_caches(memory_of(full_group("g", tensor(1500)), tensor_parallel=3, blocks_per_chunk=2))
    assert (refs.rank_bytes, refs.slot_bytes) == (3000, 12_288)


def test_k_and_v_apart_are_two_tensors():
    refs = refer_to_caches(memory_of(full_group("g", tensor(8, padding=4, layers=2, kv="apart"), tensor(6))))
    assert refs.groups == ((PageRef(0, 4), PageRef(1, 4), PageRef(2, 4), PageRef(3, 4), PageRef(4, 6)),)
    assert [place.row_bytes for place in refs.tensors] == [6, 6, 6, 6, 6]


def test_a_job_lists_blocks_and_slots_group_by_group_and_no_slots_of_a_group_without_blocks():
    ids = name_blocks([transfer(0, [5, 3, 4], [7, 2], skip=1), transfer(1, [], [8], skip=1), transfer(2, [0], [9])])
    assert ids.block_ids == [5, 3, 4, 0]
    assert ids.group_sizes == [3, 0, 1]
    assert ids.first_blocks == [1, 1, 0]
    assert ids.slots == [7, 2, 9]


def test_tensor_by_tensor_a_slot_holds_every_tensors_pages_of_a_chunk():
    groups = full_group("a", tensor(10, padding=2), tensor(4)), full_group("b", tensor(6, layers=2))
    memory = memory_of(*groups, blocks_per_chunk=2)
    moved = transfer(0, [1, 0, 2], [3, 1], skip=1), transfer(1, [4], [0])
    plan = block_plan(PlacedTransfers(memory, moved, ()), Direction.TO_HOST, 100, 100 + 8 * 4096, SlotOrder.TENSORS)
    # a's first tensor from byte 0, its second from 2 * 12, b's from 2 * (12 + 4) and 2 * (12 + 4 + 6).
    slot_3, slot_1, slot_0 = 100 + 3 * 4096, 100 + 4096, 100
    assert plan.destination_offsets.tolist() == [
        *(slot_3 + 12, slot_3 + 24 + 4),
        *(slot_1, slot_1 + 24),
        *(slot_1 + 12, slot_1 + 24 + 4),
        *(slot_0 + 32, slot_0 + 44),
    ]
    assert plan.sizes.tolist() == [10, 4, 10, 4, 10, 4, 6, 6]


@given(memories(), st.data())
def test_what_the_worker_is_told_amounts_to_the_plan_that_is_verified(drawn, data):
    memory, _ = drawn
    moved = tuple(data.draw(transfers_in(memory)))
    refs = refer_to_caches(memory)
    plan = block_plan(
        PlacedTransfers(memory, moved, moved), Direction.TO_HOST, 0, region_bytes(memory), SlotOrder.TENSORS
    )
    rows = zip(plan.source_offsets.tolist(), plan.destination_offsets.tolist(), plan.sizes.tolist(), strict=True)
    assert sorted(row for row in rows if row[2]) == sorted(_worker_copies(memory, refs, moved))


def _worker_copies(memory, refs, moved):
    """Device offset, host offset and size of each copy, as the worker's tensors and references have it."""
    per_chunk = memory.layout.blocks_per_chunk
    columns = np.cumsum([0, *(place.row_bytes * per_chunk for place in refs.tensors)]).tolist()
    for of_group in moved:
        for number, block in enumerate(of_group.block_ids.tolist()):
            chunk, within = divmod(of_group.skip + number, per_chunk)
            for ref in refs.groups[of_group.group]:
                place = refs.tensors[ref.tensor]
                slot = int(of_group.slots[chunk]) * refs.slot_bytes
                host = slot + columns[ref.tensor] + within * place.row_bytes
                yield place.first_byte + block * place.row_bytes, host, ref.size_bytes
