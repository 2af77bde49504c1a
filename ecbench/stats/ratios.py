"""How much longer one thing takes than another, without an assumption about the distribution."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ecbench.stats.summary import CONFIDENCE, median_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

_EACH_CONFIDENCE = 1 - (1 - CONFIDENCE) / 2
"""Of each median's interval: where both hold, the ratio's does, which is so with at least `CONFIDENCE` (Bonferroni)."""


@dataclass(frozen=True)
class TimeRatio:
    """Median of the new times over median of the base times.

    Args:
        value: 1.1 is 10% slower.
        low: Lower end of the 95% interval; with fewer than seven rounds on a side, of the whole range.
        high: Upper end.
    """

    value: float
    low: float
    high: float


def time_ratio(base_s: Sequence[float], new_s: Sequence[float]) -> TimeRatio:
    """Sets times of unpaired rounds against each other.

    Args:
        base_s: Positive times, at least one.
        new_s: Likewise.
    """
    base_low, base_high = median_interval(base_s, _EACH_CONFIDENCE)
    new_low, new_high = median_interval(new_s, _EACH_CONFIDENCE)
    return TimeRatio(median(new_s) / median(base_s), new_low / base_high, new_high / base_low)
