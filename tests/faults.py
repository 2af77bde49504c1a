"""A copy engine that does what a test says, and the rules for naming faults, written again as plainly as can be."""

from __future__ import annotations

from ecbench.core.records import Fault
from ecbench.engine.copy_engines import faulty as engine
from ecbench.engine.copy_engines.host import MemmoveEngine
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.measure.content import POISON_BYTE, content_bytes
from ecbench.measure.fault_injection import words_of


class FaultyEngine(engine.FaultyEngine):
    """Copies in host memory rightly, then lets a fault loose on it.

    Args:
        fault: Called with the source buffer, the destination buffer and the batch's columns as offsets into them.
    """

    def __init__(self, fault):
        super().__init__(MemmoveEngine(), CpuDevice(), lambda memory: fault(*_as_arguments(memory)))


def _as_arguments(memory):
    return memory.source, memory.destination, memory.source_offsets, memory.destination_offsets, memory.sizes


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
