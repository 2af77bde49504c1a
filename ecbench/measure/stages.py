"""Where a command's own time goes, by named stage."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator


class StageClock:
    """Adds up wall time by stage. Stages do not nest; what no stage covers is ``other``.

    Args:
        imports_s: Seconds that had passed before the clock was made; counted as the stage ``imports``.
    """

    def __init__(self, imports_s: float = 0.0) -> None:
        self._started_s = time.perf_counter() - imports_s
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self.add("imports", imports_s)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time inside the block towards a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Counts seconds that were measured elsewhere."""
        self._seconds[name] += seconds

    def seconds_by_stage(self) -> dict[str, float]:
        """The stages in the order they first ran, then ``other``: the rest of the time until now."""
        total_s = time.perf_counter() - self._started_s
        return {**self._seconds, "other": max(0.0, total_s - sum(self._seconds.values()))}


def seconds_since_process_start() -> float:
    """Wall time this process has existed, in seconds (resolution 10 ms)."""
    return time.time() - psutil.Process().create_time()
