from __future__ import annotations

import numpy as np
import pytest

from ecbench.core.descriptors import Direction
from ecbench.core.records import Fault
from ecbench.measure.content import POISON_BYTE, content_bytes, round_key
from ecbench.measure.fault_injection import CopiedMemory, FaultInjection, inject, words_of

BLOCK = 64
EARLIER = content_bytes(round_key(0, "before"), 0, 6 * BLOCK)


def copied(blocks=4, direction=Direction.TO_HOST, room=True):
    """Some blocks, copied in reverse order, with a block of room around them or none."""
    guard = BLOCK if room else 0
    source = content_bytes(round_key(0, "now"), 0, 6 * BLOCK).copy()
    destination = np.full(blocks * BLOCK + 2 * guard, POISON_BYTE, dtype=np.uint8)
    starts = np.arange(blocks) * BLOCK + BLOCK
    places = guard + (blocks - 1 - np.arange(blocks)) * BLOCK
    for start, place in zip(starts, places, strict=True):
        destination[place : place + BLOCK] = source[start : start + BLOCK]
    return CopiedMemory(direction, source, destination, starts, places, np.full(blocks, BLOCK))


def both(memory):
    return memory.source.tobytes() + memory.destination.tobytes()


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_changes_memory_that_has_room_for_it(fault):
    for seed in range(50):
        memory = copied()
        before = both(memory)
        inject(fault, memory, np.random.default_rng(seed), EARLIER)
        assert both(memory) != before


@pytest.mark.parametrize(
    ("fault", "memory"),
    [(Fault.SWAPPED, copied(blocks=1)), (Fault.OVERRUN, copied(room=False))],
    ids=["no other block to swap with", "nothing beside the blocks"],
)
def test_memory_without_room_stays_as_it_was(fault, memory):
    before = both(memory)
    inject(fault, memory, np.random.default_rng(0), EARLIER)
    assert both(memory) == before


def test_the_first_copy_of_each_direction_is_spared():
    injection = FaultInjection(Fault.MISSING, np.random.default_rng(0))
    for direction in Direction:
        memory = copied(direction=direction)
        before = both(memory)
        injection(memory)
        assert both(memory) == before
    assert injection.changed == set()
    injection(copied(direction=Direction.TO_DEVICE))
    assert injection.changed == {Direction.TO_DEVICE}


def test_what_is_stale_is_what_the_first_copy_had():
    injection = FaultInjection(Fault.STALE, np.random.default_rng(0))
    first = copied(blocks=1)
    first.source[:] = EARLIER
    injection(first)
    memory = copied(blocks=1)
    injection(memory)
    assert memory.copied_bytes(0).tobytes() == EARLIER[BLOCK : 2 * BLOCK].tobytes()


def test_a_fault_that_has_no_room_counts_as_no_change():
    injection = FaultInjection(Fault.SWAPPED, np.random.default_rng(0))
    for _ in range(2):
        injection(copied(blocks=1))
    assert injection.changed == set()


def test_words_of_a_copy_begin_where_content_words_do():
    assert words_of(0, 16) == [(0, 8), (8, 16)]
    assert words_of(3, 16) == [(0, 5), (5, 13), (13, 16)]
    assert words_of(6, 2) == [(0, 2)]
