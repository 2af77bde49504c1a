"""Which cell runs next, and how long the rest will take.

Cells take turns in a seeded random order, round by round: a machine that slows down slows all of them down, and the
drift does not look like an effect of a size.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import numpy as np

from ecbench.measure.memory import HostMemory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecbench.workflows.sweep_family import Cell
    from ecbench.workflows.sweep_ledger import Ledger

MIN_BUDGET_ROUNDS = 3
"""Rounds that every cell gets before any gets more: with fewer, an interval says nothing about where to look."""
MAX_BUDGET_ROUNDS = 1000
WIDEST_SHARE = 0.25
"""Share of the cells that a further pass visits: fewer would give up taking turns, more would not choose."""
_PROBE_BYTES = 4 << 20


def warm_up_order(ledger: Ledger, count: int, rounds: int, seed: int) -> list[int]:
    """Cells that will be measured in this process, in the order of their warm-up.

    Args:
        ledger: What is done.
        count: Cells of the grid.
        rounds: Rounds a cell gets at most.
        seed: The run's seed.
    """
    order = _shuffled(range(count), seed, "warm-up", ledger.last_process)
    return [cell for cell in order if ledger.open_directions(cell) and ledger.rounds_done(cell) < rounds]


def equal_passes(ledger: Ledger, count: int, rounds: int, seed: int) -> Iterator[list[int]]:
    """As many rounds for every cell. A pass that was begun in an earlier process goes on where it ended.

    Args:
        ledger: What is done.
        count: Cells of the grid.
        rounds: Rounds per cell.
        seed: The run's seed.
    """
    for number in range(rounds):
        order = _shuffled(range(count), seed, "pass", number)
        yield [cell for cell in order if ledger.open_directions(cell) and ledger.rounds_done(cell) <= number]


def widest_passes(ledger: Ledger, count: int, seed: int) -> Iterator[list[int]]:
    """A few rounds for every cell, then passes over those whose interval is widest; ends when nothing is left to do.

    Args:
        ledger: What is done; read anew for every pass.
        count: Cells of the grid.
        seed: The run's seed.
    """
    while True:
        done = {
            cell: ledger.rounds_done(cell)
            for cell in range(count)
            if ledger.open_directions(cell) and ledger.rounds_done(cell) < MAX_BUDGET_ROUNDS
        }
        if not done:
            return
        fewest = min(done.values())
        if fewest < MIN_BUDGET_ROUNDS:
            chosen = [cell for cell, rounds in done.items() if rounds == fewest]
        else:
            widest = sorted(done, key=ledger.interval_width, reverse=True)
            chosen = widest[: max(1, round(WIDEST_SHARE * len(widest)))]
        yield _shuffled(chosen, seed, "pass", ledger.kept)


def _shuffled(cells: Sequence[int] | range, seed: int, *labels: str | int) -> list[int]:
    order = list(cells)
    random.Random(f"{seed}/{'/'.join(map(str, labels))}").shuffle(order)  # noqa: S311 - an order, no secret
    return order


class TimeLeft:
    """Adds up what the remaining rounds will take, from each cell's last round or else from its estimate.

    Args:
        expected_s: Estimated seconds of a round, by cell.
        rounds: Rounds that are left, by cell.
    """

    def __init__(self, expected_s: Sequence[float], rounds: Sequence[int]) -> None:
        self._expected_s = expected_s
        self._rounds = list(rounds)
        self._measured_s: dict[int, float] = {}
        self._known_s = 0.0
        self._unknown_s = sum(seconds * left for seconds, left in zip(expected_s, rounds, strict=True))
        self._seen_s = 0.0
        self._seen_expected_s = 0.0

    def finished(self, cell: int, seconds: float) -> None:
        """Notes a round that has ended."""
        if cell in self._measured_s:
            self._known_s -= self._measured_s[cell] * self._rounds[cell]
        else:
            self._unknown_s -= self._expected_s[cell] * self._rounds[cell]
            self._seen_s += seconds
            self._seen_expected_s += self._expected_s[cell]
        self._rounds[cell] = max(0, self._rounds[cell] - 1)
        self._measured_s[cell] = seconds
        self._known_s += seconds * self._rounds[cell]

    @property
    def seconds(self) -> float:
        """Seconds left; estimates of cells that have not run yet are scaled by what became of those that have."""
        scale = self._seen_s / self._seen_expected_s if self._seen_expected_s > 0 else 1.0
        return max(0.0, self._known_s + scale * self._unknown_s)


def expected_round_s(cells: Sequence[Cell]) -> list[float]:
    """Estimates a round of every cell from what this host takes to fill and check a few MiB.

    Args:
        cells: The grid; a cell that cannot run takes no time.

    Returns:
        Seconds, by cell.
    """
    per_byte_s = _check_s_per_byte()
    return [
        0.0 if cell.skipped else cell.extra_s + len(cell.directions) * cell.buffer_bytes * per_byte_s for cell in cells
    ]


def _check_s_per_byte() -> float:
    """Seconds per byte of buffer in a round: content or poison, its share of two copies, and the check."""
    memory = HostMemory(np.zeros(_PROBE_BYTES, dtype=np.uint8))
    began = time.perf_counter()
    memory.write_content(0)
    memory.holds_content(0)
    return 1.5 * (time.perf_counter() - began) / _PROBE_BYTES
