"""The allocator of the encoder cache: which entry has which blocks, and which one goes first when room is needed.

Behaves like ``EmbeddingCache`` of vLLM 0.33.0 (``ec_connector/cpu``), id by id, but handles runs of blocks where the
engine handles single ids.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum, auto

from ecbench.core.errors import EcbenchError
from ecbench.encoder_cache.blocks import BlockIds


class _State(Enum):
    NOT_READY = auto()
    EVICTABLE = auto()
    PINNED = auto()


@dataclass
class _Entry:
    block_ids: BlockIds
    state: _State = _State.NOT_READY
    pins: int = 0


class _FreeStack:
    """Free block ids, last in, first out, as runs whose ids ascend towards the top.

    Args:
        num_blocks: All ids from 0 on are free at first.
    """

    def __init__(self, num_blocks: int) -> None:
        # Plain pairs (first id, length): a fragmented region pops dozens of them for one entry.
        self._runs = [(0, num_blocks)] if num_blocks else []
        self.count = num_blocks

    def pop(self, wanted: int) -> BlockIds:
        """Takes the topmost ids and returns them ascending."""
        self.count -= wanted
        taken = []
        while wanted:
            first, length = self._runs.pop()
            if length > wanted:
                length -= wanted
                self._runs.append((first, length))
                first, length = first + length, wanted
            taken.append((first, length))
            wanted -= length
        taken.sort()
        return BlockIds.of_runs(taken)

    def push(self, block_ids: BlockIds) -> None:
        """Puts ids on top, the highest last."""
        self.count += len(block_ids)
        for first, length in zip(block_ids.firsts.tolist(), block_ids.counts.tolist(), strict=True):
            below, below_length = self._runs[-1] if self._runs else (0, -1)
            if below + below_length == first:
                self._runs[-1] = (below, below_length + length)
            else:
                self._runs.append((first, length))


class EmbeddingCache:
    """Blocks of a region by entry, with eviction of the oldest entry that nobody holds. Safe to use from many threads.

    An entry is *not ready* from `alloc` until `mark_ready`, then *evictable*, or *pinned* while a pin is held.

    Args:
        num_blocks: Blocks of the region; at least 0.

    Raises:
        EcbenchError: A negative number of blocks.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 0:
            raise EcbenchError(f"encoder cache of {num_blocks} blocks: give at least 0")
        self.num_blocks = num_blocks
        self._free = _FreeStack(num_blocks)
        self._entries: dict[str, _Entry] = {}
        self._evictable: OrderedDict[str, int] = OrderedDict()
        self._evictable_blocks = 0
        self._lock = threading.Lock()

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def keys(self) -> list[str]:
        """Keys of all entries, in order of allocation."""
        with self._lock:
            return list(self._entries)

    @property
    def free_blocks(self) -> int:
        """Blocks that belong to no entry."""
        return self._free.count

    def block_ids(self, key: str) -> BlockIds:
        """The blocks of an entry.

        Raises:
            EcbenchError: No such entry.
        """
        with self._lock:
            return self._find(key).block_ids

    def is_ready(self, key: str) -> bool:
        """Tells whether an entry exists and was marked ready."""
        with self._lock:
            entry = self._entries.get(key)
            return entry is not None and entry.state is not _State.NOT_READY

    def alloc(self, key: str, n: int) -> BlockIds | None:
        """Allocates blocks for a new entry, evicting as many old entries as it takes.

        Args:
            key: A key that no entry has.
            n: Blocks; zero gives an empty allocation.

        Returns:
            Ids in ascending order, or None where even evicting everything that may go would not make room; then nothing
            is evicted.

        Raises:
            EcbenchError: The key exists, ``n`` is negative, or the whole region is smaller than ``n``.
        """
        with self._lock:
            self._refuse_allocation(key, n)
            if n > self._free.count + self._evictable_blocks:
                return None
            while self._free.count < n:
                self._evict_oldest()
            block_ids = self._free.pop(n)
            self._entries[key] = _Entry(block_ids)
            return block_ids

    def mark_ready(self, key: str) -> None:
        """Makes a new entry loadable and evictable.

        Raises:
            EcbenchError: No such entry, or it is ready already.
        """
        with self._lock:
            entry = self._find(key)
            if entry.state is not _State.NOT_READY:
                raise EcbenchError(f"entry {key!r} is ready already: mark an entry once, after its save")
            self._make_evictable(key, entry)

    def pin(self, key: str) -> None:
        """Keeps a ready entry from being evicted; pins nest.

        Raises:
            EcbenchError: No such entry, or it is not ready.
        """
        with self._lock:
            entry = self._find(key)
            if entry.state is _State.NOT_READY:
                raise EcbenchError(f"entry {key!r} is not ready: pin it after mark_ready")
            if entry.state is _State.EVICTABLE:
                del self._evictable[key]
                self._evictable_blocks -= len(entry.block_ids)
            entry.state = _State.PINNED
            entry.pins += 1

    def unpin(self, key: str) -> None:
        """Takes one pin off; the last one makes the entry evictable again, as the newest.

        Raises:
            EcbenchError: No such entry, or it has no pin.
        """
        with self._lock:
            entry = self._find(key)
            if not entry.pins:
                raise EcbenchError(f"entry {key!r} has no pin: unpin once for each pin")
            entry.pins -= 1
            if not entry.pins:
                self._make_evictable(key, entry)

    def discard(self, key: str) -> None:
        """Gives up an entry whose save did not happen and frees its blocks.

        Raises:
            EcbenchError: No such entry, or it is ready: a ready entry leaves by eviction.
        """
        with self._lock:
            entry = self._find(key)
            if entry.state is not _State.NOT_READY:
                raise EcbenchError(f"entry {key!r} is ready: only an entry whose save did not happen is discarded")
            self._release(key)

    def _find(self, key: str) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            raise EcbenchError(f"no entry {key!r} in the encoder cache: allocate it first")
        return entry

    def _refuse_allocation(self, key: str, n: int) -> None:
        if key in self._entries:
            raise EcbenchError(f"entry {key!r} has blocks already: discard it or use another key")
        if not 0 <= n <= self.num_blocks:
            raise EcbenchError(f"entry {key!r} of {n} blocks: give 0 to {self.num_blocks}, the blocks of the region")

    def _make_evictable(self, key: str, entry: _Entry) -> None:
        entry.state = _State.EVICTABLE
        self._evictable[key] = len(entry.block_ids)
        self._evictable_blocks += len(entry.block_ids)

    def _evict_oldest(self) -> None:
        key, blocks = self._evictable.popitem(last=False)
        self._evictable_blocks -= blocks
        self._release(key)

    def _release(self, key: str) -> None:
        self._free.push(self._entries.pop(key).block_ids)
