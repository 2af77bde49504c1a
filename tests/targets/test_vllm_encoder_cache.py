"""vLLM's encoder-cache connector as a session, over a package that only has vLLM's names."""

from __future__ import annotations

import contextlib
import os

import pytest
import torch

from ecbench.core.errors import CopyRefusedError, DoesNotFitError, EcbenchError, UnavailableError
from ecbench.core.records import Fault, LegStatus
from ecbench.core.toml import parse_table
from ecbench.encoder_cache.workloads.placement import place_entries
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.measure.rounds import measure_rounds
from ecbench.measure.stages import StageClock
from ecbench.targets.registry import open_target
from ecbench.targets.vllm.stand_ins import HostEvent
from ecbench.targets.vllm.target import VllmTarget
from ecbench.workflows.encoder_cache_case import load_case, memory_need, open_case
from ecbench.workflows.round_trip import RoundTripOptions
from ecbench.workflows.scenarios import ScenarioFile

SCENARIO = """\
workload = "ec"
title = "Two small images"
model = "{model}"
images = [{{ size = "336x336", count = 2 }}, {{ size = "448x448" }}]
placement = "{placement}"
rounds = 2
"""
PLACEMENTS = ["one-run", "churned", "scattered"]
CPU = CpuDevice()
WORKER = "distributed/ec_transfer/ec_connector/cpu/worker.py"
SCHEDULER = "distributed/ec_transfer/ec_connector/cpu/scheduler.py"


def case_of(placement="scattered", model="qwen2-vl-2b", **options):
    text = SCENARIO.format(placement=placement, model=model)
    return load_case(
        ScenarioFile("small", "small.toml", text, parse_table(text, "small.toml")), RoundTripOptions(**options)
    )


def measure(copies, rounds=2):
    *_, legs = measure_rounds(copies, rounds=rounds, seed=0, label="case", clock=StageClock())
    return {leg.direction: leg for leg in legs}


def run(case, **changes):
    with open_case(case, CPU, open_target("vllm", CPU)) as copies:
        return measure(copies, **changes)


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def left_behind():
    return {name for name in os.listdir("/dev/shm") if name.startswith("vllm_ec_ecbench")}


@pytest.mark.parametrize("model", ["qwen2-vl-2b", "qwen3-vl-8b"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_byte_arrives_and_nothing_stays_in_shared_memory(vllm_tree, placement, model):
    legs = run(case_of(placement, model))
    assert [leg.status for leg in legs.values()] == [LegStatus.PASSED, LegStatus.PASSED]
    assert left_behind() == set()


def test_the_blocks_are_the_target_s_own_and_a_like_allocator_gives_the_same(vllm_tree):
    for placement in PLACEMENTS:
        case = case_of(placement)
        target = open_target("vllm", CPU)
        session = target.open_encoder_cache(case, device=CPU, allocate=CPU.empty)
        assert {key: list(session.block_ids(key)) for key in case.shapes} == {
            key: list(ids) for key, ids in place_entries(case).items()
        }
        session.close()


def test_times_have_their_parts_and_descriptors_are_counted(vllm_tree):
    case = case_of()
    for leg in run(case).values():
        assert (leg.engine, leg.writer) == ("vllm", "vllm")
        assert leg.descriptors == sum(case.blocks_per_entry)
        for sample in leg.samples:
            assert min(sample.fill_s, sample.submit_s, sample.copy_s) > 0
            assert sample.fill_s + sample.submit_s + sample.copy_s <= sample.total_s


def test_notes_say_whose_code_runs_and_what_is_not_checked(vllm_tree):
    notes = " ".join(run(case_of(), rounds=1)["save"].notes)
    assert "vLLM's own worker" in notes
    assert "no guard bytes" in notes


def test_the_name_of_the_region_is_gone_while_it_is_in_use(vllm_tree):
    with open_case(case_of(), CPU, open_target("vllm", CPU)) as copies:
        assert left_behind() == set()
        assert measure(copies, rounds=1)["load"].status is LegStatus.PASSED


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_memory_that_is_stated_is_enough(vllm_tree, placement):
    case, target = case_of(placement), open_target("vllm", CPU)
    need = memory_need(case, CPU, target)
    with open_case(case, CPU, target) as (save, _):
        assert save.destination.nbytes <= need.host_region_bytes
        assert save.source.nbytes == need.device_bytes


class Later(CpuDevice):
    """A device whose copies run after the submitting call, as far as the session can tell."""

    copies_inside_submit = False


def test_on_an_accelerator_vllm_loads_into_memory_of_its_own_which_is_then_checked(vllm_tree):
    with open_case(case_of(), Later(), open_target("vllm", CPU)) as copies:
        legs = measure(copies)
    assert [leg.status for leg in legs.values()] == [LegStatus.PASSED, LegStatus.PASSED]
    notes = " ".join(legs["load"].notes)
    assert "vLLM loads into memory of its own" in notes
    assert "vLLM did not pin its region" in notes
    for leg in legs.values():
        assert all(sample.copy_s > 0 for sample in leg.samples)


def test_memory_of_vllm_s_own_is_stated():
    assert VllmTarget("0.32.0", on_host=True, stand_ins=()).own_load_bytes(1000) == 0
    assert VllmTarget("0.32.0", on_host=False, stand_ins=()).own_load_bytes(1000) == 1000


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (WORKER, "def __init__(self, config)", "def __init__(self, config, rank)"),
        (SCHEDULER, "def __init__(self, config)", "def __init__(self, config, rank)"),
        (
            SCHEDULER,
            "def update_state_after_alloc(self, request, index)",
            "def update_state_after_alloc(self, request)",
        ),
        (SCHEDULER, "request.mm_features[index]", "request.features[index]"),
    ],
)
def test_another_signature_is_one_line_that_names_it(vllm_tree, module, old, new):
    change(vllm_tree / module, old, new)
    with pytest.raises(UnavailableError, match=r"vLLM 0\.32\.9 has an unknown form \((Type|Attribute)Error: "):
        run(case_of())
    assert left_behind() == set()


