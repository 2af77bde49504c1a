from __future__ import annotations

from dataclasses import replace

from ecbench.kv_offload import OffloadSettings
from ecbench.kv_offload.known_differences import FREED_EARLY, known_difference, known_refusal
from ecbench.kv_offload.real_scheduler import SchedulerRequest
from tests.kv_offload.fake_scheduler import as_planned, flip
from tests.kv_offload.hybrids import group, hybrid

REQUEST = SchedulerRequest(
    model=hybrid(group("full", "full", 2), group("local", "chunked", 2, 4)),
    tokens=32,
    settings=OffloadSettings(blocks_per_chunk=4),
    step_tokens=4,
)
PLAN = REQUEST.plan()
LAST = len(PLAN.groups[1].stored) - 1


def without_last_chunk(plan):
    """A scheduler that lost the window's last chunk, so that its replay hits a segment less."""
    scheduled = flip(as_planned(plan), 1, LAST)
    return replace(scheduled, replay_hit_tokens=24)


def test_a_chunk_whose_blocks_were_given_away_before_it_was_whole_explains_all_that_follows():
    assert PLAN.groups[1].stored[LAST]
    assert known_difference(REQUEST, PLAN, without_last_chunk(PLAN)) is FREED_EARLY


def test_with_another_hit_than_follows_it_explains_nothing():
    scheduled = replace(without_last_chunk(PLAN), replay_hit_tokens=8)
    assert known_difference(REQUEST, PLAN, scheduled) is None


def test_a_chunk_that_is_stored_beyond_the_plan_is_not_explained():
    scheduled = as_planned(PLAN)
    extra = next(chunk for chunk, stored in enumerate(scheduled.groups[0].stored) if stored)
    assert known_difference(REQUEST, PLAN, flip(scheduled, 0, extra)) is None


def test_steps_as_long_as_chunks_and_prompts_at_once_lose_nothing():
    for step in (None, 8):
        request = SchedulerRequest(model=REQUEST.model, tokens=32, settings=REQUEST.settings, step_tokens=step)
        assert known_difference(request, PLAN, without_last_chunk(PLAN)) is None


def test_other_groups_are_not_explained():
    scheduled = as_planned(PLAN)
    assert known_difference(REQUEST, PLAN, replace(scheduled, groups=scheduled.groups[:1])) is None


def test_refusals_are_known_by_their_words():
    single = "ValueError: Invalid prefix_match_unit=2; with a single KV cache group, prefix-cache hits land on the"
    assert known_refusal(single).name == "match-unit-of-one-group"
    retention = "ValueError: prefix_cache_retention_interval is set but this model has no sliding-window or Mamba KV"
    assert known_refusal(retention).name == "retention-without-window"
    assert known_refusal("group 'g' keeps Mamba states, which vLLM's engine").name == "states-by-rule-alone"
    assert known_refusal("AssertionError: without a word") is None
