"""The installed vLLM's KV worker, through the same rounds and the same verifier as the reference."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecbench.core.descriptors import Direction
from ecbench.core.errors import CopyRefusedError, DoesNotFitError
from ecbench.core.records import Fault, LegStatus
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.kv_offload.placement import PlacedTransfers, place_transfers
from ecbench.kv_offload.sampling import sample_chunks
from ecbench.kv_offload.scenario import make_case
from ecbench.measure.rounds import measure_rounds
from ecbench.measure.stages import StageClock
from ecbench.targets.vllm import kv_worker
from ecbench.targets.vllm.installation import find, load_vllm
from ecbench.targets.vllm.kv_layout import region_bytes
from ecbench.targets.vllm.kv_offload import VllmKvSession
from ecbench.workflows.kv_case import load_case, measured_copy
from ecbench.workflows.round_trip import RoundTripOptions
from ecbench.workflows.scenarios import read_scenario
from tests.conftest import ROOT
from tests.kv_offload.transfers import full_group, memories, memory_of, tensor, transfer, transfers_in

pytestmark = pytest.mark.vllm
SMALL_TOKENS = 1100
"""At least one whole chunk of every group, at four blocks per chunk."""
SHM = Path("/dev/shm")
"""Where vLLM's region lies."""


@pytest.fixture(scope="module", autouse=True)
def _vllm():
    load_vllm()


def small_case(name, **changes):
    case = load_case(read_scenario(name), RoundTripOptions())
    scenario = msgspec.structs.replace(case.scenario, **{"tokens": SMALL_TOKENS, **changes})
    return make_case(name, scenario, 0, ROOT)


def placed_case(case):
    sample = sample_chunks(case.plan, case.loads, case.scenario.layout, None)
    return place_transfers(sample, case.scenario.block_order, 0)


def measure(session, placed, caches, device, rounds=1):
    copies = [measured_copy(to, placed, session, caches, device, writer="vllm", notes=()) for to in Direction]
    *_, legs = measure_rounds(copies, rounds=rounds, seed=0, label="case", clock=StageClock())
    return legs


def run(placed, rounds=1):
    device = CpuDevice()
    caches = device.empty(placed.memory.device.nbytes)
    session = VllmKvSession(placed, caches, device=device)
    try:
        return measure(session, placed, caches, device, rounds)
    finally:
        session.close()


def names_in_shm(pid=None):
    return {path.name for path in SHM.glob(f"vllm_offload_ecbench_{pid or os.getpid()}_*")}


def regions_held():
    """Mappings and descriptors of regions that this process still has; a mapping keeps a descriptor of its own."""
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").count("vllm_offload_ecbench")
    descriptors = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return mapped, sum("vllm_offload_ecbench" in target for target in descriptors)


@pytest.mark.parametrize("name", ["kv-dsv4-flash", "kv-dsv4-per-layer", "kv-dsv4-per-rank"])
@pytest.mark.parametrize("blocks_per_chunk", [1, 4])
@pytest.mark.parametrize("block_order", ["in-order", "shuffled"])
def test_shipped_scenarios_are_stored_and_loaded_to_the_byte(name, blocks_per_chunk, block_order):
    case = small_case(name, blocks_per_chunk=blocks_per_chunk, block_order=block_order)
    placed = placed_case(case)
    store, load = run(placed)
    assert (store.status, load.status) == (LegStatus.PASSED, LegStatus.PASSED)
    pages = [len(tensors) for tensors in placed.memory.device.tensors]
    for leg, transfers in ((store, placed.stores), (load, placed.loads)):
        assert leg.descriptors == sum(moved.blocks * pages[moved.group] for moved in transfers)
        assert leg.engine == "vllm"
        assert "copies by vllm._custom_ops.swap_blocks_batch" in leg.notes


def test_a_load_that_begins_inside_a_chunk_is_right():
    placed = placed_case(small_case("kv-dsv4-per-layer", tokens=2500, computed_tokens=256))
    assert [moved.skip for moved in placed.loads] == [2, 2, 1, 2, 0]
    assert [leg.status for leg in run(placed)] == [LegStatus.PASSED] * 2


@settings(max_examples=200)
@given(memories(), st.data())
def test_any_hybrid_lands_where_the_plan_says(drawn, data):
    memory, _ = drawn
    moved = {of_group.group: of_group for of_group in data.draw(transfers_in(memory))}
    each = tuple(moved.get(group) or transfer(group, [], []) for group in range(len(memory.layout.groups)))
    assert [leg.status for leg in run(PlacedTransfers(memory, each, each))] == [LegStatus.PASSED] * 2


def test_what_stands_in_for_a_device_is_named():
    placed, device = hybrid(), CpuDevice()
    session = VllmKvSession(placed, device.empty(placed.memory.device.nbytes), device=device)
    session.close()
    named = " ".join(session.stand_ins)
    for what in ("swap_blocks_batch", "torch.Event", "is_cuda", "barrier"):
        assert what in named


def test_times_are_taken_inside_the_handler():
    store, load = run(placed_case(small_case("kv-dsv4-per-layer")), rounds=3)
    for sample in (*store.samples, *load.samples):
        assert 0 < sample.fill_s < sample.total_s
        assert 0 < sample.submit_s < sample.total_s
        assert 0 < sample.copy_s < sample.total_s
        assert sample.fill_s + sample.submit_s + sample.copy_s <= sample.total_s


