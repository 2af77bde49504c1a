"""Behaviours 33 to 36: what a scheduler saves and loads, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ecbench.core.conformance_protocols import Finished
from ecbench.encoder_cache.conformance.definitions import Check, NoInput, require, require_equal

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ecbench.core.conformance_protocols import ConformanceScheduler
    from ecbench.encoder_cache.conformance.bench import Bench


class Participants(NamedTuple):
    """Workers that load."""

    participants: int


def save(scheduler: ConformanceScheduler, *keys: str) -> None:
    """One step that saves entries of one row, and the report that they are saved."""
    plan = scheduler.plan_step(dict.fromkeys(keys, 1))
    require_equal(sorted(plan.saves), sorted(keys), "saves of the step")
    scheduler.report(0, Finished(saved=keys))


def _only_touched(bench: Bench, _: NoInput) -> None:
    scheduler = bench.scheduler()
    save(scheduler, "a", "b")
    plan = scheduler.plan_step({"b": 1})
    require_equal(sorted(plan.loads), ["b"], "loads of a step that touches 'b'")
    require_equal(plan.saves, {}, "saves of a step that touches what is ready")
    require_equal(scheduler.plan_step({}).loads, {}, "loads of a step that touches nothing")


def _pin_until_all_reported(bench: Bench, given: Participants) -> None:
    scheduler = bench.scheduler(bench.spec(blocks=1, participants=given.participants))
    save(scheduler, "a")
    ticket = scheduler.plan_step({"a": 1}).loads["a"].ticket
    for participant in range(given.participants):
        plan = scheduler.plan_step({"b": 1})
        missing = given.participants - participant
        require(not plan.saves, f"the entry was evicted while {missing} of {given.participants} were still loading it")
        scheduler.report(participant, Finished(loaded=(ticket,)))
    require_equal(sorted(scheduler.plan_step({"b": 1}).saves), ["b"], "saves after every participant reported")


def _late_reports(bench: Bench, given: Participants) -> None:
    scheduler = bench.scheduler(bench.spec(blocks=1, participants=given.participants))
    save(scheduler, "a")
    everyone = range(given.participants)
    old = scheduler.plan_step({"a": 1}).loads["a"].ticket
    for participant in everyone:
        scheduler.report(participant, Finished(loaded=(old,)))
    for participant in everyone:
        scheduler.report(participant, Finished(saved=("a", "unknown"), loaded=(old, 10**6)))
    _require_held_by_one_load(scheduler, given.participants)


def _late_during_next_load(bench: Bench, given: Participants) -> None:
    scheduler = bench.scheduler(bench.spec(blocks=1, participants=given.participants))
    save(scheduler, "a")
    everyone = range(given.participants)
    old = scheduler.plan_step({"a": 1}).loads["a"].ticket
    for participant in everyone:
        scheduler.report(participant, Finished(loaded=(old,)))
    ticket = scheduler.plan_step({"a": 1}).loads["a"].ticket
    for participant in everyone:
        scheduler.report(participant, Finished(loaded=(old,)))
    _require_held(scheduler, ticket, given.participants)


def _require_held_by_one_load(scheduler: ConformanceScheduler, participants: int) -> None:
    """A load of 'a', the only entry there is room for, holds it until all have reported, whatever came before."""
    _require_held(scheduler, scheduler.plan_step({"a": 1}).loads["a"].ticket, participants)


def _require_held(scheduler: ConformanceScheduler, ticket: Hashable, participants: int) -> None:
    require(not scheduler.plan_step({"b": 1}).saves, "reports of an earlier load released the next load's pin")
    for participant in range(participants):
        scheduler.report(participant, Finished(loaded=(ticket,)))
    require_equal(sorted(scheduler.plan_step({"b": 1}).saves), ["b"], "saves after every participant reported")


def _repeated_reports(bench: Bench, given: Participants) -> None:
    scheduler = bench.scheduler(bench.spec(blocks=1, participants=given.participants))
    save(scheduler, "a")
    ticket = scheduler.plan_step({"a": 1}).loads["a"].ticket
    for _ in range(given.participants):
        scheduler.report(0, Finished(loaded=(ticket,)))
    early = not scheduler.plan_step({"b": 1}).saves
    require(early, f"{given.participants} reports of one participant released the pin of {given.participants}")


def _full_skips(bench: Bench, _: NoInput) -> None:
    scheduler = bench.scheduler(bench.spec(blocks=2))
    first = scheduler.plan_step({"a": 2})
    require_equal(sorted(first.saves), ["a"], "saves of a step that fills the region")
    require_equal(scheduler.plan_step({"b": 1}).saves, {}, "saves of a step that finds the region full")
    scheduler.report(0, Finished(saved=("a",)))
    require_equal(sorted(scheduler.plan_step({"b": 1}).saves), ["b"], "saves after the other entry became evictable")


def _ready_not_saved_again(bench: Bench, _: NoInput) -> None:
    scheduler = bench.scheduler()
    require_equal(sorted(scheduler.plan_step({"a": 1}).saves), ["a"], "saves of the first step")
    under_way = scheduler.plan_step({"a": 1})
    require_equal(
        (under_way.saves, under_way.loads), ({}, {}), "what a step does with an entry whose save is under way"
    )
    scheduler.report(0, Finished(saved=("a",)))
    later = scheduler.plan_step({"a": 1})
    require_equal((later.saves, sorted(later.loads)), ({}, ["a"]), "what a step does with a ready entry")


_SOME = (Participants(1), Participants(2), Participants(4))

CHECKS = (
    Check("cycle.only-touched-load", 33, "a step loads only what its requests use",
          "the touched entries, and nothing else", _only_touched),
    Check("cycle.pin-until-all-reported", 34, "an entry stays until every participant has loaded it",
          "not evicted before the last report, evictable after it", _pin_until_all_reported, _SOME),
    Check("cycle.late-reports", 34, "reports that come after the end of a load, or of unknown loads, change nothing",
          "the next load holds its entry until everyone has reported it", _late_reports, _SOME),
    Check("cycle.late-reports-during-next-load", 34, "reports of an earlier load come while the next one is under way",
          "they change nothing: the entry stays until everyone has reported the next load",
          _late_during_next_load, _SOME),
    Check("cycle.repeated-reports", 34, "one participant reports the same load again",
          "it counts once: the entry stays until the others have reported", _repeated_reports, _SOME[1:]),
    Check("cycle.full-region-skips", 35, "a full region",
          "the save is skipped, without an error, and made later when there is room", _full_skips),
    Check("cycle.ready-not-saved-again", 36, "an entry that is ready, or whose save is under way, is not saved again",
          "no second save; a ready one is loaded", _ready_not_saved_again),
)  # fmt: skip
