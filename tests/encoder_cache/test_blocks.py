from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench import EcbenchError
from ecbench.encoder_cache import BlockIds, coalesce
from ecbench.encoder_cache.blocks import Run, coalesced_copies, split_copies

IDS = st.lists(st.integers(0, 60), max_size=40)


@given(IDS)
def test_block_ids_behave_like_the_list_they_stand_for(ids):
    blocks = BlockIds.of(ids)
    assert blocks == ids
    assert ids == blocks
    assert list(blocks) == ids
    assert len(blocks) == len(ids)
    assert [blocks[i] for i in range(-len(ids), len(ids))] == ids + ids
    assert blocks[1:-1] == ids[1:-1]
    assert blocks.to_array().tolist() == ids
    assert (7 in blocks) is (7 in ids)


def test_block_ids_know_their_bounds():
    with pytest.raises(IndexError):
        BlockIds.of([3])[1]
    assert BlockIds.of([]) == []
    assert BlockIds.of([1]) != [2]
    assert BlockIds.of([1]) != "1"


def test_neighbours_are_kept_as_one_run():
    assert BlockIds.of([4, 5, 6, 9, 2, 3]).runs == [Run(4, 3), Run(9, 1), Run(2, 2)]
    assert BlockIds.concatenate([BlockIds.of([1, 2]), BlockIds.of([3])]).runs == [Run(1, 3)]
    assert repr(BlockIds.of([4, 5, 9])) == "BlockIds(4..5, 9..9)"


def test_equal_ids_have_equal_hashes_however_they_were_made():
    assert hash(BlockIds.of([1, 2, 3])) == hash(BlockIds.of_runs([Run(1, 1), Run(2, 2)]))


@pytest.mark.behaviour(2)
@pytest.mark.parametrize(
    ("ids", "total", "expected"),
    [
        ([3, 4, 5], 24, [(0, 3, 24)]),
        ([3, 5, 7], 24, [(0, 3, 8), (1, 5, 8), (2, 7, 8)]),
        ([3, 4, 7], 24, [(0, 3, 16), (2, 7, 8)]),
        ([3, 4, 5], 19, [(0, 3, 19)]),
        ([3, 4, 7, 8], 17, [(0, 3, 16), (2, 7, 1)]),
        ([3, 4, 7, 8], 16, [(0, 3, 16)]),
        ([3, 4, 5], 1, [(0, 3, 1)]),
        ([3], 0, []),
        ([], 0, []),
    ],
    ids=[
        "one run",
        "no runs",
        "run then gap",
        "cut run",
        "cut after gap",
        "surplus",
        "one byte",
        "nothing",
        "no blocks",
    ],
)
def test_descriptor_sizes_follow_runs_and_the_end_of_the_output(ids, total, expected):
    assert coalesce(ids, 8, total) == expected


@pytest.mark.parametrize("layout", [coalesced_copies, split_copies])
@given(ids=IDS, block=st.integers(1, 20), spare=st.integers(0, 100))
def test_both_layouts_move_each_byte_to_its_block(layout, ids, block, spare):
    total = max(0, len(ids) * block - spare)
    copies = layout(BlockIds.of(ids), block, total)
    moved = {}
    for slot, first, size in zip(*(column.tolist() for column in copies), strict=True):
        assert size > 0
        for byte in range(size):
            moved[slot * block + byte] = first * block + byte
    assert moved == {byte: ids[byte // block] * block + byte % block for byte in range(total)}


@given(ids=IDS, block=st.integers(1, 20))
def test_coalescing_leaves_no_two_copies_that_could_be_one(ids, block):
    copies = coalesce(ids, block, len(ids) * block)
    for left, right in pairwise(copies):
        assert right.first_block != left.first_block + left.size_bytes // block


@pytest.mark.behaviour(4)
def test_an_oversized_output_is_refused_with_both_sizes():
    with pytest.raises(EcbenchError, match=r"25 bytes .* 3 blocks of 8 bytes \(24 bytes\): allocate 4 blocks"):
        coalesce([1, 2, 3], 8, 25)


@pytest.mark.parametrize(("block", "total"), [(0, 1), (-8, 1), (8, -1)])
def test_sizes_out_of_range_are_refused(block, total):
    with pytest.raises(EcbenchError, match="give at least 1 and at least 0"):
        coalesce([1], block, total)
