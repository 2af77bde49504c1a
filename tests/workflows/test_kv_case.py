from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.descriptors import Direction
from ecbench.core.errors import DoesNotFitError, EcbenchError, ScenarioError
from ecbench.core.records import Fault, LegStatus
from ecbench.core.toml import parse_table
from ecbench.engine.copy_engines.per_copy import PerCopyEngine
from ecbench.engine.copy_engines.staged import StagedEngine
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.registry import open_engine
from ecbench.kv_offload import OffloadSettings, load_model, look_up, plan_load, plan_store
from ecbench.kv_offload.device_blocks import KvLayout
from ecbench.kv_offload.host_slots import HostSlots
from ecbench.kv_offload.placement import PlacedTransfers
from ecbench.measure.rounds import measure_rounds
from ecbench.measure.stages import StageClock
from ecbench.targets.reference_target import ReferenceTarget
from ecbench.transfer.shared_region import shm_free_bytes
from ecbench.transfer.writers import find_writer
from ecbench.workflows.kv_block_plans import block_plan
from ecbench.workflows.kv_case import load_case, memory_need, open_case, open_kv_copies
from ecbench.workflows.round_trip import RoundTripOptions
from ecbench.workflows.scenarios import ScenarioFile
from tests.engine.fake_accelerator import fake_device
from tests.engine.fake_streams import Order
from tests.faults import FaultyEngine
from tests.kv_offload.hybrids import group, hybrid
from tests.kv_offload.transfers import byte_moves, memories, transfers_in

TINY = """\
workload = "dsv4"
title = "A short prompt"
model = "deepseek-v4-flash"
tokens = 300
rounds = 1
"""
LAYOUTS = list(KvLayout)


def small_plan(tokens=200, **settings):
    """A hybrid of a few KiB whose window group stores tails only."""
    model = hybrid(group("full", "full", 16), group("window", "sliding", 4, window=8))
    return plan_store(model, tokens, OffloadSettings(**settings))


def replay(plan):
    return plan_load(plan, look_up(plan, plan.prompt.tokens + 1).tokens)


def opened(plan, device, *, engine=None, layout=KvLayout.PACKED, max_bytes=None, load=None, **changes):
    return open_kv_copies(
        plan,
        replay(plan) if load is None else load,
        device=device,
        target=reference(device, engine),
        layout=layout,
        seed=1,
        max_bytes=max_bytes,
        **changes,
    )


def reference(device, engine=None):
    return ReferenceTarget(engine or open_engine("auto", device), find_writer("numpy-batch"), "auto")


def measure(copies, rounds=2):
    *_, legs = measure_rounds(copies, rounds=rounds, seed=0, label="case", clock=StageClock())
    return legs


