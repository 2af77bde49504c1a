"""Behaviour 27: the allocator under many threads."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from ecbench.encoder_cache.conformance.definitions import Check, describe_error, require

if TYPE_CHECKING:
    from ecbench.core.conformance_protocols import ConformanceAllocator
    from ecbench.encoder_cache.conformance.bench import Bench

_THREADS = 8
_ROUNDS_PER_THREAD = 300
_SWITCH_INTERVAL_S = 1e-6


class Sizes(NamedTuple):
    """Blocks of the allocator, and of each entry in turn."""

    num_blocks: int
    entries: tuple[int, ...]


def _threads(bench: Bench, given: Sizes) -> None:
    allocator = bench.allocator(given.num_blocks)
    faults: list[str] = []
    owners: dict[int, str] = {}
    workers = [
        threading.Thread(target=_churn, args=(allocator, f"thread {number}", given.entries, owners, faults))
        for number in range(_THREADS)
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    require(not faults, faults[0] if faults else "")
    _require_whole(allocator, given.num_blocks)


def _churn(
    allocator: ConformanceAllocator, name: str, sizes: tuple[int, ...], owners: dict[int, str], faults: list[str]
) -> None:
    """Allocates and gives back; while it holds blocks, nobody else may."""
    try:
        for turn in range(_ROUNDS_PER_THREAD):
            key = f"{name}, {turn}"
            ids = allocator.alloc(key, sizes[turn % len(sizes)])
            if ids is None:
                continue
            for block in ids:
                owner = owners.setdefault(block, key)
                if owner != key:
                    faults.append(f"block {block} was given to {owner!r} and {key!r} at once")
            for block in ids:
                owners.pop(block, None)
            allocator.discard(key)
    except Exception as error:
        faults.append(describe_error(error))


def _require_whole(allocator: ConformanceAllocator, num_blocks: int) -> None:
    ids = allocator.alloc("everything", num_blocks)
    require(
        ids is not None and sorted(ids) == list(range(num_blocks)),
        f"after all entries went, the {num_blocks} blocks are not all free, each once",
    )


CHECKS = (
    Check("allocator.thread-safe", 27, f"{_THREADS} threads allocate and discard at once",
          "no block of two entries at once, none lost", _threads, (Sizes(16, (1, 2, 3)), Sizes(64, (1, 7, 3, 8)))),
)  # fmt: skip
