from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench import EcbenchError
from ecbench.core.copy_plan import CopyPlan, merge_adjacent
from tests.conftest import random_plan


def test_holds_int64_arrays_that_cannot_be_changed():
    plan = CopyPlan([0, 8], [16, 0], [8, 8], 16, 24)
    assert [array.dtype for array in (plan.source_offsets, plan.destination_offsets, plan.sizes)] == [np.int64] * 3
    with pytest.raises(ValueError, match="read-only"):
        plan.sizes[0] = 1


def test_does_not_follow_later_changes_of_the_arrays_it_was_made_from():
    sizes = np.array([8], dtype=np.int64)
    plan = CopyPlan([0], [0], sizes, 8, 8)
    sizes[0] = 4
    assert plan.total_bytes == 8


@pytest.mark.parametrize(
    ("sources", "destinations", "sizes", "message"),
    [
        ([9], [0], [8], "copy 0 of 8 bytes from offset 9"),
        ([0, 0], [0, 17], [8, 8], "copy 1 of 8 bytes"),
        ([-1], [0], [8], "from offset -1"),
        ([0], [-8], [8], "to offset -8"),
        ([0], [0], [-8], "of -8 bytes"),
        ([2**62], [0], [2**62], "does not fit"),
        ([2**63 - 1], [0], [8], "does not fit"),
        ([2**63 - 1], [0], [2**62], "does not fit"),
        ([0], [2**63 - 1], [2**63 - 1], "does not fit"),
        ([0, 0], [0, 7], [8, 8], "overlap at destination offset 7"),
        ([0, 0, 0], [8, 0, 4], [8, 4, 8], "overlap"),
        ([0, 0], [0], [8, 8], "different lengths"),
    ],
)
def test_refuses_copies_that_cannot_be_right(sources, destinations, sizes, message):
    with pytest.raises(EcbenchError, match=message):
        CopyPlan(sources, destinations, sizes, 16, 24)


def test_refuses_more_than_one_dimension():
    with pytest.raises(EcbenchError, match="one dimension"):
        CopyPlan(np.zeros((2, 2), dtype=np.int64), [0], [0], 8, 8)


def test_sources_may_repeat_and_overlap():
    assert CopyPlan([0, 0, 4], [0, 8, 16], [8, 8, 8], 16, 24).total_bytes == 24


def test_empty_copies_overlap_nothing():
    assert len(CopyPlan([0, 0, 0], [4, 0, 4], [0, 8, 0], 8, 8)) == 3


def test_an_empty_plan_leaves_the_whole_destination_as_a_gap():
    plan = CopyPlan([], [], [], 8, 8)
    assert plan.total_bytes == 0
    assert plan.destination_gaps().tolist() == [[0, 8]]


@given(st.integers(0, 2**32))
def test_copies_and_gaps_cover_the_destination_exactly_once(seed):
    plan = random_plan(np.random.default_rng(seed))
    covered = np.zeros(plan.destination_bytes, dtype=int)
    for start, size in zip(plan.destination_offsets, plan.sizes, strict=True):
        covered[start : start + size] += 1
    for start, end in plan.destination_gaps():
        assert start < end
        covered[start:end] += 1
    assert (covered == 1).all()


def _byte_map(plan: CopyPlan) -> dict[int, int]:
    return {
        int(destination) + byte: int(source) + byte
        for source, destination, size in zip(plan.source_offsets, plan.destination_offsets, plan.sizes, strict=True)
        for byte in range(size)
    }


@given(st.integers(0, 2**32))
def test_merging_moves_the_same_bytes_with_no_more_copies(seed):
    plan = random_plan(np.random.default_rng(seed))
    merged = merge_adjacent(plan)
    assert len(merged) <= len(plan)
    assert _byte_map(merged) == _byte_map(plan)


def test_neighbours_in_both_buffers_become_one_copy():
    plan = CopyPlan([0, 8, 24], [8, 16, 24], [8, 8, 8], 32, 32)
    merged = merge_adjacent(plan)
    assert merged.source_offsets.tolist() == [0, 24]
    assert merged.sizes.tolist() == [16, 8]