def file_of(text, name="tiny"):
    return ScenarioFile(name, f"{name}.toml", text, parse_table(text, f"{name}.toml"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("settings", [{}, {"blocks_per_chunk": 3}, {"blocks_per_chunk": 2, "tensor_parallel": 3}])
def test_store_and_load_are_measured_and_right(device, layout, settings):
    plan = small_plan(**settings)
    with opened(plan, device, layout=layout) as kv:
        legs = measure(kv.copies)
    assert [leg.direction for leg in legs] == ["store", "load"]
    assert [leg.status for leg in legs] == [LegStatus.PASSED] * 2
    assert legs[0].blocks == sum(planned.stored_blocks for planned in plan.groups)
    assert legs[1].blocks == sum(load.blocks for load in replay(plan))
    assert (kv.sampled_fraction, kv.loaded_fraction, kv.sample_note) == (1.0, 1.0, None)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("make", [lambda device: PerCopyEngine(), StagedEngine], ids=["per-copy", "staged"])
def test_a_gpu_runs_it_with_its_host_slots_registered(layout, make):
    device = fake_device(Order.LATE)
    with opened(small_plan(blocks_per_chunk=3), device, engine=make(device), layout=layout) as kv:
        legs = measure(kv.copies)
        assert len(device.runtime.registered) == 1
    assert [leg.status for leg in legs] == [LegStatus.PASSED] * 2
    assert device.runtime.registered == {}
    assert device.runtime.unregistered_in_flight == []
    assert device.runtime.gpu.violations == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_flash_moves_the_stride_packed_and_real_pages_per_layer(cpu, layout):
    plan = plan_store(load_model("deepseek-v4-flash"), 600, OffloadSettings(retention_interval=0))
    with opened(plan, cpu, layout=layout) as kv:
        legs = measure(kv.copies, rounds=1)
    expected = {
        KvLayout.PACKED: plan.totals.all_stored_chunks * 1_002_240,
        KvLayout.PER_LAYER: plan.totals.stored_real_bytes,
    }
    assert [leg.status for leg in legs] == [LegStatus.PASSED] * 2
    assert legs[0].copied_bytes == expected[layout]


def test_legs_say_what_every_group_moves(cpu):
    with opened(small_plan(blocks_per_chunk=4), cpu) as kv:
        store, load = measure(kv.copies, rounds=1)
    assert "chunks stored by group: full 3, window 3" in store.notes
    assert "blocks loaded by group: full 12, window 2 (first chunk without 2)" in load.notes


@given(memories(), st.data())
def test_the_plan_that_is_verified_is_the_one_that_counting_bytes_gives(drawn, data):
    memory, _ = drawn
    moved = tuple(data.draw(transfers_in(memory)))
    placed = PlacedTransfers(memory, moved, moved)
    expected = [(there, here + 7) for there, here in byte_moves(memory, moved)]
    store = block_plan(placed, Direction.TO_HOST, 7, memory.host.nbytes + 14)
    load = block_plan(placed, Direction.TO_DEVICE, 7, memory.host.nbytes + 14)
    assert _moves(store.source_offsets, store.destination_offsets, store.sizes) == expected
    assert _moves(load.destination_offsets, load.source_offsets, load.sizes) == expected


def _moves(on_device, on_host, sizes):
    rows = zip(on_device.tolist(), on_host.tolist(), sizes.tolist(), strict=True)
    return [(there + byte, here + byte) for there, here, size in rows for byte in range(size)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_byte_of_padding_or_of_a_neighbour_that_changes_is_an_overrun(cpu, layout):
    def touch_what_nobody_copies(source, destination, sources, destinations, sizes):
        free = set(range(len(destination)))
        for start, size in zip(destinations.tolist(), sizes.tolist(), strict=True):
            free.difference_update(range(start, start + size))
        destination[sorted(free)[len(free) // 2]] ^= 1

    with opened(small_plan(), cpu, engine=FaultyEngine(touch_what_nobody_copies), layout=layout) as kv:
        legs = measure(kv.copies)
    assert [leg.verify.fault for leg in legs] == [Fault.OVERRUN] * 2


def test_a_worker_that_confuses_the_parts_of_a_slot_is_found(cpu, monkeypatch):
    right = HostSlots.part_offset
    monkeypatch.setattr(HostSlots, "part_offset", lambda self, rank: right(self, 1 - rank))
    with opened(small_plan(tensor_parallel=2), cpu) as kv:
        legs = measure(kv.copies)
    assert [leg.status for leg in legs] == [LegStatus.FAILED] * 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_plan_that_is_too_large_is_sampled_and_says_so(cpu, layout):
    plan = small_plan(tokens=4000)
    limit = 300_000
    with opened(plan, cpu, layout=layout, max_bytes=limit) as kv:
        legs = measure(kv.copies, rounds=1)
        taken = sum(copy.nbytes for copy in (kv.copies[0].source, kv.copies[0].destination))
    assert taken <= limit + 2 * 4096
    assert [leg.status for leg in legs] == [LegStatus.PASSED] * 2
    assert 0 < kv.sampled_fraction < 1
    stored = plan.totals.all_stored_chunks
    assert kv.sample_note.startswith(f"sample: {legs[0].blocks} of {stored} stored chunks (")
    assert f"{kv.sampled_fraction:.2%}" in kv.sample_note


def test_a_limit_below_a_chunk_per_group_is_refused(cpu):
    with (
        pytest.raises(DoesNotFitError, match="one chunk of every group takes"),
        opened(small_plan(), cpu, max_bytes=10),
    ):
        pass


def test_a_load_that_the_plan_does_not_serve_is_refused(cpu):
    plan = plan_store(load_model("deepseek-v4-flash"), 2500, OffloadSettings(retention_interval=0))
    with pytest.raises(EcbenchError, match="group swa-a: the load needs"), opened(plan, cpu, load=plan_load(plan, 512)):
        pass


def test_a_prompt_that_stores_no_chunk_has_nothing_to_copy_and_says_so(cpu):
    with opened(small_plan(tokens=3), cpu) as kv:
        assert kv.copies == []
        assert "stores no whole chunk" in kv.sample_note


def test_a_replay_that_hits_nothing_leaves_the_store(cpu):
    plan = small_plan()
    with opened(plan, cpu, load=plan_load(plan, 0)) as kv:
        (leg,) = measure(kv.copies)
    assert (leg.direction, leg.status) == ("store", LegStatus.PASSED)


def test_memory_is_given_back_also_after_an_error(cpu):
    plan = plan_store(load_model("deepseek-v4-flash"), 2500, OffloadSettings())
    before, taken = shm_free_bytes(), []

    def interrupt():
        with opened(plan, cpu):
            taken.append(before - shm_free_bytes())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    gc.collect()
    assert taken[0] > plan.totals.stored_host_bytes // 2
    assert before - shm_free_bytes() < taken[0] // 2


@pytest.mark.parametrize("name", ["layout = 'packed'", "layout = 'per-layer'"])
def test_memory_is_stated_as_it_is_taken(name):
    case = load_case(file_of(TINY + name), RoundTripOptions())
    device = CpuDevice()
    need = memory_need(case, device, reference(device))
    with open_case(case, device, reference(device)) as (store, _):
        assert (store.source.nbytes, store.destination.nbytes) == (need.device_bytes, need.host_region_bytes)
    assert need.device_is_host


def test_the_command_line_replaces_model_rounds_and_coalescing():
    options = RoundTripOptions(model="deepseek-v4-pro", rounds=3, coalesce=False)
    case = load_case(file_of(TINY), options)
    assert case.case_id == "tiny/deepseek-v4-pro"
    assert (case.scenario.rounds, case.scenario.coalesce) == (3, False)


def test_a_model_of_another_workload_is_refused_with_the_choices():
    with pytest.raises(EcbenchError, match="unknown model 'gemma3-4b': choose one of deepseek-v4-flash"):
        load_case(file_of(TINY), RoundTripOptions(model="gemma3-4b"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('layout = "flat"', r"tiny.toml, line 6, key 'layout': invalid enum value 'flat'"),
        ("tokens_per_block = 4", "tiny.toml, line 6, key 'tokens_per_block'.*unknown field"),
        ("blocks_per_chunk = 0", "tiny.toml: blocks_per_chunk is 0: give 1 to"),
        ("retention_interval = true", "tiny.toml, line 6, key 'retention_interval'"),
    ],
)
def test_a_bad_key_or_value_names_the_file(line, message):
    with pytest.raises(ScenarioError, match=message):
        load_case(file_of(TINY + line), RoundTripOptions())