@pytest.mark.parametrize(
    ("wrong", "direction", "fault"),
    [
        ("if direction != 'save': swap_blocks_batch", "save", Fault.MISSING),
        ("if direction != 'load': swap_blocks_batch", "load", Fault.MISSING),
    ],
)
def test_a_copy_that_moves_nothing_is_found(vllm_tree, wrong, direction, fault):
    change(vllm_tree / WORKER, "        swap_blocks_batch(", f"        {wrong}(")
    leg = run(case_of())[direction]
    assert (leg.status, leg.verify.fault) == (LegStatus.FAILED, fault)


def test_a_load_into_memory_that_nobody_poisoned_is_still_found_where_nothing_moves(vllm_tree):
    """As on an accelerator, where vLLM allocates itself: what lies there is no content of this round."""
    change(
        vllm_tree / WORKER,
        'torch.empty(len(blocks), size, dtype=torch.int8, device="cpu")',
        "LEFT[: len(blocks) * size].view(len(blocks), size)",
    )
    change(
        vllm_tree / WORKER, "class ECCPUWorker", "LEFT = torch.zeros(1 << 24, dtype=torch.int8)\n\n\nclass ECCPUWorker"
    )
    change(
        vllm_tree / WORKER,
        "        swap_blocks_batch(",
        "        self.calls = getattr(self, 'calls', 0) + 1\n        if self.calls < 4: swap_blocks_batch(",
    )
    leg = run(case_of())["load"]
    assert (leg.status, leg.verify.fault) == (LegStatus.FAILED, Fault.STALE)


def test_entries_that_are_mixed_up_are_found(vllm_tree):
    change(vllm_tree / WORKER, "for key, (_, ids, shape) in items:", "for key, (_, ids, shape) in reversed(items):")
    leg = run(case_of())["load"]
    assert leg.status is LegStatus.FAILED


def test_a_refusal_becomes_an_error_of_that_direction_alone(vllm_tree):
    change(vllm_tree / WORKER, "source.record_stream(None)", "assert size < 0, 'blocks are too\\n small'")
    legs = run(case_of())
    assert legs["save"].status is LegStatus.ERROR
    assert legs["save"].reason == "vLLM 0.32.9 did not save: AssertionError: blocks are too small"
    assert legs["load"].status is LegStatus.PASSED


def test_entries_that_are_never_reported_are_named(vllm_tree):
    change(vllm_tree / WORKER, "completed_saves=saves", "completed_saves=saves[1:]")
    assert "did not report as saved: image-0" in run(case_of())["save"].reason


def test_a_step_that_queues_nothing_is_an_error(vllm_tree):
    change(vllm_tree / WORKER, "in_flight.append(", "print(")
    assert "queued no copy" in run(case_of())["save"].reason


