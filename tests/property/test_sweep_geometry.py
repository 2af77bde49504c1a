"""Synthetic batches for any sizes, and grids for any axes."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.copy_plan import merge_adjacent
from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError
from ecbench.workflows.copy_family import AXES
from ecbench.workflows.copy_geometry import GUARD_BYTES, CopyGeometry, descriptors_of
from ecbench.workflows.sweep_axes import read_axes

GEOMETRIES = st.builds(
    CopyGeometry,
    block_size_bytes=st.integers(1, 5000),
    blocks=st.integers(1, 200),
    run_length=st.integers(1, 200),
    byte_offset=st.integers(0, 5000),
)


@given(GEOMETRIES, st.sampled_from(Direction), st.integers(0, 5))
def test_every_block_is_copied_once_inside_the_guards(geometry, direction, seed):
    plan = geometry.plan(direction, seed)
    assert len(plan) == geometry.blocks
    assert plan.total_bytes == geometry.copied_bytes
    sides = [(plan.source_offsets, plan.source_bytes), (plan.destination_offsets, plan.destination_bytes)]
    for offsets, capacity in sides:
        assert offsets.min() >= GUARD_BYTES
        assert (offsets + plan.sizes).max() <= capacity - GUARD_BYTES
        ordered = np.sort(offsets)
        assert (np.diff(ordered) >= geometry.block_size_bytes).all()


@given(GEOMETRIES, st.integers(0, 5))
def test_a_load_is_the_way_back_of_a_save(geometry, seed):
    save, load = geometry.plan(Direction.TO_HOST, seed), geometry.plan(Direction.TO_DEVICE, seed)
    assert save.source_offsets.tolist() == load.destination_offsets.tolist()
    assert save.destination_offsets.tolist() == load.source_offsets.tolist()


@given(GEOMETRIES, st.sampled_from(Direction), st.integers(0, 5))
def test_joined_there_is_one_descriptor_per_run_and_the_same_bytes(geometry, direction, seed):
    plan = geometry.plan(direction, seed)
    joined = descriptors_of(plan, coalesce=True)
    assert len(joined) == -(-geometry.blocks // geometry.run_length) == geometry.runs
    assert joined.total_bytes == plan.total_bytes
    assert len(merge_adjacent(joined)) == len(joined)
    assert descriptors_of(plan, coalesce=False) is plan


VALUES = st.one_of(
    st.text(max_size=12),
    st.integers(-(10**30), 10**30),
    st.booleans(),
    st.floats(),
    st.none(),
    st.lists(st.one_of(st.text(max_size=6), st.integers(-5, 10**9)), max_size=5),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(st.dictionaries(st.one_of(st.sampled_from(list(AXES)), st.text(max_size=6)), VALUES, max_size=4))
def test_any_axes_are_read_or_refused(given_axes):
    try:
        axes = read_axes(AXES, given_axes)
    except EcbenchError:
        # Any message is one line: the error joins what it is given.
        return
    assert list(axes) == list(AXES)
    for values in axes.values():
        assert values
        assert len(set(values)) == len(values)


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6, unique=True))
def test_sizes_come_back_however_they_are_written(sizes):
    written = [sizes, [str(size) for size in sizes], ",".join(map(str, sizes)), [f"{size}B" for size in sizes]]
    for one, other in itertools.pairwise(AXES["block_size"].values(way) for way in written):
        assert one == other == tuple(sizes)
