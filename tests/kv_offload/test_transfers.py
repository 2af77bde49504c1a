from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.transfers import CopyPlanner
from tests.kv_offload.transfers import byte_moves, full_group, memories, memory_of, tensor, transfer, transfers_in


def _bytes_of(plan):
    rows = zip(plan.source_offsets.tolist(), plan.destination_offsets.tolist(), plan.sizes.tolist(), strict=True)
    return [(source + byte, destination + byte) for source, destination, size in rows for byte in range(size)]


@given(memories(), st.data())
def test_every_byte_goes_where_counting_bytes_says(drawn, data):
    memory, rank = drawn
    moved = data.draw(transfers_in(memory))
    expected = byte_moves(memory, moved, rank)
    planner = CopyPlanner(memory, rank)
    assert _bytes_of(planner.plan(moved, Direction.TO_HOST)) == expected
    assert _bytes_of(planner.plan(moved, Direction.TO_DEVICE)) == [(host, device) for device, host in expected]


def test_a_block_behind_skipped_ones_comes_from_the_middle_of_its_slot():
    memory = memory_of(full_group("g", tensor(8)), layout="packed", blocks_per_chunk=4)
    plan = CopyPlanner(memory).plan([transfer(0, [5, 0, 2], [3, 1], skip=2)], Direction.TO_DEVICE)
    slot = memory.host.slot_bytes
    assert plan.source_offsets.tolist() == [3 * slot + 16, 3 * slot + 24, slot]


BAD_TRANSFERS = {
    "too few slots": (transfer(0, [0, 1, 2], [0]), "3 blocks behind 0 skipped ones do not fit 1 slots of 2: give 2"),
    "too many slots": (transfer(0, [0], [0, 1]), "1 blocks behind 0 skipped ones do not fit 2 slots"),
    "a whole chunk skipped": (transfer(0, [0], [0, 1], 2), "skip less than 2"),
    "negative skip": (transfer(0, [0], [0], -1), "-1 skipped"),
    "no such block": (transfer(0, [0, 6], [0]), "group g: block 6 is not there: give 0 to 5"),
    "negative block": (transfer(0, [-1], [0]), "group g: block -1 is not there"),
    "no such slot": (transfer(0, [0], [8]), "group g: slot 8 is not there: give 0 to 7"),
}


@pytest.mark.parametrize(("bad", "message"), BAD_TRANSFERS.values(), ids=BAD_TRANSFERS)
def test_a_transfer_that_does_not_fit_the_memory_is_refused_and_named(bad, message):
    planner = CopyPlanner(memory_of(full_group("g", tensor(8)), blocks_per_chunk=2))
    with pytest.raises(EcbenchError, match=message):
        planner.plan([bad], Direction.TO_HOST)


def test_two_chunks_in_one_slot_are_refused_before_anything_moves():
    planner = CopyPlanner(memory_of(full_group("g", tensor(8))))
    with pytest.raises(EcbenchError, match="overlap at destination"):
        planner.plan([transfer(0, [0, 1], [3, 3])], Direction.TO_HOST)


def test_a_block_that_is_loaded_twice_is_refused():
    planner = CopyPlanner(memory_of(full_group("g", tensor(8))))
    with pytest.raises(EcbenchError, match="overlap at destination"):
        planner.plan([transfer(0, [1, 1], [3, 4])], Direction.TO_DEVICE)
