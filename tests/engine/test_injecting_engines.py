"""Engines that are wrong or slow on purpose."""

from __future__ import annotations

import numpy as np
import pytest

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction, PreparedCopy
from ecbench.engine.copy_engines import delaying
from ecbench.engine.copy_engines.delaying import DelayingEngine
from ecbench.engine.copy_engines.faulty import FaultyEngine
from ecbench.engine.registry import open_engine
from ecbench.transfer.addresses import address_of
from ecbench.transfer.queue import TransferQueue
from ecbench.transfer.writers import find_writer

PLAN = CopyPlan([0, 16], [16, 0], [16, 16], 32, 32)
GUARD = 8


def _run(device, spoil, direction=Direction.TO_HOST):
    """Copies between the insides of two guarded buffers; returns what the destination's buffer holds."""
    on_device, on_host = device.empty(32 + 2 * GUARD), device.empty(32 + 2 * GUARD)
    if direction is Direction.TO_HOST:
        whole, (source, destination) = on_host, (on_device, on_host)
    else:
        whole, (source, destination) = on_device, (on_host, on_device)
    host = _host_view(device, on_host)
    source, destination = (host if side is on_host else side for side in (source, destination))
    device.memory(on_device).to_host()[:] = np.arange(48)
    host.numpy()[:] = np.arange(48)
    inner_source, inner_destination = source[GUARD:-GUARD], destination[GUARD:-GUARD]
    engine = FaultyEngine(open_engine("memmove", device), device, spoil)
    queue = TransferQueue(device, engine, direction)
    arrays = queue.arrays.acquire(2)
    find_writer("numpy-batch").write(arrays, 0, PLAN, address_of(inner_source), address_of(inner_destination))
    queue.submit("one", arrays, 2, sources=(inner_source,), destinations=(inner_destination,), fill_s=0.0)
    (done,) = queue.wait()
    assert done.engine == "faulty"
    return (host.numpy() if whole is on_host else device.memory(whole).to_host()).tolist()


def _host_view(device, tensor):
    return device.host_alias(tensor) if device.emulation else tensor


@pytest.mark.parametrize("direction", list(Direction))
def test_the_spoiler_sees_whole_buffers_and_offsets_into_them(device, direction):
    seen = []
    _run(device, seen.append, direction)
    (memory,) = seen
    assert memory.direction is direction
    assert len(memory.source) == len(memory.destination) == 32 + 2 * GUARD
    assert memory.source_offsets.tolist() == [GUARD, GUARD + 16]
    assert memory.destination_offsets.tolist() == [GUARD + 16, GUARD]
    assert memory.copied_bytes(0).tolist() == memory.source[memory.source_range(0)].tolist()


@pytest.mark.parametrize("direction", list(Direction))
def test_what_it_changes_is_changed_guards_included(device, direction):
    def spoil(memory):
        memory.destination[0] = 77
        memory.copied_bytes(0)[:] = 99

    content = _run(device, spoil, direction)
    assert content[0] == 77
    assert content[GUARD + 16 : GUARD + 32] == [99] * 16
    assert content[GUARD : GUARD + 16] == list(range(GUARD + 16, GUARD + 32))


class Clock:
    """A clock that moves when it is read, and when a copy takes its time."""

    def __init__(self):
        self.now_s = 0.0

    def perf_counter(self):
        self.now_s += 1e-6
        return self.now_s


class SlowEngine:
    """Takes 1 ms to prepare and 3 ms to copy."""

    name = "slow"

    def __init__(self, clock):
        self._clock = clock

    def prepare(self, batch):
        self._clock.now_s += 1e-3

        def run(stream):
            self._clock.now_s += 3e-3

        return PreparedCopy("chosen", threads=2, run=run, notes=("a note",))


class Batch:
    direction = Direction.TO_HOST


@pytest.mark.parametrize(
    ("shares", "delay_s"), [({}, 0.0), ({Direction.TO_HOST: 0.5}, 2e-3), ({Direction.TO_DEVICE: 0.5}, 0.0)]
)
def test_a_delay_is_a_share_of_preparing_and_copying(cpu, monkeypatch, shares, delay_s):
    clock = Clock()
    monkeypatch.setattr(delaying, "time", clock)
    engine = DelayingEngine(SlowEngine(clock), shares)
    prepared = engine.prepare(Batch())
    before_s = clock.now_s
    prepared.run(cpu.current_stream())
    assert clock.now_s - before_s == pytest.approx(3e-3 + delay_s, abs=2e-5)
    assert (engine.name, prepared.engine, prepared.threads, prepared.notes) == ("slow", "chosen", 2, ("a note",))
