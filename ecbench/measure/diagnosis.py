"""Names what went wrong in a round, from final memory alone.

Runs only where a quick comparison found a difference, so it is written to be exact rather than fast. The rules and
their order are those of `ecbench.core.records.Fault`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.records import Fault, Mismatch
from ecbench.measure.content import POISON_BYTE, WORD_BYTES, content_bytes, word_offset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ecbench.core.copy_plan import CopyPlan

_MIN_DECODABLE_BYTES = 2 * WORD_BYTES - 1
"""From this length on a range holds one whole content word, whatever its alignment."""


@dataclass(frozen=True)
class Diagnosis:
    """Findings of one round.

    Args:
        faults: Class per faulty descriptor, by its index in the plan. Not filled in for the two classes that belong to
            the whole buffer (`Fault.SOURCE_CHANGED`, `Fault.OVERRUN`).
        mismatched_bytes: Wrong bytes inside destinations.
        stray_bytes: Bytes changed outside every destination.
        source_changed_bytes: Altered source bytes.
        first_mismatch: The wrong byte with the lowest offset.
    """

    faults: dict[int, Fault]
    mismatched_bytes: int
    stray_bytes: int
    source_changed_bytes: int
    first_mismatch: Mismatch | None

    @property
    def fault(self) -> Fault | None:
        """The class that comes first in the order of the rules."""
        counts = self.fault_counts
        return next((fault for fault in Fault if fault.value in counts), None)

    @property
    def fault_counts(self) -> dict[str, int]:
        """How many descriptors, or buffers, show each class; in the order of the rules."""
        found = list(self.faults.values())
        found += [Fault.SOURCE_CHANGED] * bool(self.source_changed_bytes) + [Fault.OVERRUN] * bool(self.stray_bytes)
        return {fault.value: found.count(fault) for fault in Fault if fault in found}


def diagnose(
    plan: CopyPlan,
    source: NDArray[np.uint8],
    destination: NDArray[np.uint8],
    key: int,
    earlier_keys: Sequence[int] = (),
) -> Diagnosis:
    """Compares final memory with what a plan should have left there.

    Args:
        plan: What was to be copied.
        source: uint8, shape ``(plan.source_bytes,)``: the source buffer after the copy.
        destination: uint8, shape ``(plan.destination_bytes,)``: the destination buffer after the copy; it held poison
            before.
        key: Key of this round's content.
        earlier_keys: Keys of the rounds before, newest first.

    Returns:
        What differs, and the class of every descriptor that differs.
    """
    expected_source = content_bytes(key, 0, len(source))
    expected = _expected_destination(plan, expected_source)
    wrong = destination != expected
    inside = np.zeros(len(destination), dtype=bool)
    faults: dict[int, Fault] = {}
    namer = _FaultNamer(plan, expected_source, key, earlier_keys)
    for index, start, end in _destinations(plan):
        inside[start:end] = True
        if wrong[start:end].any():
            faults[index] = namer.name(index, destination[start:end])
    changed = np.flatnonzero(source != expected_source)
    return Diagnosis(
        faults=faults,
        mismatched_bytes=int((wrong & inside).sum()),
        stray_bytes=int((wrong & ~inside).sum()),
        source_changed_bytes=len(changed),
        first_mismatch=_first_mismatch(plan, wrong, expected, destination)
        or _first_source_change(changed, expected_source, source),
    )


def _expected_destination(plan: CopyPlan, content: NDArray[np.uint8]) -> NDArray[np.uint8]:
    expected = np.full(plan.destination_bytes, POISON_BYTE, dtype=np.uint8)
    for index, start, end in _destinations(plan):
        source = int(plan.source_offsets[index])
        expected[start:end] = content[source : source + end - start]
    return expected


def _destinations(plan: CopyPlan) -> Iterator[tuple[int, int, int]]:
    starts = plan.destination_offsets
    for index, (start, size) in enumerate(zip(starts.tolist(), plan.sizes.tolist(), strict=True)):
        if size:
            yield index, start, start + size


def _first_mismatch(
    plan: CopyPlan, wrong: NDArray[np.bool_], expected: NDArray[np.uint8], found: NDArray[np.uint8]
) -> Mismatch | None:
    if not wrong.any():
        return None
    offset = int(wrong.argmax())
    owner = (plan.destination_offsets <= offset) & (offset < plan.destination_offsets + plan.sizes)
    return Mismatch(
        descriptor=int(owner.argmax()) if owner.any() else None,
        offset_bytes=offset,
        expected=int(expected[offset]),
        found=int(found[offset]),
    )


def _first_source_change(
    changed: NDArray[np.intp], expected: NDArray[np.uint8], found: NDArray[np.uint8]
) -> Mismatch | None:
    if not len(changed):
        return None
    offset = int(changed[0])
    return Mismatch(descriptor=None, offset_bytes=offset, expected=int(expected[offset]), found=int(found[offset]))


class _FaultNamer:
    """Applies the rules to one descriptor after another."""

    def __init__(self, plan: CopyPlan, content: NDArray[np.uint8], key: int, earlier_keys: Sequence[int]) -> None:
        self._plan = plan
        self._content = content
        self._key = key
        self._earlier_keys = earlier_keys
        self._sizes_by_source: dict[int, list[int]] = defaultdict(list)
        for source, size in zip(plan.source_offsets.tolist(), plan.sizes.tolist(), strict=True):
            self._sizes_by_source[source].append(size)
        # Too short to be decoded, these are candidates for every destination; few plans have any.
        self._short_sources = [
            source
            for source, sizes in self._sizes_by_source.items()
            if any(0 < size < _MIN_DECODABLE_BYTES for size in sizes)
        ]

    def name(self, index: int, found: NDArray[np.uint8]) -> Fault:
        """Names the class of a destination that is known to be wrong."""
        source = int(self._plan.source_offsets[index])
        poison = found == POISON_BYTE
        if poison.all():
            return Fault.MISSING
        return self._name_misplaced(found, poison, source) or self._name_partial(found, poison, source)

    def _name_misplaced(self, found: NDArray[np.uint8], poison: NDArray[np.bool_], source: int) -> Fault | None:
        if any(self._is_content_of(found, earlier, source) for earlier in self._earlier_keys):
            return Fault.STALE
        if self._is_swapped(found, poison, source):
            return Fault.SWAPPED
        return Fault.SHIFTED if self._locate(found, self._key) is not None else None

    def _name_partial(self, found: NDArray[np.uint8], poison: NDArray[np.bool_], source: int) -> Fault:
        right = found == self._content[source : source + len(found)]
        if right[0] and poison[int(right.argmin()) :].all():
            return Fault.TRUNCATED
        if self._is_mix_of_words(found, right, poison, source):
            return Fault.TORN
        return Fault.CORRUPT

    def _is_content_of(self, found: NDArray[np.uint8], key: int, source: int) -> bool:
        if len(found) < _MIN_DECODABLE_BYTES:
            return bool((found == content_bytes(key, source, len(found))).all())
        return self._locate(found, key) is not None

    def _locate(self, found: NDArray[np.uint8], key: int) -> int | None:
        """Finds the source offset whose content of a round the bytes are, if there is one."""
        if len(found) < _MIN_DECODABLE_BYTES:
            position = self._content_as_bytes.find(found.tobytes()) if key == self._key else -1
            return position if position >= 0 else None
        last = self._plan.source_bytes - len(found)
        for phase in range(WORD_BYTES):
            offset = word_offset(_word_at(found, phase), key) * WORD_BYTES - phase
            if 0 <= offset <= last and (found == content_bytes(key, offset, len(found))).all():
                return offset
        return None

    @cached_property
    def _content_as_bytes(self) -> bytes:
        return self._content.tobytes()

    def _is_swapped(self, found: NDArray[np.uint8], poison: NDArray[np.bool_], source: int) -> bool:
        """Holds all of another descriptor's content, and beyond it nothing but what follows there, or poison."""
        size = len(found)
        for other in self._candidates(found):
            if other == source:
                continue
            whole = [length for length in self._sizes_by_source[other] if 0 < length <= size]
            same = found == self._padded_content(other, size)
            if any(same[:length].all() and (same | poison)[length:].all() for length in whole):
                return True
        return False

    def _candidates(self, found: NDArray[np.uint8]) -> list[int]:
        """Sources of this plan at which the bytes can begin: all of them where the bytes hold no whole word."""
        if len(found) < _MIN_DECODABLE_BYTES:
            return list(self._sizes_by_source)
        offsets = (word_offset(_word_at(found, phase), self._key) * WORD_BYTES - phase for phase in range(WORD_BYTES))
        return [offset for offset in offsets if offset in self._sizes_by_source] + self._short_sources

    def _padded_content(self, offset: int, size: int) -> NDArray[np.uint8]:
        part = self._content[offset : offset + size]
        return np.pad(part, (0, size - len(part)), constant_values=POISON_BYTE)

    def _is_mix_of_words(
        self, found: NDArray[np.uint8], right: NDArray[np.bool_], poison: NDArray[np.bool_], source: int
    ) -> bool:
        """Every content word is wholly right, wholly poison or wholly of one earlier round."""
        starts = np.arange(-source % WORD_BYTES, len(found), WORD_BYTES)
        if not len(starts) or starts[0]:
            starts = np.append(0, starts)
        explained = np.logical_and.reduceat(right, starts) | np.logical_and.reduceat(poison, starts)
        for earlier in self._earlier_keys:
            stale = found == content_bytes(earlier, source, len(found))
            explained |= np.logical_and.reduceat(stale, starts)
        return bool(explained.all())


def _word_at(found: NDArray[np.uint8], phase: int) -> int:
    return int.from_bytes(found[phase : phase + WORD_BYTES].tobytes(), "little")
