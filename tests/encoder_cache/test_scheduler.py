from __future__ import annotations

import pytest

from ecbench.encoder_cache import EmbeddingCache
from ecbench.encoder_cache.scheduler import EncoderCacheScheduler

BLOCK = 16


def _scheduler(blocks=8, participants=1):
    cache = EmbeddingCache(blocks)
    return cache, EncoderCacheScheduler(cache, BLOCK, participants)


def _saved(scheduler, *keys, nbytes=BLOCK):
    scheduler.plan_step(dict.fromkeys(keys, nbytes))
    scheduler.report(0, saved=keys)


@pytest.mark.behaviour(33)
def test_only_touched_entries_are_loaded():
    cache, scheduler = _scheduler()
    _saved(scheduler, "a", "b")
    plan = scheduler.plan_step({"b": BLOCK})
    assert plan.loads == {"b": cache.block_ids("b")}
    assert plan.saves == {}


@pytest.mark.behaviour(34)
def test_a_pin_holds_until_every_participant_has_reported():
    cache, scheduler = _scheduler(blocks=1, participants=3)
    _saved(scheduler, "a")
    ticket = scheduler.plan_step({"a": BLOCK}).tickets["a"]
    for participant in (2, 0):
        scheduler.report(participant, loaded=[ticket])
        assert cache.alloc("b", 1) is None
    scheduler.report(1, loaded=[ticket])
    assert cache.alloc("b", 1) == [0]


@pytest.mark.behaviour(34)
def test_late_and_repeated_reports_change_nothing():
    cache, scheduler = _scheduler(blocks=1, participants=2)
    _saved(scheduler, "a")
    scheduler.report(0, saved=["a", "unknown"], loaded=[0, 17], abandoned=["a", "unknown"])
    assert cache.is_ready("a")
    ticket = scheduler.plan_step({"a": BLOCK}).tickets["a"]
    scheduler.report(0, loaded=[ticket])
    scheduler.report(0, loaded=[ticket])
    assert cache.alloc("b", 1) is None
    scheduler.report(1, loaded=[ticket])
    scheduler.report(1, loaded=[ticket])
    assert cache.alloc("b", 1) == [0]


def test_loads_of_two_steps_each_wait_for_their_own_reports():
    cache, scheduler = _scheduler(blocks=1, participants=2)
    _saved(scheduler, "a")
    first, second = (scheduler.plan_step({"a": BLOCK}).tickets["a"] for _ in range(2))
    for participant, ticket in ((0, first), (1, second), (0, second)):
        scheduler.report(participant, loaded=[ticket])
        assert cache.alloc("b", 1) is None
    scheduler.report(1, loaded=[first])
    assert cache.alloc("b", 1) == [0]


@pytest.mark.behaviour(34)
def test_a_late_report_counts_for_no_later_load():
    cache, scheduler = _scheduler(blocks=1, participants=2)
    _saved(scheduler, "a")
    first = scheduler.plan_step({"a": BLOCK}).tickets["a"]
    for participant in (0, 1):
        scheduler.report(participant, loaded=[first])
    second = scheduler.plan_step({"a": BLOCK}).tickets["a"]
    for participant in (0, 1, 0):
        scheduler.report(participant, loaded=[first, second + 1])
        assert cache.alloc("b", 1) is None
    for participant in (0, 0, 1):
        assert cache.alloc("b", 1) is None
        scheduler.report(participant, loaded=[second])
    assert cache.alloc("b", 1) == [0]


@pytest.mark.behaviour(35)
def test_a_full_region_skips_the_save():
    cache, scheduler = _scheduler(blocks=2)
    scheduler.plan_step({"a": 2 * BLOCK})
    plan = scheduler.plan_step({"b": BLOCK})
    assert plan.saves == {}
    assert plan.skipped == ("b",)
    scheduler.report(0, saved=["a"])
    assert list(scheduler.plan_step({"b": BLOCK}).saves) == ["b"]
    assert "a" not in cache


def test_an_entry_larger_than_the_region_is_skipped_and_the_others_go_on():
    _, scheduler = _scheduler(blocks=2)
    plan = scheduler.plan_step({"huge": 3 * BLOCK, "a": BLOCK})
    assert plan.skipped == ("huge",)
    assert list(plan.saves) == ["a"]


@pytest.mark.behaviour(36)
def test_a_ready_entry_is_not_saved_again_and_one_under_way_is_left_alone():
    _, scheduler = _scheduler()
    first = scheduler.plan_step({"a": BLOCK})
    assert list(first.saves) == ["a"]
    under_way = scheduler.plan_step({"a": BLOCK})
    assert (under_way.saves, under_way.loads) == ({}, {})
    scheduler.report(0, saved=["a"])
    assert list(scheduler.plan_step({"a": BLOCK}).loads) == ["a"]


def test_a_save_never_evicts_what_the_same_step_reads():
    _, scheduler = _scheduler(blocks=2)
    _saved(scheduler, "read", "idle")
    plan = scheduler.plan_step({"new": BLOCK, "read": BLOCK, "newer": BLOCK})
    assert list(plan.loads) == ["read"]
    assert list(plan.saves) == ["new"]
    assert plan.skipped == ("newer",)


def test_an_abandoned_save_frees_its_blocks_and_can_be_planned_again():
    cache, scheduler = _scheduler(blocks=1)
    scheduler.plan_step({"a": BLOCK})
    scheduler.report(0, abandoned=["a"])
    assert cache.free_blocks == 1
    assert list(scheduler.plan_step({"a": BLOCK}).saves) == ["a"]


@pytest.mark.parametrize(("nbytes", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2)])
def test_an_entry_gets_as_many_blocks_as_its_bytes_need(nbytes, blocks):
    _, scheduler = _scheduler()
    assert len(scheduler.plan_step({"a": nbytes}).saves["a"]) == blocks
