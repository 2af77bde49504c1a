"""Copy engines that do one thing wrong, and the rules for naming it, written a second time as plainly as can be."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import torch

from ecbench.core.descriptors import PreparedCopy
from ecbench.core.records import Fault
from ecbench.engine.copy_engines.host import MemmoveEngine
from ecbench.measure.content import POISON_BYTE, content_bytes


class FaultyEngine:
    """Copies rightly, then lets a fault loose on the memory.

    Args:
        fault: Called with the source buffer, the destination buffer and the batch's columns as offsets into them.
    """

    name = "faulty"

    def __init__(self, fault):
        self._fault = fault

    def prepare(self, batch):
        inner = MemmoveEngine().prepare(batch)
        source, destination = (_bytes(side[0]) for side in (batch.source_tensors, batch.destination_tensors))
        offsets = (
            batch.sources.numpy().view(np.uint64) - np.uint64(source.ctypes.data),
            batch.destinations.numpy().view(np.uint64) - np.uint64(destination.ctypes.data),
            batch.sizes.numpy().view(np.uint64),
        )
        columns = [column.astype(np.int64) for column in offsets]

        def run(stream):
            inner.run(stream)
            self._fault(source, destination, *columns)

        return PreparedCopy(self.name, threads=1, run=run)


def _bytes(tensor):
    return tensor.view(-1).view(torch.uint8).numpy()


@dataclasses.dataclass
class Injection:
    """One class of fault, injected into a random descriptor."""

    draw: np.random.Generator
    key: int
    earlier_keys: list[int]

    def pick(self, sizes):
        return int(self.draw.choice(np.flatnonzero(sizes)))

    def source_changed(self, source, destination, sources, destinations, sizes):
        source[self.draw.integers(len(source))] ^= 1 << int(self.draw.integers(8))

    def overrun(self, source, destination, sources, destinations, sizes):
        written = np.zeros(len(destination), dtype=bool)
        for start, size in zip(destinations, sizes, strict=True):
            written[start : start + size] = True
        free = np.flatnonzero(~written)
        if len(free):
            destination[self.draw.choice(free)] ^= 0xFF

    def missing(self, source, destination, sources, destinations, sizes):
        j = self.pick(sizes)
        destination[destinations[j] : destinations[j] + sizes[j]] = POISON_BYTE

    def stale(self, source, destination, sources, destinations, sizes):
        j = self.pick(sizes)
        key = self.earlier_keys[self.draw.integers(len(self.earlier_keys))]
        destination[destinations[j] : destinations[j] + sizes[j]] = content_bytes(key, int(sources[j]), int(sizes[j]))

    def swapped(self, source, destination, sources, destinations, sizes):
        pairs = [(j, k) for j in range(len(sizes)) for k in range(j) if sizes[j] == sizes[k] > 0]
        if not pairs:
            return
        j, k = pairs[self.draw.integers(len(pairs))]
        for to, origin in ((j, k), (k, j)):
            part = source[sources[origin] : sources[origin] + sizes[origin]]
            destination[destinations[to] : destinations[to] + sizes[to]] = part

    def shifted(self, source, destination, sources, destinations, sizes):
        j = self.pick(sizes)
        start = self.draw.integers(0, len(source) - sizes[j] + 1)
        destination[destinations[j] : destinations[j] + sizes[j]] = source[start : start + sizes[j]]

    def truncated(self, source, destination, sources, destinations, sizes):
        j = self.pick(sizes)
        keep = self.draw.integers(0, sizes[j])
        destination[destinations[j] + keep : destinations[j] + sizes[j]] = POISON_BYTE

    def torn(self, source, destination, sources, destinations, sizes):
        j = self.pick(sizes)
        stale = content_bytes(self.earlier_keys[0], int(sources[j]), int(sizes[j]))
        for start, end in words_of(int(sources[j]), int(sizes[j])):
            kind = self.draw.integers(3)
            if kind:
                here = slice(destinations[j] + start, destinations[j] + end)
                destination[here] = POISON_BYTE if kind == 1 else stale[start:end]

    def corrupt(self, source, destination, sources, destinations, sizes):
        j = self.pick(sizes)
        for _ in range(self.draw.integers(1, 4)):
            destination[destinations[j] + self.draw.integers(sizes[j])] ^= 1 << int(self.draw.integers(8))


def words_of(source_offset, size):
    """Pieces of a copy that lie in one content word each, relative to its start."""
    edges = sorted({0, size, *range(-source_offset % 8, size, 8)})
    return list(pairwise(edges))


def expected_fault(plan, source, destination, key, earlier_keys):
    """The fault of final memory by the rules, with nothing but bytes, slices and search; None for right memory."""
    content = content_bytes(key, 0, plan.source_bytes).tobytes()
    source, destination = source.tobytes(), destination.tobytes()
    if source != content:
        return Fault.SOURCE_CHANGED
    copies = [
        tuple(map(int, row)) for row in zip(plan.source_offsets, plan.destination_offsets, plan.sizes, strict=True)
    ]
    outside = bytearray(destination)
    for _, start, size in copies:
        outside[start : start + size] = bytes([POISON_BYTE]) * size
    if outside.strip(bytes([POISON_BYTE])):
        return Fault.OVERRUN
    found = {_descriptor_fault(copies, j, content, destination, key, earlier_keys) for j in range(len(copies))}
    return next((fault for fault in Fault if fault in found), None)


def _descriptor_fault(copies, j, content, destination, key, earlier_keys):  # noqa: PLR0911, PLR0917 - a rule a line
    offset, start, size = copies[j]
    got, right = destination[start : start + size], content[offset : offset + size]
    poison = bytes([POISON_BYTE]) * size
    if got == right:
        return None
    if got == poison:
        return Fault.MISSING
    for earlier in earlier_keys:
        old = content_bytes(earlier, 0, len(content)).tobytes()
        if (got in old) if size >= 15 else got == old[offset : offset + size]:
            return Fault.STALE
    for other, _, length in copies:
        rest = content[other + length : other + size]
        rest += poison[: size - length - len(rest)]
        tail = all(a in (b, POISON_BYTE) for a, b in zip(got[length:], rest, strict=False))
        if other != offset and 0 < length <= size and got[:length] == content[other : other + length] and tail:
            return Fault.SWAPPED
    if got in content:
        return Fault.SHIFTED
    prefix = next(i for i in range(size) if got[i] != right[i])
    if prefix and got[prefix:] == poison[prefix:]:
        return Fault.TRUNCATED
    choices = [right, poison, *(content_bytes(k, offset, size).tobytes() for k in earlier_keys)]
    if all(any(got[a:b] == choice[a:b] for choice in choices) for a, b in words_of(offset, size)):
        return Fault.TORN
    return Fault.CORRUPT
