from __future__ import annotations

from dataclasses import replace

import pytest

from ecbench.kv_offload import OffloadSettings, load_model
from ecbench.kv_offload.differential import Difference, compare_masks, compare_plan
from ecbench.kv_offload.real_scheduler import SchedulerRequest
from tests.kv_offload.fake_scheduler import as_planned, flip
from tests.kv_offload.golden_runs import RUNS, plan_of, run_id
from tests.kv_offload.hybrids import group, hybrid

PLAN = SchedulerRequest(
    model=hybrid(group("full", "full", 16), group("window", "sliding", 4, 8)), tokens=50, settings=OffloadSettings()
).plan()


def golden_schedule(run):
    """What the real scheduler did, as far as the golden file keeps it, filled up with what was planned."""
    scheduled = as_planned(plan_of(run))
    return replace(scheduled, **{key: run[key] for key in ("hash_block_size", "host_slot_bytes", "replay_hit_tokens")})


@pytest.mark.parametrize("run", RUNS, ids=run_id)
def test_a_golden_run_and_our_plan_of_it_do_not_differ(run):
    assert compare_plan(plan_of(run), golden_schedule(run)) == ()


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"alignment_tokens": None}, Difference("alignment in tokens", "16", "none")),
        ({"scheduler_block_size": 32}, Difference("scheduler block", "16", "32")),
        ({"hash_block_size": 2}, Difference("hash block", "4", "2")),
        ({"block_stride_bytes": 2048}, Difference("block stride in bytes", "1,024", "2,048")),
        ({"replay_hit_tokens": 0}, Difference("replay hit in tokens", "48", "0")),
    ],
)
def test_a_single_difference_is_the_only_one_that_is_named(change, difference):
    assert compare_plan(PLAN, replace(as_planned(PLAN), **change)) == (difference,)


def test_host_slots_change_the_host_bytes_with_them():
    found = compare_plan(PLAN, replace(as_planned(PLAN), host_slot_bytes=8192))
    assert [difference.what for difference in found] == ["host slot in bytes", "stored host bytes"]


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("caches", 2, "caches"),
        ("tokens_per_block", 8, "tokens per block"),
        ("window_chunks", None, "window in chunks"),
        ("eagle", True, "EAGLE"),
        ("page_size_bytes", 1, "page in bytes"),
    ],
)
def test_a_group_that_is_another_is_named_with_what_differs(field, value, what):
    scheduled = as_planned(PLAN)
    groups = (scheduled.groups[0], replace(scheduled.groups[1], **{field: value}))
    found = compare_plan(PLAN, replace(scheduled, groups=groups))
    assert (found[0].what, found[0].group) == (what, "window")


def test_another_chunk_is_shown_with_its_number_and_with_what_follows_from_it():
    found = compare_plan(PLAN, flip(as_planned(PLAN), 1, 5))
    assert found[0] == Difference("stored chunks", "6", "7", first_chunk=5, group="window")
    assert [difference.what for difference in found[1:]] == ["stored real bytes", "stored host bytes"]


def test_as_many_chunks_but_others_differ_too():
    found = compare_plan(PLAN, flip(flip(as_planned(PLAN), 1, 4), 1, 6))
    assert found == (Difference("stored chunks", "6", "6", first_chunk=4, group="window"),)


def test_other_numbers_of_groups_are_told_and_no_chunks_are_compared():
    scheduled = as_planned(PLAN)
    found = compare_plan(PLAN, replace(scheduled, groups=scheduled.groups[:1]))
    assert found == (Difference("cache groups", "2", "1"),)


def test_masks_are_compared_group_by_group_where_there_are_any():
    scheduled = flip(as_planned(PLAN), 1, 3)
    masks = (None, scheduled.groups[1].stored)
    assert compare_masks(PLAN, masks) == (Difference("stored chunks", "6", "5", first_chunk=3, group="window"),)
    assert compare_masks(PLAN, (None, None)) == ()


def test_masks_of_another_length_differ():
    masks = (None, as_planned(PLAN).groups[1].stored[:-1])
    assert compare_masks(PLAN, masks) == (Difference("whole chunks", "12", "11", group="window"),)


def test_a_shared_prefix_is_part_of_the_request():
    flash = load_model("deepseek-v4-flash")
    settings = OffloadSettings(retention_interval=0)
    plain = SchedulerRequest(model=flash, tokens=2048, settings=settings)
    shared = SchedulerRequest(model=flash, tokens=2048, settings=settings, shared_prefix=1030)
    stored = [request.plan().groups[0].chunk_ids().tolist() for request in (plain, shared)]
    assert stored == [[26, 27], [14, 15, 26, 27]]
