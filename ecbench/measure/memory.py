"""The verifier's access to host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.copy_plan import CopyPlan, merge_adjacent
from ecbench.measure.content import CHUNK_WORDS, POISON_BYTE, WORD_BYTES, content_bytes, write_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_CHUNK_BYTES = CHUNK_WORDS * WORD_BYTES


class HostMemory:
    """A contiguous host buffer.

    Args:
        array: uint8, shape ``(nbytes,)``, contiguous and writable; not copied.
    """

    def __init__(self, array: NDArray[np.uint8]) -> None:
        self._bytes = array

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return self._bytes.nbytes

    def write_content(self, key: int) -> None:
        """Fills the buffer with a round's content."""
        whole = self.nbytes // WORD_BYTES * WORD_BYTES
        if self._bytes.ctypes.data % WORD_BYTES == 0:
            write_words(key, 0, self._bytes[:whole].view(np.uint64))
        else:
            for start, end in _chunks(0, whole):
                self._bytes[start:end] = content_bytes(key, start, end - start)
        self._bytes[whole:] = content_bytes(key, whole, self.nbytes - whole)

    def poison(self) -> None:
        """Fills the buffer with the poison byte."""
        self._bytes.fill(POISON_BYTE)

    def holds_content(self, key: int) -> bool:
        """Tells whether the whole buffer holds a round's content."""
        return self._holds_range(key, 0, 0, self.nbytes)

    def holds_copies(self, plan: CopyPlan, key: int) -> bool:
        """Tells whether each destination holds its source's content and everything else is poison."""
        merged = merge_adjacent(plan)
        copies = zip(
            merged.source_offsets.tolist(), merged.destination_offsets.tolist(), merged.sizes.tolist(), strict=True
        )
        return all(self._holds_range(key, source, destination, size) for source, destination, size in copies) and all(
            self._holds_poison(start, end) for start, end in merged.destination_gaps().tolist()
        )

    def _holds_range(self, key: int, source: int, destination: int, size: int) -> bool:
        for start, end in _chunks(0, size):
            expected = content_bytes(key, source + start, end - start)
            if (self._bytes[destination + start : destination + end] != expected).any():
                return False
        return True

    def _holds_poison(self, first: int, last: int) -> bool:
        return not any((self._bytes[start:end] != POISON_BYTE).any() for start, end in _chunks(first, last))

    def to_host(self) -> NDArray[np.uint8]:
        """The bytes themselves."""
        return self._bytes


def _chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    for first in range(start, end, _CHUNK_BYTES):
        yield first, min(first + _CHUNK_BYTES, end)
