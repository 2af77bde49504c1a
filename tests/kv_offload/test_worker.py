from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.errors import CopyRefusedError, EcbenchError
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.xpu_sim import XpuSimDevice
from ecbench.engine.registry import open_engine
from ecbench.kv_offload.layout import HostLayout
from ecbench.kv_offload.worker import KvOffloadWorker
from ecbench.transfer.shared_region import create_region
from ecbench.transfer.writers import find_writer
from tests.fakes import DeferredEngine, ManualDevice
from tests.kv_offload.transfers import byte_moves, full_group, memories, memory_of, tensor, transfer, transfers_in

PAD = 0xEE


class Bench:
    """A worker over a small memory, with different bytes everywhere on the device and padding on the host."""

    def __init__(self, device, memory, *, engine=None, writer="numpy-batch", **changes):
        self.device, self.memory = device, memory
        self.region = create_region(memory.host.slots, memory.host.slot_bytes, guard_bytes=1)
        self.region.whole.fill_(PAD)
        self.caches = device.empty(memory.device.nbytes)
        self.on_device = device.memory(self.caches).to_host()
        self.on_device[:] = np.arange(memory.device.nbytes) % 200
        self.worker = KvOffloadWorker(
            memory,
            self.region,
            self.caches,
            device=device,
            engine=engine or open_engine("auto", device),
            writer=find_writer(writer),
            **changes,
        )

    @property
    def on_host(self):
        return self.region.blocks.view(-1).numpy()

    def expected_host(self, transfers, rank=0):
        content = np.full(self.memory.host.nbytes, PAD, dtype=np.uint8)
        for there, here in byte_moves(self.memory, transfers, rank):
            content[here] = self.on_device[there]
        return content


def small(**changes):
    settings = {"blocks_per_chunk": 2, "layout": "packed", **changes}
    return memory_of(full_group("a", tensor(8)), full_group("b", tensor(6, padding=1)), **settings)


@pytest.fixture(params=["packed", "per-layer"])
def bench(device, request):
    made = Bench(device, small(layout=request.param))
    yield made
    made.worker.shutdown()


JOB = [transfer(0, [4, 1, 2, 3], [5, 0]), transfer(1, [0], [7], skip=1)]


def test_a_store_fills_its_blocks_of_its_slots_and_touches_nothing_else(bench):
    source = bench.on_device.copy()
    bench.worker.store("job", JOB)
    assert bench.worker.wait().stored == ("job",)
    assert (bench.on_host == bench.expected_host(JOB)).all()
    assert (bench.on_device == source).all()
    guard = bench.region.guard_bytes
    assert (bench.region.whole[:guard] == PAD).all()
    assert (bench.region.whole[-guard:] == PAD).all()


def test_a_load_brings_back_what_was_stored_to_other_blocks(bench):
    bench.worker.store("job", JOB)
    bench.worker.wait()
    source = bench.on_device.copy()
    bench.on_device[:] = PAD
    again = [transfer(0, [5, 4, 0], [5, 0], skip=1), transfer(1, [1], [7], skip=1)]
    bench.worker.load("again", again)
    assert bench.worker.wait().loaded == ("again",)
    restored = np.full_like(source, PAD)
    stored_from = {host: there for there, host in byte_moves(bench.memory, JOB)}
    for there, host in byte_moves(bench.memory, again):
        restored[there] = source[stored_from[host]]
    assert (bench.on_device == restored).all()


def test_a_job_of_all_groups_is_one_batch(bench):
    bench.worker.store("job", JOB)
    (done,) = bench.worker.wait().stores
    assert done.label == "job"
    assert done.descriptors <= 5


def test_neighbours_on_both_sides_share_a_descriptor_unless_told_otherwise(cpu):
    for coalesce, descriptors in ((True, 1), (False, 2)):
        bench = Bench(cpu, small(), coalesce=coalesce)
        bench.worker.store("job", [transfer(0, [2, 3], [4])])
        (done,) = bench.worker.wait().stores
        assert done.descriptors == descriptors
        bench.worker.shutdown()


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_ranks_with_parts_of_their_own_leave_those_of_others_alone(cpu, rank):
    bench = Bench(cpu, small(tensor_parallel=3), rank=rank)
    bench.worker.store("job", JOB)
    bench.worker.wait()
    assert (bench.on_host == bench.expected_host(JOB, rank)).all()
    bench.worker.shutdown()


def test_of_ranks_that_share_a_part_the_first_stores_and_all_load(cpu):
    shared = small(tensor_parallel=2, host_layout=HostLayout.REPLICATED)
    first, second = (Bench(cpu, shared, rank=rank) for rank in range(2))
    for bench in (first, second):
        bench.worker.store("job", JOB)
        assert bench.worker.wait().stored == ("job",)
    assert (first.on_host == first.expected_host(JOB)).all()
    assert (second.on_host == PAD).all()
    second.worker.load("again", JOB)
    assert second.worker.wait().loads[0].descriptors > 0
    for bench in (first, second):
        bench.worker.shutdown()


