"""The reference allocator and scheduler with one fault each, by the check that must find it."""

from __future__ import annotations

import dataclasses
import time
from contextlib import nullcontext

from ecbench.core.conformance_protocols import Finished
from ecbench.targets.reference_conformance import ReferenceAllocator, ReferenceScheduler


class GivesIdsBackwards(ReferenceAllocator):
    def alloc(self, key, blocks):
        ids = super().alloc(key, blocks)
        return ids and ids[::-1]


class RaisesWhenFull(ReferenceAllocator):
    def alloc(self, key, blocks):
        ids = super().alloc(key, blocks)
        if ids is None:
            raise MemoryError("full")
        return ids


class GivesDuplicates(ReferenceAllocator):
    def alloc(self, key, blocks):
        return list(self._cache.block_ids(key)) if self.holds(key) else super().alloc(key, blocks)


class GivesNoneForTooMany(ReferenceAllocator):
    def alloc(self, key, blocks):
        return None if blocks > self._cache.num_blocks else super().alloc(key, blocks)


class RefusesNothing(ReferenceAllocator):
    def alloc(self, key, blocks):
        return super().alloc(key, blocks) or None


class ReadyAtOnce(ReferenceAllocator):
    def alloc(self, key, blocks):
        ids = super().alloc(key, blocks)
        if ids is not None:
            self._cache.mark_ready(key)
        return ids


class MarksTwice(ReferenceAllocator):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.mark_ready = lambda key: self.is_ready(key) or self._cache.mark_ready(key)


class UnpinsTheUnknown(ReferenceAllocator):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.unpin = lambda key: self.holds(key) and self._cache.unpin(key)


class DiscardsNothing(ReferenceAllocator):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.discard = lambda key: None


class PinsTheUnready(ReferenceAllocator):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.pin = self._pin

    def _pin(self, key):
        if not self.is_ready(key):
            self._cache.mark_ready(key)
        self._cache.pin(key)


class CountsNoPins(ReferenceAllocator):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.pin = lambda key: self._cache._entries[key].pins or self._cache.pin(key)


class EvictsTheNewest(ReferenceAllocator):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self._cache._evict_oldest = self._evict_newest

    def _evict_newest(self):
        key, blocks = self._cache._evictable.popitem(last=True)
        self._cache._evictable_blocks -= blocks
        self._cache._release(key)


class ForgetsTheQueue(ReferenceAllocator):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.unpin = self._unpin

    def _unpin(self, key):
        self._cache.unpin(key)
        self._cache._evictable.move_to_end(key, last=False)


class EvictsFirst(ReferenceAllocator):
    def alloc(self, key, blocks):
        while self._cache._evictable and self._cache.free_blocks < blocks:
            self._cache._evict_oldest()
        return super().alloc(key, blocks)


class HasNoLock(ReferenceAllocator):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self._cache._lock = nullcontext()
        free, pop = self._cache._free, self._cache._free.pop

        def slow_pop(wanted):
            seen = list(free._runs), free.count
            time.sleep(1e-4)
            # What other threads took meanwhile is free once more.
            free._runs, free.count = seen
            return pop(wanted)

        free.pop = slow_pop


ALLOCATOR_MUTANTS = {
    "allocator.unique-ascending": GivesIdsBackwards,
    "allocator.full-gives-none": RaisesWhenFull,
    "allocator.duplicate-refused": GivesDuplicates,
    "allocator.over-capacity-refused": GivesNoneForTooMany,
    "allocator.zero-blocks": RefusesNothing,
    "allocator.not-ready-until-marked": ReadyAtOnce,
    "allocator.marking-twice-refused": MarksTwice,
    "allocator.unknown-refused": UnpinsTheUnknown,
    "allocator.discard-frees": DiscardsNothing,
    "allocator.pin-not-ready-refused": PinsTheUnready,
    "allocator.pins-nest": CountsNoPins,
    "allocator.oldest-first": EvictsTheNewest,
    "allocator.unpinned-is-newest": ForgetsTheQueue,
    "allocator.no-wasted-eviction": EvictsFirst,
    "allocator.thread-safe": HasNoLock,
}


class LoadsEverything(ReferenceScheduler):
    seen = ()

    def plan_step(self, touched):
        self.seen = {**dict(self.seen), **touched}
        return super().plan_step(self.seen)


class WaitsForOne(ReferenceScheduler):
    def __init__(self, spec):
        super().__init__(dataclasses.replace(spec, participants=1))


class StumblesOverLateReports(ReferenceScheduler):
    def report(self, participant, finished):
        for key in finished.loaded:
            assert key in self._scheduler._loading, f"no load of {key!r}"
        super().report(participant, finished)


class CountsAnyReport(ReferenceScheduler):
    reports = 0

    def report(self, participant, finished):
        super().report(self.reports % self._scheduler._participants if finished.loaded else 0, finished)
        self.reports += bool(finished.loaded)


class ForgetsTickets(ReferenceScheduler):
    """Reports name entries, so that a late one counts for the latest load of its entry."""

    def __init__(self, spec):
        super().__init__(spec)
        self._latest = {}

    def plan_step(self, touched):
        plan = super().plan_step(touched)
        self._latest |= {key: load.ticket for key, load in plan.loads.items()}
        return plan._replace(loads={key: load._replace(ticket=key) for key, load in plan.loads.items()})

    def report(self, participant, finished):
        tickets = tuple(self._latest[key] for key in finished.loaded if key in self._latest)
        super().report(participant, finished._replace(loaded=tickets))


class RaisesWhenSkipping(ReferenceScheduler):
    def plan_step(self, touched):
        plan = super().plan_step(touched)
        assert not set(touched) - {*plan.saves, *plan.loads}, "no room"
        return plan


class SavesAgain(ReferenceScheduler):
    def plan_step(self, touched):
        plan = super().plan_step(touched)
        return plan._replace(saves={**plan.saves, **{key: load.block_ids for key, load in plan.loads.items()}})


class DiesOfLargeEntries(ReferenceScheduler):
    def __init__(self, spec):
        super().__init__(spec)
        self._scheduler._allocate = lambda key, nbytes: self._scheduler._cache.alloc(key, nbytes // self._block_bytes)


class EvictsWhileSaving(ReferenceScheduler):
    def plan_step(self, touched):
        plan = super().plan_step(touched)
        super().report(0, Finished(saved=tuple(plan.saves)))
        return plan


SCHEDULER_MUTANTS = {
    "cycle.only-touched-load": LoadsEverything,
    "cycle.pin-until-all-reported": WaitsForOne,
    "cycle.late-reports": StumblesOverLateReports,
    "cycle.late-reports-during-next-load": ForgetsTickets,
    "cycle.repeated-reports": CountsAnyReport,
    "cycle.full-region-skips": RaisesWhenSkipping,
    "cycle.ready-not-saved-again": SavesAgain,
    "edge.larger-than-region": DiesOfLargeEntries,
    "edge.no-eviction-while-saving": EvictsWhileSaving,
}
