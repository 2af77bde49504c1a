"""Our rule for what a group stores against the installed vLLM's own."""

from __future__ import annotations

import json

import pytest
import torch

from ecbench.kv_offload import OffloadSettings
from ecbench.kv_offload.differential import compare_masks
from ecbench.kv_offload.fuzzing import draw_request
from ecbench.kv_offload.real_scheduler import SchedulerRequest
from ecbench.targets.vllm.kv_mask import group_masks
from ecbench.targets.vllm.kv_models import named
from tests.conftest import GOLDEN
from tests.kv_offload.hybrids import group, hybrid

pytestmark = pytest.mark.vllm
DRAWN = 10_000


@pytest.mark.parametrize("seed", [0, 1])
def test_10000_drawn_requests_store_the_same_chunks(seed):
    requests = (draw_request(seed, number) for number in range(DRAWN // 2))
    different = [request for request in requests if compare_masks(request.plan(), group_masks(request))]
    assert different == []


def test_every_golden_mask_is_what_the_installed_vllm_says():
    rule = named("vllm.v1.core.single_type_kv_cache_manager", "SlidingWindowManager").reachable_block_mask
    make = named("vllm.v1.kv_cache_interface", "SlidingWindowSpec")
    cases = json.loads((GOLDEN / "reachable_block_mask_vllm_0.33.0.json").read_text())["cases"]
    assert len(cases) == 1500
    for case in cases:
        arguments = dict(case)
        stored = arguments.pop("stored")
        size, window = arguments.pop("tokens_per_block"), arguments.pop("sliding_window")
        arguments["use_eagle"] = arguments.pop("eagle", False)
        spec = make(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.uint8, sliding_window=window)
        mask = rule(kv_cache_spec=spec, **arguments)
        assert (None if mask is None else "".join("01"[kept] for kept in mask)) == stored, case


@pytest.mark.parametrize("retention", [None, 0, 64])
@pytest.mark.parametrize("step", [None, 7])
def test_states_are_stored_by_the_same_rule(retention, step):
    request = SchedulerRequest(
        model=hybrid(group("full", "full", 16), group("states", "mamba", 16, mamba_cache_mode="align")),
        tokens=200,
        settings=OffloadSettings(retention_interval=retention),
        step_tokens=step,
    )
    masks = group_masks(request)
    assert masks[0] is None
    assert compare_masks(request.plan(), masks) == ()


def test_groups_without_a_rule_of_their_own_have_no_mask():
    request = SchedulerRequest(
        model=hybrid(group("full", "full", 16), group("local", "chunked", 8, 16)), tokens=64, settings=OffloadSettings()
    )
    assert group_masks(request) == (None, None)
