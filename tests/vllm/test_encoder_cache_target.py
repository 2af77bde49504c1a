"""The installed vLLM's encoder-cache connector, through the same rounds and the same verifier as the reference."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
import torch

from ecbench.core.records import Fault, LegStatus
from ecbench.core.toml import parse_table
from ecbench.encoder_cache.workloads.models import encoder_models
from ecbench.encoder_cache.workloads.placement import place_entries
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.measure.rounds import measure_rounds
from ecbench.measure.stages import StageClock
from ecbench.targets.registry import open_target
from ecbench.targets.vllm import stand_ins
from ecbench.workflows.encoder_cache_case import load_case, open_case
from ecbench.workflows.round_trip import RoundTripOptions
from ecbench.workflows.scenarios import ScenarioFile

pytestmark = pytest.mark.vllm
CPU = CpuDevice()
PLACEMENTS = ["one-run", "churned", "scattered"]
SCENARIO = """\
workload = "ec"
title = "Three small images"
model = "{model}"
images = [{{ size = "336x336", count = 2 }}, {{ size = "448x448" }}]
placement = "{placement}"
source_offset_bytes = 72
"""


@pytest.fixture(scope="module")
def target():
    return open_target("vllm", CPU)


def case_of(placement="churned", model="qwen2-vl-2b", seed=0):
    text = SCENARIO.format(placement=placement, model=model)
    file = ScenarioFile("small", "small.toml", text, parse_table(text, "small.toml"))
    return load_case(file, RoundTripOptions(seed=seed))


def measure(case, target, rounds=2):
    with open_case(case, CPU, target) as copies:
        *_, legs = measure_rounds(copies, rounds=rounds, seed=0, label="case", clock=StageClock())
    return {leg.direction: leg for leg in legs}


def left_behind():
    return {name for name in os.listdir("/dev/shm") if name.startswith("vllm_ec_ecbench")}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("model", encoder_models())
def test_every_byte_arrives_and_nothing_stays_in_shared_memory(target, model, placement):
    legs = measure(case_of(placement, model), target)
    assert [leg.status for leg in legs.values()] == [LegStatus.PASSED, LegStatus.PASSED]
    assert left_behind() == set()


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_reference_gives_the_same_blocks_and_as_many_descriptors(target, placement, seed):
    case = case_of(placement, seed=seed)
    session = target.open_encoder_cache(case, device=CPU, allocate=CPU.empty)
    given = {key: list(session.block_ids(key)) for key in case.shapes}
    session.close()
    assert given == {key: list(ids) for key, ids in place_entries(case).items()}
    reference = measure(case, open_target("reference", CPU), rounds=1)
    vllm = measure(case, target, rounds=1)
    assert {leg: (was.descriptors, was.copied_bytes) for leg, was in reference.items()} == {
        leg: (is_now.descriptors, is_now.copied_bytes) for leg, is_now in vllm.items()
    }


def test_times_have_their_parts(target):
    for leg in measure(case_of("scattered"), target).values():
        for sample in leg.samples:
            assert min(sample.fill_s, sample.submit_s, sample.copy_s) > 0
            assert sample.fill_s + sample.submit_s + sample.copy_s <= sample.total_s


def test_copies_that_move_nothing_are_found_in_both_directions(target, monkeypatch):
    nothing = SimpleNamespace(prepare=lambda _: SimpleNamespace(run=lambda _: None))
    monkeypatch.setattr(stand_ins, "_engine", lambda: nothing)
    legs = measure(case_of(), target)
    assert {name: (leg.status, leg.verify.fault) for name, leg in legs.items()} == {
        "save": (LegStatus.FAILED, Fault.MISSING),
        "load": (LegStatus.FAILED, Fault.MISSING),
    }


def test_a_load_outside_the_pool_is_copied_to_where_it_is_checked(target, monkeypatch):
    """As on an accelerator, where vLLM allocates by itself."""
    monkeypatch.setattr(stand_ins.POOLED_TORCH, "empty", torch.empty, raising=False)
    assert measure(case_of(), target)["load"].status is LegStatus.PASSED


def test_an_entry_that_vllm_refuses_names_its_reason(target):
    case = case_of()
    session = target.open_encoder_cache(case, device=CPU, allocate=CPU.empty)
    too_long = {"image-0": torch.zeros(4096, 1536, dtype=torch.bfloat16)}
    with pytest.raises(Exception, match=r"vLLM .* did not save: AssertionError: .*exceeds allocated blocks") as caught:
        session.save(too_long)
    assert caught.type.__name__ == "CopyRefusedError"
    session.close()
    session.close()


def test_blocks_that_a_sweep_names_are_copied_both_ways(target):
    worker = target.open_blocks(97, 9, device=CPU)
    source = torch.arange(4 * 97, dtype=torch.int32).to(torch.uint8)
    destination = torch.zeros_like(source)
    block_ids = [6, 7, 1, 0]
    assert worker.save(source, block_ids).descriptors == 3
    for place, block in enumerate(block_ids):
        assert torch.equal(worker.region[block * 97 :][:97], source[place * 97 :][:97])
    assert worker.load(block_ids, destination).descriptors == 3
    assert torch.equal(destination, source)
    worker.close()
    assert left_behind() == set()