@pytest.mark.parametrize("part", ["_submit_transfer", "_inflight_saves", "_inflight_loads"])
def test_a_worker_of_another_form_is_refused_with_the_part_it_lacks(vllm_tree, part):
    change(vllm_tree / WORKER, part, "_of_another_name")
    with pytest.raises(UnavailableError, match=f"ECCPUWorker of vLLM 0.32.9 has no {part}"):
        run(case_of())
    assert left_behind() == set()


def test_a_scheduler_without_its_allocator_is_refused(vllm_tree):
    change(vllm_tree / SCHEDULER, "self._cache", "self._blocks")
    with pytest.raises(UnavailableError, match=r"ECCPUScheduler of vLLM 0\.32\.9 has no _cache"):
        run(case_of())
    assert left_behind() == set()


def test_an_entry_without_room_is_named(vllm_tree):
    change(vllm_tree / SCHEDULER, "if blocks is not None", "if feature.identifier != 'image-1'")
    with pytest.raises(EcbenchError, match="vLLM gives no room to image-1"):
        run(case_of())


@pytest.mark.parametrize("error", ["OSError(14, 'Bad address')", "KeyboardInterrupt", "RuntimeError('no')"])
@pytest.mark.parametrize("module", [SCHEDULER, WORKER])
def test_nothing_stays_where_opening_fails(vllm_tree, module, error):
    change(vllm_tree / module, "self._region = Region(config)", f"self._region = Region(config); raise {error}")
    with contextlib.suppress(DoesNotFitError, KeyboardInterrupt, UnavailableError):
        run(case_of())
        pytest.fail("it opened")
    assert left_behind() == set()


def test_a_region_that_cannot_be_made_says_so(vllm_tree):
    change(vllm_tree / SCHEDULER, "self._region = Region(config)", "raise OSError(14, 'Bad address')")
    with pytest.raises(DoesNotFitError, match=r"vLLM cannot create its region of .* in /dev/shm \(Bad address\)"):
        run(case_of())


def test_a_region_larger_than_shared_memory_is_refused_before_vllm_makes_it(vllm_tree, monkeypatch):
    monkeypatch.setattr("ecbench.transfer.shared_region.shm_free_bytes", lambda: 4096)
    with pytest.raises(DoesNotFitError, match=r"4\.00 KiB free"):
        run(case_of())


def test_one_descriptor_per_block_cannot_be_asked_of_it(vllm_tree):
    with pytest.raises(EcbenchError, match="leave out --no-coalesce"):
        run(case_of(coalesce=False))


def test_closing_twice_is_no_fault(vllm_tree):
    session = open_target("vllm", CPU).open_encoder_cache(case_of(), device=CPU, allocate=CPU.empty)
    session.close()
    session.close()


def test_blocks_that_a_caller_names_are_copied_both_ways(vllm_tree):
    worker = open_target("vllm", CPU).open_blocks(96, 5, device=CPU)
    source, destination = torch.arange(288, dtype=torch.int16).to(torch.uint8), torch.zeros(288, dtype=torch.uint8)
    assert worker.save(source, [4, 0, 2]).descriptors == 3
    assert bytes(worker.region[:96]) == bytes(source[96:192])
    worker.load([4, 0, 2], destination)
    assert bytes(destination) == bytes(source)
    worker.close()
    assert left_behind() == set()


def test_a_lost_device_is_told_apart_from_a_refusal(vllm_tree):
    class Lost(CpuDevice):
        def explain(self, error):
            return UnavailableError("the device is lost") if "lost" in str(error) else None

    change(vllm_tree / WORKER, "source.record_stream(None)", "raise RuntimeError('device lost')")
    session = open_target("vllm", CPU).open_encoder_cache(case_of(), device=Lost(), allocate=CPU.empty)
    entry = torch.zeros(144, 1536, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="device lost"):
        session.save({"image-0": entry})
    other = open_target("vllm", CPU).open_encoder_cache(case_of(), device=CPU, allocate=CPU.empty)
    with pytest.raises(CopyRefusedError, match="RuntimeError: device lost"):
        other.save({"image-0": entry})
    session.close()
    other.close()


def test_the_time_between_events_that_were_not_recorded_is_refused():
    start, end = HostEvent(enable_timing=True), HostEvent(enable_timing=True)
    start.record(None)
    with pytest.raises(RuntimeError, match="both events must be recorded"):
        start.elapsed_time(end)
    end.record(None)
    assert start.elapsed_time(end) >= 0
