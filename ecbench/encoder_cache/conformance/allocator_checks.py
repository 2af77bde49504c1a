"""Behaviours 18 to 26: the allocator."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from ecbench.encoder_cache.conformance.definitions import (
    Check,
    NoInput,
    require,
    require_equal,
)
from ecbench.encoder_cache.conformance.refusals import refusal_of

if TYPE_CHECKING:
    from ecbench.core.conformance_protocols import ConformanceAllocator
    from ecbench.encoder_cache.conformance.bench import Bench


class Sizes(NamedTuple):
    """Blocks of the allocator, and of each entry in turn."""

    num_blocks: int
    entries: tuple[int, ...]


class Pins(NamedTuple):
    """How often an entry is pinned."""

    pins: int


def _ready(allocator: ConformanceAllocator, key: str, blocks: int = 1) -> list[int]:
    ids = allocator.alloc(key, blocks)
    require(ids is not None, f"no room for entry {key!r} of {blocks} blocks in an allocator that has room")
    allocator.mark_ready(key)
    return list(ids or ())


def _unique_and_ascending(bench: Bench, given: Sizes) -> None:
    allocator = bench.allocator(given.num_blocks)
    owners: dict[int, str] = {}
    for number, blocks in enumerate(given.entries):
        key = f"entry {number}"
        ids = _ready(allocator, key, blocks)
        require_equal(len(ids), blocks, "blocks given")
        require(ids == sorted(set(ids)), f"ids {ids} are not ascending and unique")
        require(all(0 <= block < given.num_blocks for block in ids), f"ids {ids} of {given.num_blocks} blocks")
        for block in ids:
            owner = owners.get(block)
            require(owner is None or not allocator.holds(owner), f"block {block} belongs to {owner!r} and {key!r}")
            owners[block] = key


def _full_gives_none(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(2)
    allocator.alloc("a", 2)
    require_equal(allocator.alloc("b", 1), None, "allocation without room")
    require(not allocator.holds("b"), "an entry without blocks is kept")


def _duplicate_refused(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(4)
    ids = allocator.alloc("a", 1)
    refusal_of(lambda: allocator.alloc("a", 1), "a second allocation of the same key")
    rest = allocator.alloc("b", 3)
    require(rest is not None, "the refused allocation took blocks")
    require(not set(rest or ()) & set(ids or ()), "the refused allocation freed the entry's blocks")


def _over_capacity_refused(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(2)
    _ready(allocator, "a", 2)
    refusal_of(lambda: allocator.alloc("b", 3), "an entry of 3 blocks in an allocator of 2")
    require(allocator.holds("a"), "the refused allocation evicted an entry")
    require(not allocator.holds("b"), "the refused entry is kept")


def _zero_blocks(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(1)
    _ready(allocator, "full")
    ids = allocator.alloc("a", 0)
    require_equal(None if ids is None else list(ids), [], "allocation of no blocks")
    require(allocator.holds("full"), "an allocation of no blocks evicted an entry")
    allocator.mark_ready("a")
    require(allocator.is_ready("a"), "the entry is not ready after it was marked")


def _not_ready_until_marked(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(1)
    allocator.alloc("a", 1)
    require(not allocator.is_ready("a"), "the entry is ready before it was marked")
    require_equal(allocator.alloc("b", 1), None, "allocation that could only evict an entry that is not ready")
    allocator.mark_ready("a")
    require(allocator.is_ready("a"), "the entry is not ready after it was marked")


def _marking_twice_refused(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(2)
    _ready(allocator, "a")
    refusal_of(lambda: allocator.mark_ready("a"), "marking an entry a second time")


def _unknown_refused(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(2)
    for name in ("mark_ready", "pin", "unpin", "discard"):
        act = getattr(allocator, name)
        refusal_of(functools.partial(act, "unknown"), f"{name} of an unknown entry")


def _pin_not_ready_refused(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(1)
    allocator.alloc("a", 1)
    refusal_of(lambda: allocator.pin("a"), "pinning an entry that is not ready")
    allocator.mark_ready("a")
    require(allocator.alloc("b", 1) is not None, "the refused pin holds the entry")


def _pins_nest(bench: Bench, given: Pins) -> None:
    allocator = bench.allocator(1)
    _ready(allocator, "a")
    for _ in range(given.pins):
        allocator.pin("a")
    for left in range(given.pins, 0, -1):
        require_equal(allocator.alloc("b", 1), None, f"allocation while {left} pins hold the only entry")
        allocator.unpin("a")
    refusal_of(lambda: allocator.unpin("a"), "an unpin without a pin")
    require(allocator.alloc("b", 1) is not None, "an entry without pins is not evicted")


def _oldest_first(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(4)
    for key in ("a", "b", "c"):
        _ready(allocator, key)
    allocator.alloc("not ready", 1)
    allocator.pin("a")
    for number, (evicted, kept) in enumerate((("b", ("a", "c", "not ready")), ("c", ("a", "not ready")))):
        allocator.alloc(f"new {number}", 1)
        require(not allocator.holds(evicted), f"entry {evicted!r}, the oldest that may go, was not evicted")
        gone = [key for key in kept if not allocator.holds(key)]
        require(not gone, f"{gone} went although they are pinned, not ready, or newer")


def _unpinned_is_newest(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(2)
    _ready(allocator, "a")
    _ready(allocator, "b")
    allocator.pin("a")
    allocator.unpin("a")
    allocator.alloc("c", 1)
    require(allocator.holds("a"), "an entry that was unpinned last was evicted first")
    require(not allocator.holds("b"), "entry 'b', by then the oldest, was not evicted")


def _no_wasted_eviction(bench: Bench, given: Sizes) -> None:
    allocator = bench.allocator(given.num_blocks)
    for number, blocks in enumerate(given.entries):
        _ready(allocator, f"free {number}", blocks)
    held = given.num_blocks - sum(given.entries)
    allocator.alloc("held", held)
    require_equal(allocator.alloc("new", given.num_blocks - held + 1), None, "allocation that cannot succeed")
    gone = [number for number in range(len(given.entries)) if not allocator.holds(f"free {number}")]
    require(not gone, f"{len(gone)} entries were evicted for an allocation that cannot succeed")


def _discard_frees(bench: Bench, _: NoInput) -> None:
    allocator = bench.allocator(2)
    allocator.alloc("a", 2)
    allocator.discard("a")
    require(not allocator.holds("a"), "a discarded entry is kept")
    require(allocator.alloc("b", 2) is not None, "the blocks of a discarded entry are not free")
    allocator.mark_ready("b")
    refusal_of(lambda: allocator.discard("b"), "discarding a ready entry")


_REFUSED = "an error, and nothing changes"


CHECKS = (
    Check("allocator.unique-ascending", 18, "ids of an entry ascend and belong to no other entry",
          "ascending ids, each of one living entry", _unique_and_ascending,
          (Sizes(1, (1,)), Sizes(4, (1, 2, 1)), Sizes(8, (3, 2, 3, 4, 1, 5, 2, 2, 7)))),
    Check("allocator.full-gives-none", 19, "a full allocator gives nothing",
          "no allocation and no error", _full_gives_none),
    Check("allocator.duplicate-refused", 20, "a key that has blocks is refused", _REFUSED, _duplicate_refused),
    Check("allocator.over-capacity-refused", 20, "an entry larger than the whole region is refused",
          _REFUSED, _over_capacity_refused),
    Check("allocator.zero-blocks", 21, "an entry of no blocks",
          "an empty allocation that can be marked ready", _zero_blocks),
    Check("allocator.not-ready-until-marked", 22, "an entry is ready only after it was marked",
          "not ready, and never evicted, before", _not_ready_until_marked),
    Check("allocator.marking-twice-refused", 22, "an entry is marked ready once", _REFUSED, _marking_twice_refused),
    Check("allocator.unknown-refused", 22, "an entry that does not exist cannot be marked, pinned or discarded",
          _REFUSED, _unknown_refused),
    Check("allocator.discard-frees", 22, "an entry that is not ready can be given up; a ready one cannot",
          "its blocks are free again; an error for a ready one", _discard_frees),
    Check("allocator.pin-not-ready-refused", 23, "an entry that is not ready cannot be pinned",
          _REFUSED, _pin_not_ready_refused),
    Check("allocator.pins-nest", 24, "pins are counted", "held until the last pin is off; one more unpin is an error",
          _pins_nest, (Pins(1), Pins(2), Pins(5))),
    Check("allocator.oldest-first", 25, "the oldest entry goes first",
          "evicted in order of readiness; pinned entries and those that are not ready stay", _oldest_first),
    Check("allocator.unpinned-is-newest", 25, "an entry that is unpinned goes to the end of the queue",
          "entries that were ready before go first", _unpinned_is_newest),
    Check("allocator.no-wasted-eviction", 26, "an allocation that cannot succeed evicts nothing",
          "no allocation, and every entry stays", _no_wasted_eviction, (Sizes(2, (1,)), Sizes(8, (1, 2, 2)))),
)  # fmt: skip
