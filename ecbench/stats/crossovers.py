"""Where one engine overtakes another, by their models and inside the measured range."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.sweep_records import CellGroup, Crossover, CrossPoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ecbench.stats.cell_groups import MeasuredCell
    from ecbench.stats.cost_model import Model

    Floats = NDArray[np.float64]

STEPS = 400
"""Points on a logarithmic line from the smallest to the largest measured size: 2% apart over three decades."""


@dataclass(frozen=True, eq=False)
class FittedGroup:
    """A group with its model.

    Args:
        group: What its cells have in common.
        cells: Its cells.
        model: Fitted to them.
        median_error: Of the fit, as a share.
    """

    group: CellGroup
    cells: Sequence[MeasuredCell]
    model: Model
    median_error: float


def find_crossovers(fitted: Sequence[FittedGroup]) -> list[Crossover]:
    """Compares every two engines that ran under the same circumstances.

    Args:
        fitted: Groups with their models.
    """
    return [
        _Pair.of(first, second).crossover()
        for first, second in combinations(fitted, 2)
        if _circumstances(first.group) == _circumstances(second.group)
    ]


def _circumstances(group: CellGroup) -> tuple[str, str, str]:
    return group.direction, group.writer, group.host_memory


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two engines, and the cells that both ran: (of the first, of the second)."""

    first: FittedGroup
    second: FittedGroup
    shared: list[tuple[MeasuredCell, MeasuredCell]]

    @classmethod
    def of(cls, first: FittedGroup, second: FittedGroup) -> _Pair:
        other = {(cell.work, cell.descriptors): cell for cell in second.cells}
        mine = {(cell.work, cell.descriptors): cell for cell in first.cells}
        return cls(first, second, [(mine[key], other[key]) for key in mine.keys() & other.keys()])

    @property
    def engines(self) -> tuple[str, str]:
        return self.first.group.engine, self.second.group.engine

    @property
    def tolerance(self) -> float:
        return max(self.first.median_error, self.second.median_error)

    def gain(self, descriptors: Floats, copied_bytes: Floats) -> Floats:
        """Logarithm of the first engine's time over the second's: negative where the first is faster."""
        logs: Floats = np.log(
            self.first.model.predict(descriptors, copied_bytes) / self.second.model.predict(descriptors, copied_bytes)
        )
        return logs

    def crossover(self) -> Crossover:
        direction, writer, host_memory = _circumstances(self.first.group)
        sizes = _lines((cell.descriptors, cell.copied_bytes / cell.descriptors) for cell, _ in self.shared)
        counts = _lines((cell.copied_bytes / cell.descriptors, cell.descriptors) for cell, _ in self.shared)
        return Crossover(
            direction=direction,
            writer=writer,
            host_memory=host_memory,
            engines=self.engines,
            never_slower=self._never_slower(),
            by_size=[point for count, ends in sizes.items() for point in self._along_sizes(count, ends)],
            by_count=[point for size, ends in counts.items() for point in self._along_counts(size, ends)],
            cells=len(self.shared),
            agreeing=sum(self._agrees(mine, other) for mine, other in self.shared),
        )

    def _along_sizes(self, count: float, ends: tuple[float, float]) -> Iterator[CrossPoint]:
        line = np.geomspace(*ends, STEPS)
        for size, below, above in self._crossings(line, self.gain(np.full(STEPS, count), line * count)):
            yield CrossPoint(descriptors=count, descriptor_bytes=size, faster_below=below, faster_above=above)

    def _along_counts(self, size: float, ends: tuple[float, float]) -> Iterator[CrossPoint]:
        line = np.geomspace(*ends, STEPS)
        for count, below, above in self._crossings(line, self.gain(line, line * size)):
            yield CrossPoint(descriptors=count, descriptor_bytes=size, faster_below=below, faster_above=above)

    def _crossings(self, line: Floats, gain: Floats) -> Iterator[tuple[float, str, str]]:
        """Places where the sign changes, if both engines are ahead somewhere by more than the models' errors."""
        if not (gain.min() <= -self.tolerance and gain.max() >= self.tolerance):
            return
        for index in np.flatnonzero(np.sign(gain[:-1]) * np.sign(gain[1:]) < 0):
            below, above = self.engines if gain[index] < 0 else self.engines[::-1]
            yield float(np.sqrt(line[index] * line[index + 1])), below, above

    def _never_slower(self) -> str | None:
        gains = [self._gain_at(mine) for mine, _ in self.shared]
        ahead = min(gains, default=0.0) < -self.tolerance, max(gains, default=0.0) > self.tolerance
        return {(True, False): self.engines[0], (False, True): self.engines[1]}.get(ahead)

    def _gain_at(self, cell: MeasuredCell) -> float:
        return float(self.gain(np.array([float(cell.descriptors)]), np.array([float(cell.copied_bytes)]))[0])

    def _agrees(self, mine: MeasuredCell, other: MeasuredCell) -> bool:
        return (mine.seconds < other.seconds) == (self._gain_at(mine) < 0)


def _lines(points: Iterator[tuple[float, float]]) -> dict[float, tuple[float, float]]:
    """For each measured value of one size, the ends of what was measured of the other."""
    ends: dict[float, tuple[float, float]] = {}
    for fixed, free in points:
        low, high = ends.get(fixed, (free, free))
        ends[fixed] = min(low, free), max(high, free)
    return {fixed: (low, high) for fixed, (low, high) in sorted(ends.items()) if low < high}
