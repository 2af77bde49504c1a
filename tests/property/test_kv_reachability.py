"""What must hold of every mask, whatever the numbers."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ecbench.kv_offload import OffloadSettings, plan_store, policy_names, stored_blocks
from ecbench.kv_offload.policies import find_policy
from tests.kv_offload.hybrids import group, hybrid
from tests.property.kv_hybrids import plans

BLOCK = st.sampled_from([1, 2, 4, 8, 16, 64])


@st.composite
def masks(draw):
    block = draw(BLOCK)
    start = draw(st.integers(0, 60))
    end = start + draw(st.integers(0, 80))
    return {
        "start_block": start,
        "end_block": end,
        "tokens_per_block": block,
        "sliding_window": draw(st.integers(1, 300)),
        "alignment_tokens": draw(st.one_of(st.none(), st.integers(1, 12).map(lambda times: times * block))),
        "eagle": draw(st.booleans()),
        "retention_interval": draw(st.one_of(st.none(), st.integers(0, 12).map(lambda times: times * block))),
        "reachable_boundaries": draw(st.lists(st.integers(0, end * block), max_size=3)),
        "final_segment_end_block": draw(st.one_of(st.none(), st.integers(0, end))),
    }


def mask(arguments: dict, **changes) -> np.ndarray:
    arguments = {**arguments, **changes}
    return stored_blocks(arguments.pop("start_block"), arguments.pop("end_block"), **arguments)


@given(masks(), st.integers(0, 200))
def test_a_wider_window_never_stores_less(arguments, more):
    narrow = mask(arguments)
    wide = mask(arguments, sliding_window=arguments["sliding_window"] + more)
    assert not (narrow & ~wide).any()


@given(plans(), st.integers(0, 60))
def test_a_model_with_wider_windows_never_stores_less(plan, more):
    model, settings_ = plan.layout.model, plan.layout.settings
    wider = tuple(
        msgspec.structs.replace(part, window_tokens=part.window_tokens and part.window_tokens + more)
        for part in model.groups
    )
    wide = plan_store(
        msgspec.structs.replace(model, groups=wider),
        plan.prompt.tokens,
        settings_,
        shared_prefixes=plan.prompt.shared_prefixes,
    )
    for narrow_part, wide_part in zip(plan.groups, wide.groups, strict=True):
        assert not (narrow_part.stored & ~wide_part.stored).any()


@given(masks(), st.integers(0, 80))
def test_blocks_stored_in_two_steps_are_those_stored_at_once(arguments, first):
    start, end = arguments["start_block"], arguments["end_block"]
    middle = min(start + first, end)
    steps = [mask(arguments, end_block=middle), mask(arguments, start_block=middle)]
    assert np.array_equal(np.concatenate(steps), mask(arguments))


@given(masks())
def test_a_boundary_more_never_stores_less(arguments):
    fewer = mask(arguments, reachable_boundaries=arguments["reachable_boundaries"][:-1])
    assert not (fewer & ~mask(arguments)).any()


@given(plans(), st.lists(st.integers(0, 200), max_size=4))
@settings(deadline=None)
def test_chunks_stored_in_steps_are_those_stored_at_once(plan, cuts):
    policy = find_policy(plan.layout.settings.policy)
    for part in plan.groups:
        ends = sorted({0, part.full_chunks, *(min(cut, part.full_chunks) for cut in cuts)})
        rule = policy.chunk_rule(plan.layout, part.layout)
        steps = [rule.stored_chunks(*step, plan.prompt) for step in pairwise(ends)]
        assert np.array_equal(np.concatenate([*steps, []]).astype(bool), part.stored)


@given(BLOCK, st.integers(1, 12), st.integers(1, 400), st.integers(1, 10))
def test_both_policies_agree_where_windows_round_alike_and_the_request_ends_on_a_segment(
    block, per_segment, window, segments
):
    assume(-(-window // block) == -(-(window - 1) // block))
    alignment = per_segment * block
    model = hybrid(group("full", "full", alignment), group("window", "sliding", block, window))
    stored = [plan_store(model, segments * alignment, OffloadSettings(policy=name)) for name in policy_names()]
    for one, other in pairwise(stored):
        assert [part.chunk_ids().tolist() for part in one.groups] == [
            part.chunk_ids().tolist() for part in other.groups
        ]