def hybrid():
    """Pages of 64 bytes in two groups, 16 transfers each way."""
    memory = memory_of(full_group("a", tensor(64, 8, layers=2)), full_group("b", tensor(64)), blocks_per_chunk=2)
    stores = transfer(0, [0, 5, 3, 1], [7, 2]), transfer(1, [4, 2], [5])
    return PlacedTransfers(memory, stores, stores)


def skip_one(sources, destinations, sizes):
    sizes[3] = 0


def shift_one(sources, destinations, sizes):
    sources[3] += 8


def swap_two(sources, destinations, sizes):
    sources[[3, 4]] = sources[[4, 3]].clone()


def overrun_one(sources, destinations, sizes):
    sizes[3] += 8


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (skip_one, Fault.MISSING),
        (shift_one, Fault.SHIFTED),
        (swap_two, Fault.SWAPPED),
        (overrun_one, Fault.OVERRUN),
    ],
)
def test_an_operator_that_does_one_thing_wrong_is_found(monkeypatch, spoil, fault):
    right = find("vllm._custom_ops", "swap_blocks_batch")

    def wrong(sources, destinations, sizes, **named):
        arrays = sources.clone(), destinations.clone(), sizes.clone()
        spoil(*arrays)
        right(*arrays, **named)

    monkeypatch.setattr("vllm._custom_ops.swap_blocks_batch", wrong)
    legs = run(hybrid())
    assert [leg.status for leg in legs] == [LegStatus.FAILED] * 2
    assert [leg.verify.fault for leg in legs] == [fault] * 2


@pytest.mark.parametrize("wrong", [{"tensors": "reversed"}, {"groups": "reversed"}])
def test_caches_told_to_the_worker_in_another_order_are_found(monkeypatch, wrong):
    right = kv_worker.open_kv_worker

    def confused(refs, *others):
        changes = {name: getattr(refs, name)[::-1] for name in wrong}
        return right(type(refs)(**{**_fields(refs), **changes}), *others)

    monkeypatch.setattr("ecbench.targets.vllm.kv_offload.open_kv_worker", confused)
    assert LegStatus.FAILED in [leg.status for leg in run(hybrid())]


def _fields(refs):
    return {name: getattr(refs, name) for name in ("tensors", "groups", "rank_bytes", "slot_bytes")}


def test_the_region_never_keeps_a_name_and_is_given_back():
    placed, device = placed_case(small_case("kv-dsv4-flash")), CpuDevice()
    session = VllmKvSession(placed, device.empty(placed.memory.device.nbytes), device=device)
    assert names_in_shm() == set()
    assert regions_held() == (1, 2)
    assert session.region.nbytes == region_bytes(placed.memory)
    session.close()
    session.close()
    assert regions_held() == (0, 0)


def test_a_region_that_is_still_looked_at_goes_with_the_last_look():
    placed, device = hybrid(), CpuDevice()
    session = VllmKvSession(placed, device.empty(placed.memory.device.nbytes), device=device)
    seen = session.region
    session.close()
    assert int(seen.sum()) == 0
    del seen, session
    gc.collect()
    assert regions_held() == (0, 0)


def test_nothing_is_left_when_the_worker_refuses_its_caches(monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr("vllm.v1.kv_offload.cpu.gpu_worker._select_swap_blocks_fn", refuse)
    with pytest.raises(CopyRefusedError, match="did not take the caches: AssertionError"):
        run(hybrid())
    gc.collect()
    assert names_in_shm() == set()
    assert regions_held() == (0, 0)


def test_an_operator_that_raises_refuses_the_leg_and_leaves_nothing(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the driver fell over")

    monkeypatch.setattr("vllm._custom_ops.swap_blocks_batch", fail)
    legs = run(hybrid())
    assert [leg.status for leg in legs] == [LegStatus.ERROR] * 2
    assert "did not store: RuntimeError: the driver fell over" in legs[0].reason
    assert names_in_shm() == set()
    assert regions_held() == (0, 0)


def test_slots_that_do_not_fit_shared_memory_are_refused_by_both_checks(monkeypatch):
    monkeypatch.setattr("ecbench.transfer.shared_region.shm_free_bytes", lambda: 4096)
    with pytest.raises(DoesNotFitError, match=r"4[.]00 KiB free"):
        run(hybrid())
    monkeypatch.undo()
    real = find("shutil", "disk_usage")
    monkeypatch.setattr("shutil.disk_usage", lambda path: real(path)._replace(free=4096))
    with pytest.raises(DoesNotFitError, match="Insufficient space"):
        run(hybrid())
    assert names_in_shm() == set()


KILLED = """
import os, signal
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.targets.vllm.kv_offload import VllmKvSession
from tests.vllm.test_kv_offload_target import hybrid

placed, device = hybrid(), CpuDevice()
session = VllmKvSession(placed, device.empty(placed.memory.device.nbytes), device=device)
session.store()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_no_file():
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=ROOT, stderr=subprocess.PIPE)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, errors
    assert names_in_shm(process.pid) == set()
