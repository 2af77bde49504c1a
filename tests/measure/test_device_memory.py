"""On the CPU, with torch's operations in place of a device's: what the device runs is the same code."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.copy_plan import CopyPlan
from ecbench.measure.content import POISON_BYTE, content_bytes
from ecbench.measure.device_memory import DeviceMemory
from ecbench.measure.memory import HostMemory

KEY = 0xFEDC_BA98_7654_3210
KEYS = st.integers(0, 2**64 - 1)
CHUNK_BYTES = 64


def device_memory(nbytes, chunk_bytes=CHUNK_BYTES):
    tensor = torch.zeros(nbytes, dtype=torch.uint8)
    return DeviceMemory(tensor, upload=torch.clone, synchronize=lambda: None, chunk_bytes=chunk_bytes), tensor.numpy()


def copied(plan, key, memory, array):
    """Leaves in memory what a right copy leaves there."""
    memory.poison()
    source = content_bytes(key, 0, plan.source_bytes)
    for start, destination, size in zip(plan.source_offsets, plan.destination_offsets, plan.sizes, strict=True):
        array[destination : destination + size] = source[start : start + size]


def equal_blocks(size, rows, table_rows, first, lead=0):
    """Blocks of `size` bytes into rows of a table that begins at byte `first`."""
    rows = np.array(rows, dtype=np.int64)
    sources = np.arange(len(rows))[::-1] * (-(-size // 8) * 8) + lead
    return CopyPlan(sources, first + rows * size, np.full(len(rows), size), 4096, first + table_rows * size + 5)


@st.composite
def plans(draw):
    """Any plan: unequal sizes, odd offsets, empty copies, copies longer than a chunk."""
    sizes = draw(st.lists(st.integers(0, 3 * CHUNK_BYTES), max_size=6))
    gaps = draw(st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes)))
    starts = np.cumsum([0, *sizes])[:-1] + np.cumsum(gaps, dtype=np.int64) if sizes else []
    sources = [draw(st.integers(0, 1024 - size)) for size in sizes]
    order = draw(st.permutations(range(len(sizes))))
    pick = [np.array(values, dtype=np.int64)[list(order)] for values in (sources, starts, sizes)]
    return CopyPlan(*pick, 1024, int(sum(sizes) + sum(gaps) + draw(st.integers(0, 9))))


@given(KEYS, st.integers(0, 500))
def test_content_equals_the_host_s(key, nbytes):
    memory, array = device_memory(nbytes)
    memory.write_content(key)
    assert array.tobytes() == content_bytes(key, 0, nbytes).tobytes()
    assert memory.holds_content(key)
    assert memory.holds_content(key ^ 1) is (nbytes == 0)


@given(st.integers(1, 500), st.data())
def test_one_changed_byte_of_the_content_is_noticed(nbytes, data):
    memory, array = device_memory(nbytes)
    memory.write_content(KEY)
    array[data.draw(st.integers(0, nbytes - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert not memory.holds_content(KEY)


@given(plans(), KEYS, st.data())
def test_any_plan_is_judged_as_on_the_host(plan, key, data):
    memory, array = device_memory(plan.destination_bytes)
    copied(plan, key, memory, array)
    assert memory.holds_copies(plan, key)
    if plan.destination_bytes:
        array[data.draw(st.integers(0, plan.destination_bytes - 1))] ^= 1 << data.draw(st.integers(0, 7))
        assert not memory.holds_copies(plan, key)
        assert not HostMemory(array).holds_copies(plan, key)


@given(
    size=st.integers(1, 32),
    table_rows=st.integers(1, 12),
    first=st.integers(0, 9),
    lead=st.integers(0, 7),
    data=st.data(),
)
def test_equal_blocks_are_judged_as_on_the_host(size, table_rows, first, lead, data):
    rows = data.draw(st.lists(st.integers(0, table_rows - 1), min_size=1, unique=True))
    plan = equal_blocks(size, rows, table_rows, first, lead)
    memory, array = device_memory(plan.destination_bytes)
    copied(plan, KEY, memory, array)
    assert memory.holds_copies(plan, KEY)
    array[data.draw(st.integers(0, plan.destination_bytes - 1))] ^= 1
    assert not memory.holds_copies(plan, KEY)


def test_equal_blocks_take_few_launches_however_many_there_are(monkeypatch):
    plan = equal_blocks(8, range(0, 400, 2), 400, first=0)
    memory, array = device_memory(plan.destination_bytes, chunk_bytes=1 << 16)
    copied(plan, KEY, memory, array)
    monkeypatch.setattr(memory, "_any_plan_faults", lambda *_: pytest.fail("went copy by copy"))
    assert memory.holds_copies(plan, KEY)


def test_two_blocks_in_each_other_s_place_are_noticed():
    plan = equal_blocks(16, [0, 1, 2], 3, first=8)
    memory, array = device_memory(plan.destination_bytes)
    copied(plan, KEY, memory, array)
    array[8:24], array[24:40] = array[24:40].copy(), array[8:24].copy()
    assert not memory.holds_copies(plan, KEY)


def test_poison_fills_every_byte():
    memory, array = device_memory(100)
    memory.poison()
    assert (array == POISON_BYTE).all()


def test_content_and_poison_are_there_before_a_timer_starts():
    waits = []
    memory = DeviceMemory(
        torch.zeros(16, dtype=torch.uint8), upload=torch.clone, synchronize=lambda: waits.append(1), chunk_bytes=8
    )
    memory.write_content(KEY)
    memory.poison()
    assert waits == [1, 1]


def test_the_host_s_copy_holds_the_bytes():
    memory, array = device_memory(24)
    memory.write_content(KEY)
    assert memory.to_host().tobytes() == array.tobytes()