@pytest.mark.parametrize("nothing", [[], [transfer(0, [], [])]])
def test_a_job_with_nothing_to_move_is_done_at_once(bench, nothing):
    bench.worker.store("out", nothing)
    bench.worker.load("in", nothing)
    finished = bench.worker.poll()
    assert (finished.stored, finished.loaded) == (("out",), ("in",))
    assert (finished.stores, finished.loads) == ((), ())
    assert bench.worker.poll().stored == ()


def test_jobs_are_reported_when_their_end_event_has_fired_and_once():
    device = ManualDevice()
    bench = Bench(device, small(), engine=DeferredEngine())
    bench.worker.store("first", JOB[:1])
    bench.worker.store("second", JOB[1:])
    assert bench.worker.poll().stored == ()
    device.run_all()
    assert bench.worker.poll().stored == ("first", "second")
    assert bench.worker.poll().stored == ()
    assert (bench.on_host == bench.expected_host(JOB)).all()
    bench.worker.shutdown()


def test_a_store_waits_for_the_compute_stream_and_the_compute_stream_for_a_load():
    device = ManualDevice()
    bench = Bench(device, small(), engine=DeferredEngine())
    bench.worker.store("out", JOB)
    assert device.streams[0].waited_for == [device.compute]
    assert device.compute.waited_for == []
    bench.worker.load("in", JOB)
    assert device.compute.waited_for == [device.streams[1]]
    bench.worker.shutdown()


def test_memory_in_flight_is_held_until_the_copy_ran():
    device = ManualDevice()
    bench = Bench(device, small(), engine=DeferredEngine())
    bench.worker.store("job", JOB)
    batch = weakref.ref(bench.worker._stores._in_flight[0].batch)
    gc.collect()
    assert batch() is not None
    device.run_all()
    bench.worker.poll()
    gc.collect()
    assert batch() is None
    bench.worker.shutdown()


def test_shutdown_waits_closes_the_region_and_may_run_twice():
    device = ManualDevice()
    bench = Bench(device, small(), engine=DeferredEngine())
    bench.worker.store("job", JOB)
    slots = bench.region.blocks.view(-1).numpy()
    expected = bench.expected_host(JOB)
    bench.worker.shutdown()
    bench.worker.shutdown()
    assert (slots == expected).all()
    with pytest.raises(EcbenchError, match="after its close"):
        _ = bench.region.blocks


def test_shutdown_closes_the_region_also_where_waiting_fails(cpu, monkeypatch):
    bench = Bench(cpu, small())
    monkeypatch.setattr(bench.worker._loads, "wait", lambda: (_ for _ in ()).throw(RuntimeError("device lost")))
    with pytest.raises(RuntimeError, match="device lost"):
        bench.worker.shutdown()
    with pytest.raises(EcbenchError, match="after its close"):
        _ = bench.region.blocks


def test_a_refused_writer_leaves_the_descriptor_arrays_in_the_pool():
    bench = Bench(XpuSimDevice(), small(), writer=_refused_writer())
    for move in (bench.worker.store, bench.worker.load):
        with pytest.raises(CopyRefusedError, match="numpy-batch"):
            move("job", JOB)
    assert bench.worker.wait().stored == ()
    bench.worker.shutdown()


def _refused_writer():
    """Up to torch 2.13 raw addresses are refused in a uint64 array, from 2.14 on their two's complement."""
    try:
        torch.zeros(1, dtype=torch.uint64)[0] = 2**63
    except ValueError:
        return "setitem"
    return "setitem-twos"


def test_a_region_or_caches_of_other_sizes_are_refused(cpu):
    memory = small()
    engine, writer = open_engine("auto", cpu), find_writer("numpy-batch")
    right, wrong = create_region(8, memory.host.slot_bytes), create_region(7, memory.host.slot_bytes)
    caches = cpu.empty(memory.device.nbytes)
    with pytest.raises(EcbenchError, match=r"region of 7 x 4096 bytes for 8 host slots of 4096"):
        KvOffloadWorker(memory, wrong, caches, device=cpu, engine=engine, writer=writer)
    with pytest.raises(EcbenchError, match="device memory of 8 bytes"):
        KvOffloadWorker(memory, right, caches[:8], device=cpu, engine=engine, writer=writer)
    for region in (right, wrong):
        region.close()


@given(memories(), st.data(), st.sampled_from([CpuDevice, XpuSimDevice]), st.booleans())
def test_store_then_load_restores_every_byte_and_no_other(drawn, data, kind, coalesce):
    memory, rank = drawn
    moved = data.draw(transfers_in(memory))
    rank = 0 if memory.host.copies == 1 else rank
    bench = Bench(kind(), memory, coalesce=coalesce, rank=rank)
    content = bench.on_device.copy()
    bench.worker.store("out", moved)
    bench.worker.wait()
    assert (bench.on_host == bench.expected_host(moved, rank)).all()
    bench.on_device[:] = PAD
    bench.worker.load("in", moved)
    bench.worker.wait()
    restored = np.full_like(content, PAD)
    touched = [there for there, _ in byte_moves(memory, moved, rank)]
    restored[touched] = content[touched]
    assert (bench.on_device == restored).all()
    bench.worker.shutdown()
