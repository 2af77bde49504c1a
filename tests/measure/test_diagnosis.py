"""Fault injection: a wrong byte is always found, and named by the rules; right memory is never accused."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.core.records import Fault
from ecbench.engine.copy_engines.faulty import FaultyEngine
from ecbench.engine.copy_engines.host import GatherEngine, MemmoveEngine
from ecbench.measure.content import POISON_BYTE, content_bytes, round_key
from ecbench.measure.diagnosis import diagnose
from ecbench.measure.fault_injection import inject
from ecbench.measure.memory import HostMemory
from ecbench.measure.verification import combine_rounds, verify_round
from ecbench.transfer.addresses import address_of
from ecbench.transfer.queue import TransferQueue
from ecbench.transfer.writers import find_writer
from tests.conftest import random_plan
from tests.faults import expected_fault

PLANS = 2_000
KEY = round_key(0, "now")
EARLIER = [round_key(0, "before", number) for number in range(3)]


def _run(device, engine, plan):
    """One round over real descriptors; returns the verdict and both buffers."""
    source, destination = device.empty(plan.source_bytes), device.empty(plan.destination_bytes)
    on_source, on_destination = HostMemory(source.numpy()), HostMemory(destination.numpy())
    on_source.write_content(KEY)
    on_destination.poison()
    queue = TransferQueue(device, engine, Direction.TO_HOST)
    arrays = queue.arrays.acquire(len(plan))
    find_writer("numpy-batch").write(arrays, 0, plan, address_of(source), address_of(destination))
    queue.submit("round", arrays, len(plan), sources=(source,), destinations=(destination,), fill_s=0.0)
    queue.wait()
    verdict = verify_round(plan, on_source, on_destination, KEY, EARLIER)
    return verdict, source.numpy(), destination.numpy()


def _plans(draw):
    for number in range(PLANS):
        unit = (8, 1, 16)[number % 3]
        yield random_plan(draw, copies=int(draw.integers(1, 9)), unit=unit, most_units=12 if unit > 1 else 60)


@pytest.mark.parametrize("fault", list(Fault))
def test_every_injection_that_changes_a_byte_is_found_and_named(cpu, fault):
    draw = np.random.default_rng(list(Fault).index(fault))

    def spoil(memory):
        earlier = EARLIER[draw.integers(len(EARLIER))]
        inject(fault, memory, draw, content_bytes(earlier, 0, len(memory.source)))

    named = Counter()
    for plan in _plans(draw):
        verdict, source, destination = _run(cpu, FaultyEngine(MemmoveEngine(), cpu, spoil), plan)
        expected = expected_fault(plan, source, destination, KEY, EARLIER)
        assert verdict.fault is expected
        assert verdict.ok is (expected is None)
        named[verdict.fault] += 1
    # Some plans have no second block of a size to swap with, or no byte beside their blocks; a tear of one word is by
    # the rules something else. Most are what they were meant to be.
    assert named[fault] > PLANS / 3
    assert named.most_common(1)[0][0] in {fault, None}


@pytest.mark.parametrize("engine", [MemmoveEngine(), GatherEngine()], ids=lambda engine: engine.name)
def test_right_memory_is_never_accused(cpu, engine):
    for plan in _plans(np.random.default_rng(99)):
        verdict, source, destination = _run(cpu, engine, plan)
        assert verdict.ok
        assert verdict.fault is None
        assert verdict.checked_bytes == len(source) + len(destination)


def _memory_after_copy(plan):
    source = content_bytes(KEY, 0, plan.source_bytes)
    destination = np.full(plan.destination_bytes, POISON_BYTE, dtype=np.uint8)
    for offset, start, size in zip(plan.source_offsets, plan.destination_offsets, plan.sizes, strict=True):
        destination[start : start + size] = source[offset : offset + size]
    return source, destination


def test_says_where_it_went_wrong_and_how_much():
    plan = CopyPlan([0, 64], [16, 96], [64, 64], 128, 176)
    source, destination = _memory_after_copy(plan)
    destination[100:103] ^= 0xFF
    destination[3] ^= 1
    found = diagnose(plan, source, destination, KEY)
    assert (found.mismatched_bytes, found.stray_bytes, found.source_changed_bytes) == (3, 1, 0)
    assert found.first_mismatch.offset_bytes == 3
    assert found.first_mismatch.descriptor is None
    assert found.first_mismatch.expected == POISON_BYTE
    assert found.faults == {1: Fault.CORRUPT}
    assert found.fault_counts == {"overrun": 1, "corrupt": 1}
    assert found.fault is Fault.OVERRUN


def test_names_the_descriptor_of_the_first_wrong_byte():
    plan = CopyPlan([0, 64], [96, 16], [64, 64], 128, 176)
    source, destination = _memory_after_copy(plan)
    destination[20] ^= 1
    first = diagnose(plan, source, destination, KEY).first_mismatch
    assert (first.descriptor, first.offset_bytes) == (1, 20)
    assert first.found == first.expected ^ 1


def test_a_changed_source_is_told_even_where_the_destination_is_right():
    plan = CopyPlan([0], [0], [64], 128, 64)
    source, destination = _memory_after_copy(plan)
    source[100] ^= 4
    found = diagnose(plan, source, destination, KEY)
    assert found.fault is Fault.SOURCE_CHANGED
    assert found.first_mismatch.offset_bytes == 100


def test_two_exchanged_blocks_are_both_swapped():
    plan = CopyPlan([0, 64], [0, 64], [64, 64], 128, 128)
    source, destination = _memory_after_copy(plan)
    found = diagnose(plan, source, np.concatenate([destination[64:], destination[:64]]), KEY)
    assert found.faults == {0: Fault.SWAPPED, 1: Fault.SWAPPED}


def test_a_leg_sums_its_rounds_and_keeps_the_first_failure():
    plan = CopyPlan([0], [0], [64], 64, 64)
    source, destination = _memory_after_copy(plan)
    good = verify_round(plan, HostMemory(source), HostMemory(destination), KEY)
    destination[:] = POISON_BYTE
    bad = verify_round(plan, HostMemory(source), HostMemory(destination), KEY)
    both = combine_rounds([good, bad])
    assert (both.ok, both.checked_bytes, both.fault) == (False, 256, Fault.MISSING)
    assert both.mismatched_bytes == bad.mismatched_bytes > 0
