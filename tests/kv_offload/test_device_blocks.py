from __future__ import annotations

import itertools

import pytest

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload import OffloadSettings, lay_out, load_model
from ecbench.kv_offload.device_blocks import ALIGNMENT_BYTES, GUARD_BYTES, KvLayout, block_pieces, lay_out_blocks
from ecbench.kv_offload.layout import HostLayout
from tests.kv_offload.transfers import full_group, memory_of, tensor


@pytest.fixture(scope="module")
def flash():
    return lay_out(load_model("deepseek-v4-flash"), OffloadSettings(blocks_per_chunk=4, tensor_parallel=4))


def test_packed_groups_share_one_buffer_in_steps_of_the_block_stride(flash):
    blocks = lay_out_blocks(flash, KvLayout.PACKED, [1, 2, 3, 4, 5])
    assert len(set(blocks.tensors)) == 1
    ((buffer,), *_) = blocks.tensors
    assert (buffer.row_bytes, buffer.rows) == (1_002_240, 15)
    assert blocks.blocks == (15,) * 5
    assert blocks.nbytes == 15 * 1_002_240 + 2 * GUARD_BYTES


def test_per_layer_every_cache_of_every_layer_is_a_tensor(flash):
    blocks = lay_out_blocks(flash, KvLayout.PER_LAYER, [1, 2, 3, 4, 5])
    assert [len(tensors) for tensors in blocks.tensors] == [22, 21, 62, 42, 20]
    assert blocks.blocks == (1, 2, 3, 4, 5)
    every = sorted(itertools.chain(*blocks.tensors), key=lambda place: place.first_byte)
    assert every[0].first_byte == GUARD_BYTES
    assert all(left.end_byte + GUARD_BYTES <= right.first_byte for left, right in itertools.pairwise(every))
    assert every[-1].end_byte + GUARD_BYTES == blocks.nbytes
    assert all(place.first_byte % ALIGNMENT_BYTES == 0 for place in every)


def test_packed_a_block_moves_its_whole_stride(flash):
    for group in range(5):
        (piece,) = block_pieces(flash, group, KvLayout.PACKED)
        assert (piece.host_offset, piece.size_bytes) == (0, 1_002_240)


def test_per_layer_real_pages_move(flash):
    real = [group.group.real_page_size_bytes for group in flash.groups]
    moved = [sum(p.size_bytes for p in block_pieces(flash, group, KvLayout.PER_LAYER)) for group in range(5)]
    assert moved == real == [822_272, 784_896, 985_664, 860_160, 655_360]


def test_k_and_v_apart_are_two_tensors_and_two_transfers_that_meet_on_the_host():
    memory = memory_of(full_group("g", tensor(8, padding=4, layers=2, kv="apart"), tensor(6)), blocks=3)
    tensors = memory.device.tensors[0]
    assert [place.row_bytes for place in tensors] == [6, 6, 6, 6, 6]
    assert [(p.host_offset, p.size_bytes) for p in block_pieces(memory.layout, 0, KvLayout.PER_LAYER)] == [
        (0, 4),
        (4, 4),
        (12, 4),
        (16, 4),
        (24, 6),
    ]


def test_a_cache_without_real_bytes_moves_nothing_and_takes_no_device_memory():
    memory = memory_of(full_group("g", tensor(0, padding=4), tensor(6)))
    assert len(memory.device.tensors[0]) == 1
    assert [(p.host_offset, p.size_bytes) for p in block_pieces(memory.layout, 0, KvLayout.PER_LAYER)] == [(4, 6)]


def test_a_host_slot_is_wider_than_what_a_rank_writes(flash):
    slots = memory_of(*(group.group for group in flash.groups), blocks_per_chunk=4, tensor_parallel=4).host
    assert slots.slot_bytes == 16_035_840
    assert [slots.part_offset(rank) for rank in range(4)] == [rank * 4 * 1_002_240 for rank in range(4)]


def test_all_ranks_share_the_one_part_of_a_replicated_slot(flash):
    groups = (group.group for group in flash.groups)
    slots = memory_of(*groups, blocks_per_chunk=4, tensor_parallel=4, host_layout=HostLayout.REPLICATED).host
    assert slots.slot_bytes == 4_009_984
    assert {slots.part_offset(rank) for rank in range(4)} == {0}


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_without_a_part_is_refused(rank):
    slots = memory_of(full_group("g", tensor(8)), tensor_parallel=2).host
    with pytest.raises(EcbenchError, match=f"rank {rank} has no part of a host slot with 2 copies: give 0 to 1"):
        slots.part_offset(rank)
