"""vLLM's KV worker as a session, over a worker that only looks like vLLM's."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.descriptors import Direction
from ecbench.core.errors import CopyRefusedError, DoesNotFitError, EcbenchError, UnavailableError
from ecbench.core.host_memory import SlotOrder
from ecbench.core.records import LegStatus
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.xpu_sim import XpuSimDevice
from ecbench.kv_offload.placement import PlacedTransfers
from ecbench.measure.rounds import measure_rounds
from ecbench.measure.stages import StageClock
from ecbench.targets.vllm.kv_offload import VllmKvSession
from ecbench.targets.vllm.kv_stand_ins import KV_WORKER_MODULE, as_device_tensor, install_kv_stand_ins
from ecbench.workflows.kv_case import measured_copy
from tests.kv_offload.transfers import full_group, memories, memory_of, tensor, transfer, transfers_in
from tests.targets.fake_vllm_kv import FakeRegion, FakeVllm, FakeWorker


@pytest.fixture
def vllm(monkeypatch):
    fake = FakeVllm()
    fake.install(monkeypatch)
    return fake


def small(layout="per-layer", **settings):
    groups = (
        full_group("a", tensor(16, padding=8, layers=2), tensor(6)),
        full_group("b", tensor(12, padding=2, kv="apart")),
    )
    memory = memory_of(*groups, layout=layout, blocks_per_chunk=3, **settings)
    stores = transfer(0, [4, 0, 3, 2, 1, 5], [6, 1]), transfer(1, [2, 4, 0] if layout == "per-layer" else [], [3])
    stores = stores if layout == "per-layer" else (stores[0], transfer(1, [], []))
    loads = transfer(0, [1, 5, 3, 4], [6, 1], skip=1), transfer(1, [], [])
    return PlacedTransfers(memory, stores, loads)


def opened(placed, device):
    caches = device.empty(placed.memory.device.nbytes)
    return VllmKvSession(placed, caches, device=device), caches


def measure(session, placed, caches, device):
    copies = [measured_copy(to, placed, session, caches, device, writer="vllm", notes=()) for to in Direction]
    *_, legs = measure_rounds(copies, rounds=2, seed=0, label="case", clock=StageClock())
    return legs


def small_session(device):
    return opened(small(), device)[0]


@pytest.mark.parametrize("layout", ["packed", "per-layer"])
def test_what_the_worker_moves_is_what_is_verified(vllm, cpu, layout):
    placed = small(layout)
    session, caches = opened(placed, cpu)
    legs = measure(session, placed, caches, cpu)
    assert [(leg.direction, leg.status) for leg in legs] == [
        ("store", LegStatus.PASSED),
        ("load", LegStatus.PASSED),
    ]
    assert session.slot_order is SlotOrder.TENSORS
    assert session.slots_offset == 0


@given(memories(), st.data())
def test_any_hybrid_lands_where_the_plan_says(drawn, data):
    memory, _ = drawn
    moved = {of_group.group: of_group for of_group in data.draw(transfers_in(memory))}
    each = tuple(moved.get(group) or transfer(group, [], []) for group in range(len(memory.layout.groups)))
    placed, device = PlacedTransfers(memory, each, each), CpuDevice()
    with pytest.MonkeyPatch.context() as patches:
        FakeVllm().install(patches)
        session, caches = opened(placed, device)
        legs = measure(session, placed, caches, device)
    assert [leg.status for leg in legs] == [LegStatus.PASSED] * 2


def test_times_cover_the_job_and_count_its_descriptors(vllm, cpu):
    session = small_session(cpu)
    times = session.store()
    assert times.descriptors == 6 * 3 + 3 * 2
    assert times.copy_s == pytest.approx(1e-9)
    assert times.fill_s > 0
    assert times.fill_s + times.submit_s + times.copy_s <= times.total_s
    assert times.threads == 1
    assert times.engine == "vllm"
    assert times.notes == ("copies by tests.targets.fake_vllm_kv._swap_blocks_batch",)
    assert session.load().descriptors == 4 * 3
    (worker,) = vllm.of(FakeWorker)
    assert worker.waited_for == [{0}, {1}]


def test_it_says_what_stands_in_and_how_the_region_is_held(vllm, cpu):
    session = small_session(cpu)
    assert session.stand_ins == ("cpu",)
    assert session.notes == (
        "vLLM's own worker, region, descriptors and copies",
        "vLLM's region has no guard bytes: a write past its end is not seen",
    )


def test_larger_slots_are_noted(vllm, cpu):
    memory = memory_of(full_group("a", tensor(4096)), full_group("b", tensor(4096)))
    session, _ = opened(PlacedTransfers(memory, (transfer(0, [1], [0]), transfer(1, [], [])), ()), cpu)
    assert "8.00 KiB per slot, where the reference takes 4.00 KiB" in session.notes[-1]


def test_a_region_that_a_device_could_not_pin_is_noted(vllm, cpu, monkeypatch):
    session = small_session(cpu)
    monkeypatch.setattr(cpu, "copies_inside_submit", False, raising=False)
    assert "vLLM could not pin its region" in session.notes[-1]


def test_a_region_that_rocm_would_not_use_is_noted(vllm, cpu, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "7.1")
    assert "on ROCm, vLLM's engine would give the worker pinned tensors" in small_session(cpu).notes[-1]


def test_closing_gives_the_region_back_and_may_be_done_twice(vllm, cpu):
    session = small_session(cpu)
    session.close()
    session.close()
    (region,) = vllm.of(FakeRegion)
    assert not region.open
    with pytest.raises(EcbenchError, match="after its close"):
        _ = session.region


def test_caches_that_the_worker_refuses_are_an_error_with_its_place_and_leave_no_region(vllm, cpu):
    def refuse(**_):
        raise AssertionError

    vllm.names["CPUOffloadingWorker"] = refuse
    with pytest.raises(
        CopyRefusedError, match=r"vLLM 0.32.0 did not take the caches: AssertionError \(test_vllm_kv_offload.py:\d+\)"
    ):
        small_session(cpu)
    (region,) = vllm.of(FakeRegion)
    assert not region.open


def test_a_worker_of_another_shape_is_named_and_leaves_no_region(vllm, cpu, monkeypatch):
    monkeypatch.delattr("tests.targets.fake_vllm_kv.FakeHandler._fill_group_ops")
    with pytest.raises(UnavailableError, match=r"FakeHandler.*has no _fill_group_ops"):
        small_session(cpu)
    (region,) = vllm.of(FakeRegion)
    assert not region.open


def test_a_job_that_raises_is_refused_and_the_next_one_runs(vllm, cpu, monkeypatch):
    session = small_session(cpu)
    with monkeypatch.context() as patches:
        patches.setattr(FakeWorker, "wait", lambda *_: torch.zeros(2).view(3))
        with pytest.raises(CopyRefusedError, match="did not store: RuntimeError: shape"):
            session.store()
    assert session.store().descriptors == 24


def test_the_error_of_a_device_that_failed_is_left_to_who_opened_it(vllm, monkeypatch):
    class FailingDevice(CpuDevice):
        def explain(self, error):
            return UnavailableError(f"device lost: {error}")

    session = small_session(FailingDevice())
    monkeypatch.setattr(FakeWorker, "wait", lambda *_: torch.zeros(2).view(3))
    with pytest.raises(RuntimeError, match="shape"):
        session.load()


def test_a_job_that_never_finishes_is_refused(vllm, cpu, monkeypatch):
    session = small_session(cpu)
    monkeypatch.setattr(FakeWorker, "get_finished", lambda _: [])
    with pytest.raises(CopyRefusedError, match=r"did not report job 0 as done, but \[\]"):
        session.load()


@pytest.mark.parametrize("error", [OSError(14, "Bad address"), RuntimeError("Insufficient space in /dev/shm")])
def test_a_region_that_cannot_be_had_does_not_fit(vllm, cpu, error):
    def refuse(**_):
        raise error

    vllm.names["SharedOffloadRegion"] = refuse
    with pytest.raises(DoesNotFitError, match=r"its region of 8 slots of 4096 bytes.*(Bad|Insufficient)"):
        small_session(cpu)


def test_a_region_larger_than_shared_memory_is_refused_before_it_is_made(vllm, cpu, monkeypatch):
    monkeypatch.setattr("ecbench.transfer.shared_region.shm_free_bytes", lambda: 4096)
    with pytest.raises(DoesNotFitError, match=r"needs 32.0 KiB of /dev/shm, which has 4.00 KiB free"):
        small_session(cpu)
    assert not vllm.of(FakeRegion)


def test_addresses_that_are_emulated_are_none_for_vllm(vllm):
    with pytest.raises(UnavailableError, match="runs on cpu, and the caches lie on xpu-sim: use --device cpu"):
        small_session(XpuSimDevice())


def test_caches_on_another_device_than_vllms_are_refused(monkeypatch, cpu):
    FakeVllm(device_type="cuda").install(monkeypatch)
    with pytest.raises(UnavailableError, match="runs on cuda, and the caches lie on cpu: use --device cuda"):
        small_session(cpu)


def test_host_memory_passes_for_a_devices_also_in_its_views():
    plain = torch.arange(8, dtype=torch.uint8)
    marked = as_device_tensor(plain)
    seen = marked.view(torch.int8).view((2, 4))
    assert marked.is_cuda
    assert seen.is_cuda
    assert not plain.is_cuda
    assert (seen.data_ptr(), seen.stride(), seen.shape) == (plain.data_ptr(), (4, 1), (2, 4))


@pytest.mark.parametrize(
    ("device_type", "pins", "expected"),
    [
        ("cuda", True, ["barrier"]),
        ("xpu", True, ["barrier"]),
        ("cpu", False, ["barrier", "is_cuda"]),
        ("", True, ["barrier", "is_cuda", "PIN_MEMORY"]),
    ],
)
def test_only_a_cpu_gets_more_than_the_barrier(monkeypatch, device_type, pins, expected):
    worker = SimpleNamespace(PIN_MEMORY=pins)
    found = {"PIN_MEMORY": pins, "modules": {KV_WORKER_MODULE: worker}}
    monkeypatch.setattr("ecbench.targets.vllm.kv_stand_ins.find", lambda _, name: found[name])
    monkeypatch.setattr("ecbench.targets.vllm.kv_stand_ins.install_stand_ins", lambda _: ("of the device",))
    first, *named = install_kv_stand_ins.__wrapped__(device_type)
    assert first == "of the device"
    assert len(named) == len(expected)
    assert all(word in name for word, name in zip(expected, named, strict=True))
    assert worker.PIN_MEMORY is (pins and device_type in {"cuda", "xpu"})


def test_what_the_worker_prints_stays_off_stdout(vllm, cpu, monkeypatch, capfd):
    session = small_session(cpu)
    monkeypatch.setattr(FakeWorker, "wait", lambda *_: sys.stdout.write("waiting"))
    shut_down = FakeWorker.shutdown
    monkeypatch.setattr(FakeWorker, "shutdown", lambda worker: (sys.stdout.write("bye"), shut_down(worker)))
    session.store()
    session.close()
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "waiting" in captured.err
    assert "bye" in captured.err
