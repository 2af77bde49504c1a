"""The scheduler side of the reference connector: which entries are saved and loaded in a step, and when a pin ends."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ecbench.encoder_cache.blocks import BlockIds
    from ecbench.encoder_cache.cache import EmbeddingCache


@dataclass(frozen=True)
class StepPlan:
    """What a step does.

    Args:
        saves: Blocks of the entries to save.
        loads: Blocks of the entries to load; each is pinned until every participant has reported.
        tickets: Number of each load, by entry; no other load of the scheduler has it.
        skipped: Entries that stay out of the cache because there is no room for them now.
    """

    saves: dict[str, BlockIds] = field(default_factory=dict)
    loads: dict[str, BlockIds] = field(default_factory=dict)
    tickets: dict[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


@dataclass
class _Loading:
    """A load that somebody has still to report."""

    key: str
    awaited: set[int]


class EncoderCacheScheduler:
    """Decides saves and loads, and follows what the workers report.

    Args:
        cache: The allocator.
        block_size_bytes: Bytes of one block.
        participants: Workers that load; each reports every load once.
    """

    def __init__(self, cache: EmbeddingCache, block_size_bytes: int, participants: int = 1) -> None:
        self._cache = cache
        self._block_size_bytes = block_size_bytes
        self._participants = participants
        self._loading: dict[int, _Loading] = {}
        self._tickets = itertools.count()

    def plan_step(self, touched: Mapping[str, int]) -> StepPlan:
        """Plans a step.

        Args:
            touched: Bytes of the encoder output of each entry the step's requests use.

        Returns:
            Ready entries are loaded, new ones saved where there is room; entries whose save is under way are neither.
            An entry larger than the whole region is skipped, like one that finds the region held by others.
        """
        plan = StepPlan()
        skipped = []
        ready = [key for key in touched if self._cache.is_ready(key)]
        # Loads first: a save of the same step must not evict what the step reads.
        for key in ready:
            self._cache.pin(key)
            plan.loads[key] = self._cache.block_ids(key)
            plan.tickets[key] = next(self._tickets)
            self._loading[plan.tickets[key]] = _Loading(key, set(range(self._participants)))
        for key, nbytes in touched.items():
            if key in self._cache:
                continue
            block_ids = self._allocate(key, nbytes)
            if block_ids is None:
                skipped.append(key)
            else:
                plan.saves[key] = block_ids
        return StepPlan(plan.saves, plan.loads, plan.tickets, tuple(skipped))

    def report(
        self,
        participant: int,
        *,
        saved: Iterable[str] = (),
        loaded: Iterable[int] = (),
        abandoned: Iterable[str] = (),
    ) -> None:
        """Takes a worker's report; what is late or repeated changes nothing.

        Args:
            participant: Number of the worker, from 0.
            saved: Entries it has saved.
            loaded: Loads it has finished, by ticket: a report that comes again or late counts for no other load.
            abandoned: Entries it was to save and will not.
        """
        for key in saved:
            if self._is_being_saved(key):
                self._cache.mark_ready(key)
        for key in abandoned:
            if self._is_being_saved(key):
                self._cache.discard(key)
        for ticket in loaded:
            self._note_loaded(participant, ticket)

    def _allocate(self, key: str, nbytes: int) -> BlockIds | None:
        blocks = -(-nbytes // self._block_size_bytes)
        return self._cache.alloc(key, blocks) if blocks <= self._cache.num_blocks else None

    def _is_being_saved(self, key: str) -> bool:
        return key in self._cache and not self._cache.is_ready(key)

    def _note_loaded(self, participant: int, ticket: int) -> None:
        load = self._loading.get(ticket)
        if load is None:
            return
        load.awaited.discard(participant)
        if not load.awaited:
            del self._loading[ticket]
            self._cache.unpin(load.key)
