"""Figures that follow from samples."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.records import CaseResult, LegResult, RoundTripResult

CONFIDENCE = 0.95
"""Least coverage of the interval, where there are enough samples for it (six)."""


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Distribution-free confidence interval of the median: two order statistics.

    The pair k-th smallest, k-th largest covers the median with probability ``1 - 2 P(Binomial(n, 1/2) < k)``; the
    largest k that still reaches the confidence is taken. Below six values no pair does, and the whole range is given.

    Args:
        values: At least one number.
        confidence: Wanted coverage.

    Returns:
        Lower and upper end.
    """
    ordered = sorted(values)
    count = len(ordered)
    rank, tail = 0, 0.0
    while rank < (count - 1) // 2:
        tail += _coin_probability(count, rank)
        if tail + _coin_probability(count, rank + 1) > (1 - confidence) / 2:
            break
        rank += 1
    return ordered[rank], ordered[count - 1 - rank]


def _coin_probability(tosses: int, heads: int) -> float:
    """Binomial probability at 1/2, by logarithms: the counts themselves outgrow a float from 1030 tosses on."""
    ways = math.lgamma(tosses + 1) - math.lgamma(heads + 1) - math.lgamma(tosses - heads + 1)
    return math.exp(ways - tosses * math.log(2))


def with_figures(leg: LegResult) -> LegResult:
    """Fills in every figure that samples decide.

    Args:
        leg: A leg with samples, or without any.

    Returns:
        The same leg; without samples, its figures are null.

    Raises:
        DataError: A sample whose total or ceiling is not a positive, finite time.
    """
    if not leg.samples:
        return msgspec.structs.replace(
            leg,
            median_s=None,
            ci_low_s=None,
            ci_high_s=None,
            bandwidth_bytes_per_s=None,
            ceiling_bytes_per_s=None,
            ceiling_ratio=None,
        )
    for sample in leg.samples:
        for name in ("total_s", "ceiling_s"):
            _refuse_bad_time(name, getattr(sample, name), sample.round)
    totals = [sample.total_s for sample in leg.samples]
    low, high = median_interval(totals)
    return msgspec.structs.replace(
        leg,
        median_s=median(totals),
        ci_low_s=low,
        ci_high_s=high,
        bandwidth_bytes_per_s=leg.copied_bytes / median(totals),
        ceiling_bytes_per_s=leg.copied_bytes / median(sample.ceiling_s for sample in leg.samples),
        ceiling_ratio=median(sample.ceiling_s / sample.total_s for sample in leg.samples),
    )


def _refuse_bad_time(name: str, seconds: float, round_number: int) -> None:
    if not (math.isfinite(seconds) and seconds > 0):
        raise DataError(f"sample of round {round_number} has {name} = {seconds}: a time is positive and finite")


def recompute(result: RoundTripResult) -> RoundTripResult:
    """Fills in the figures of every leg of a result anew."""
    return msgspec.structs.replace(result, cases=[_recompute_case(case) for case in result.cases])


def _recompute_case(case: CaseResult) -> CaseResult:
    return msgspec.structs.replace(case, legs=[with_figures(leg) for leg in case.legs])
