"""Byte faults, made on purpose: one of every class, in the memory that a right copy has just left.

What the verifier must find and name is made here for ``selftest`` and for the tests. Every class is built so that the
rules of `ecbench.core.records.Fault` name it, where memory has room for it; where it has none, nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.records import Fault
from ecbench.measure.content import POISON_BYTE, WORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ecbench.core.descriptors import Direction

    Bytes = NDArray[np.uint8]
    Offsets = NDArray[np.int64]

MAX_SHIFT_BYTES = 64
MAX_CORRUPT_BYTES = 3


@dataclass(frozen=True, eq=False)
class CopiedMemory:
    """Both buffers of a batch after its copy, and where each descriptor copied.

    Args:
        direction: Which way the batch went.
        source: uint8, shape ``(source bytes,)``, writable.
        destination: uint8, shape ``(destination bytes,)``, writable.
        source_offsets: Of each descriptor, in bytes from the start of ``source``: int64, shape ``(n,)``.
        destination_offsets: Likewise.
        sizes: Bytes of each descriptor, same shape.
    """

    direction: Direction
    source: Bytes
    destination: Bytes
    source_offsets: Offsets
    destination_offsets: Offsets
    sizes: Offsets

    def source_range(self, descriptor: int) -> slice:
        """Where a descriptor reads."""
        start = int(self.source_offsets[descriptor])
        return slice(start, start + int(self.sizes[descriptor]))

    def destination_range(self, descriptor: int) -> slice:
        """Where a descriptor writes."""
        start = int(self.destination_offsets[descriptor])
        return slice(start, start + int(self.sizes[descriptor]))

    def copied_bytes(self, descriptor: int) -> Bytes:
        """What a descriptor wrote; assigning to its elements changes the destination."""
        return self.destination[self.destination_range(descriptor)]


class FaultInjection:
    """Spoils every copy but the first of each direction, whose bytes are those of "an earlier round" from then on.

    Args:
        fault: What to do to the memory.
        draw: Chooses descriptors and bytes.
    """

    def __init__(self, fault: Fault, draw: np.random.Generator) -> None:
        self._fault = fault
        self._draw = draw
        self._earlier_sources: dict[Direction, Bytes] = {}
        self.changed: set[Direction] = set()
        """Directions in which a byte was changed: memory may have no room for a fault."""

    def __call__(self, memory: CopiedMemory) -> None:
        """Injects the fault into one random descriptor, or keeps the source of the first copy."""
        source, destination = memory.source.copy(), memory.destination.copy()
        earlier = self._earlier_sources.get(memory.direction)
        self._earlier_sources[memory.direction] = source
        if earlier is None:
            return
        inject(self._fault, memory, self._draw, earlier)
        if (memory.source != source).any() or (memory.destination != destination).any():
            self.changed.add(memory.direction)


def inject(fault: Fault, memory: CopiedMemory, draw: np.random.Generator, earlier_source: Bytes) -> None:
    """Makes a fault of a class in memory whose bytes are right.

    Args:
        fault: The class.
        memory: Changed in place.
        draw: Chooses descriptors and bytes.
        earlier_source: What the source buffer held in an earlier round, same shape.
    """
    _INJECTIONS[fault](memory, draw, earlier_source)


def words_of(source_offset: int, size: int) -> list[tuple[int, int]]:
    """Pieces of a copy that lie in one content word each, as ranges relative to its start."""
    edges = sorted({0, size, *range(-source_offset % WORD_BYTES, size, WORD_BYTES)})
    return list(pairwise(edges))


def _pick(memory: CopiedMemory, draw: np.random.Generator) -> int:
    return int(draw.choice(np.flatnonzero(memory.sizes)))


def _change_source(memory: CopiedMemory, draw: np.random.Generator, _: Bytes) -> None:
    memory.source[draw.integers(len(memory.source))] ^= 1 << int(draw.integers(8))


def _overrun(memory: CopiedMemory, draw: np.random.Generator, _: Bytes) -> None:
    """Changes a byte just before or just behind what was to be written."""
    written = np.zeros(len(memory.destination), dtype=bool)
    starts, ends = memory.destination_offsets, memory.destination_offsets + memory.sizes
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        written[start:end] = True
    beside = np.concatenate([starts - 1, ends])
    beside = beside[(beside >= 0) & (beside < len(written))]
    free = beside[~written[beside]]
    if len(free):
        memory.destination[draw.choice(free)] ^= 0xFF


def _lose(memory: CopiedMemory, draw: np.random.Generator, _: Bytes) -> None:
    memory.copied_bytes(_pick(memory, draw))[:] = POISON_BYTE


def _keep_stale(memory: CopiedMemory, draw: np.random.Generator, earlier_source: Bytes) -> None:
    chosen = _pick(memory, draw)
    memory.copied_bytes(chosen)[:] = earlier_source[memory.source_range(chosen)]


def _swap(memory: CopiedMemory, draw: np.random.Generator, _: Bytes) -> None:
    sizes, counts = np.unique(memory.sizes[memory.sizes > 0], return_counts=True)
    if not (counts > 1).any():
        return
    alike = np.flatnonzero(memory.sizes == draw.choice(sizes[counts > 1]))
    one, other = map(int, draw.choice(alike, 2, replace=False))
    memory.copied_bytes(one)[:] = memory.source[memory.source_range(other)]
    memory.copied_bytes(other)[:] = memory.source[memory.source_range(one)]


def _shift(memory: CopiedMemory, draw: np.random.Generator, _: Bytes) -> None:
    """Copies from an offset beside the right one, at which no other descriptor begins: that would be a swap."""
    chosen = _pick(memory, draw)
    start, size = int(memory.source_offsets[chosen]), int(memory.sizes[chosen])
    first = max(0, start - MAX_SHIFT_BYTES)
    last = min(len(memory.source) - size, start + MAX_SHIFT_BYTES)
    free = np.setdiff1d(np.arange(first, last + 1), memory.source_offsets)
    if len(free):
        moved = int(draw.choice(free))
        memory.copied_bytes(chosen)[:] = memory.source[moved : moved + size]


def _truncate(memory: CopiedMemory, draw: np.random.Generator, _: Bytes) -> None:
    chosen = _pick(memory, draw)
    if memory.sizes[chosen] > 1:
        memory.copied_bytes(chosen)[draw.integers(1, memory.sizes[chosen]) :] = POISON_BYTE


def _tear(memory: CopiedMemory, draw: np.random.Generator, earlier_source: Bytes) -> None:
    """Leaves each word right, poison or stale; a wrong one comes before a right one, or it would be a truncation."""
    chosen = _pick(memory, draw)
    words = words_of(int(memory.source_offsets[chosen]), int(memory.sizes[chosen]))
    kinds = draw.integers(3, size=len(words))
    kinds[-1] = 0
    kinds[draw.integers(max(1, len(words) - 1))] = draw.integers(1, 3)
    copied, stale = memory.copied_bytes(chosen), earlier_source[memory.source_range(chosen)]
    for kind, (start, end) in zip(kinds, words, strict=True):
        if kind:
            copied[start:end] = POISON_BYTE if kind == 1 else stale[start:end]


def _corrupt(memory: CopiedMemory, draw: np.random.Generator, _: Bytes) -> None:
    copied = memory.copied_bytes(_pick(memory, draw))
    wrong = draw.choice(len(copied), size=min(len(copied), int(draw.integers(1, MAX_CORRUPT_BYTES + 1))), replace=False)
    copied[wrong] ^= np.uint8(1) << draw.integers(8, size=len(wrong), dtype=np.uint8)


_INJECTIONS: dict[Fault, Callable[[CopiedMemory, np.random.Generator, Bytes], None]] = {
    Fault.SOURCE_CHANGED: _change_source,
    Fault.OVERRUN: _overrun,
    Fault.MISSING: _lose,
    Fault.STALE: _keep_stale,
    Fault.SWAPPED: _swap,
    Fault.SHIFTED: _shift,
    Fault.TRUNCATED: _truncate,
    Fault.TORN: _tear,
    Fault.CORRUPT: _corrupt,
}
