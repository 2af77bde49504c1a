"""Runs of stored chunks: how long each is and where the last long enough one ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StoredRuns:
    """Answers about runs in a mask, each in one array look-up.

    Args:
        stored: Whether each chunk is stored; bool, shape ``(chunks,)``.
    """

    def __init__(self, stored: NDArray[np.bool_]) -> None:
        self.count = len(stored)
        ends = np.arange(1, self.count + 1, dtype=np.int64)
        last_gap = np.maximum.accumulate(np.where(stored, 0, ends)) if self.count else ends
        self.lengths: NDArray[np.int64] = np.concatenate([[0], ends - last_gap])
        """Length of the run that ends before chunk ``i``; int64, shape ``(chunks + 1,)``."""
        self.prefix = int(self.count if stored.all() else np.argmin(stored))
        """Chunks of the run that begins with the first chunk."""
        self._last_ends: dict[int, NDArray[np.int64]] = {}

    def last_end(self, length: int) -> NDArray[np.int64]:
        """Where the last run of at least `length` chunks ends that ends at or before chunk ``i``; 0 for none.

        Args:
            length: At least 1.

        Returns:
            int64, shape ``(chunks + 1,)``; the end of a part of a longer run counts.
        """
        if length not in self._last_ends:
            ends = np.arange(self.count + 1, dtype=np.int64)
            self._last_ends[length] = np.maximum.accumulate(np.where(self.lengths >= length, ends, 0))
        return self._last_ends[length]
