"""From raw samples to the units that may be tested: process rounds, or, with one process each, its rounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from ecbench.core.comparison_records import Pairing
from ecbench.core.errors import EcbenchError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ecbench.core.records import Sample

PAIRING_SETTING = "pairing"
"""`RunResult.settings` key: results with the same value there were run in turn; their processes of one number are a
pair."""

METRICS: dict[str, Callable[[Sample], float]] = {
    "total_s": lambda sample: sample.total_s,
    "fill_s": lambda sample: sample.fill_s,
    "submit_s": lambda sample: sample.submit_s,
    "copy_s": lambda sample: sample.copy_s,
    "total_per_ceiling": lambda sample: sample.total_s / sample.ceiling_s,
}
"""What can be compared, each the larger the worse. The last one is free of unit: time over that of a contiguous copy in
the same round, so a slower machine cancels out."""
DEFAULT_METRIC = "total_s"

WIDENING = {Pairing.PAIRED: 1, Pairing.UNPAIRED: 2, Pairing.WITHIN_PROCESS: 3}
"""The threshold is multiplied by it. What differs between two times of day, or between two processes, is the same in
all rounds of a result, so no test on its rounds can see it. With a threshold of 5%, 3% between processes and a drift of
4%, these factors bring false alarms of a single case from 7% to 1% (unpaired) and from 21% to 2% (within one process):
benchmarks/gate_simulation.py."""


class Side(StrEnum):
    """One of the two things compared."""

    BASE = "base"
    NEW = "new"


def abba_order(pairs: int) -> list[tuple[Side, int]]:
    """In which order to run the process rounds of so many pairs, so that a drift favours neither side.

    Returns:
        Side and number of the pair: base 0, new 0, new 1, base 1, base 2, ...
    """
    sides = (Side.BASE, Side.NEW)
    return [(side, pair) for pair in range(pairs) for side in (sides if pair % 2 == 0 else sides[::-1])]


@dataclass(frozen=True)
class Observations:
    """The units of one leg in both results.

    Args:
        base: One value per unit, in the order of processes or rounds.
        new: Likewise; as many as ``base`` where they are paired.
        pairing: How they belong together.
    """

    base: tuple[float, ...]
    new: tuple[float, ...]
    pairing: Pairing

    def __post_init__(self) -> None:
        if self.pairing is Pairing.PAIRED and len(self.base) != len(self.new):
            raise EcbenchError(f"{len(self.base)} base and {len(self.new)} new rounds cannot be paired: drop odd ones")


def observe(base: Sequence[Sample], new: Sequence[Sample], metric: str, *, interleaved: bool) -> Observations:
    """Reduces samples to units.

    Args:
        base: Samples of a leg in the old result.
        new: Samples of the same leg in the new one.
        metric: Name in `METRICS`.
        interleaved: The processes of both results were run in turn. Only those that both have are used.

    Raises:
        EcbenchError: An unknown metric.
    """
    if metric not in METRICS:
        raise unknown_name("metric", metric, tuple(METRICS))
    values = METRICS[metric]
    old, young = process_medians(base, values), process_medians(new, values)
    if interleaved:
        both = sorted(old.keys() & young.keys())
        return Observations(tuple(old[p] for p in both), tuple(young[p] for p in both), Pairing.PAIRED)
    if len(old) == 1 and len(young) == 1:
        return Observations(tuple(map(values, base)), tuple(map(values, new)), Pairing.WITHIN_PROCESS)
    return Observations(tuple(old.values()), tuple(young.values()), Pairing.UNPAIRED)


def process_medians(samples: Sequence[Sample], values: Callable[[Sample], float]) -> dict[int, float]:
    """One value per process round.

    Args:
        samples: Of one leg.
        values: What to take of a sample.

    Returns:
        Median by number of the process, in the order of the numbers.
    """
    by_process: dict[int, list[float]] = {}
    for sample in samples:
        by_process.setdefault(sample.process, []).append(values(sample))
    return {process: median(by_process[process]) for process in sorted(by_process)}
