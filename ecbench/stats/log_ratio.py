"""Tests of new / base against a threshold, on logarithms of process rounds.

Every function takes leading axes of any shape, so that thousands of simulated gates cost one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import ttest_1samp, ttest_ind

from ecbench.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

INTERVAL_CONFIDENCE = 0.90
"""Two-sided: its ends are where one-sided tests at 5% turn."""


@dataclass(frozen=True, eq=False)
class RatioTest:
    """Estimate, interval and the four one-sided tests; float64 arrays of one shape.

    Args:
        log_ratio: Estimate of log(new / base).
        log_low: Lower end of the 90% interval.
        log_high: Upper end.
        p_slower: p-value of "ratio > 1 + threshold".
        p_not_slower: p-value of "ratio < 1 + threshold".
        p_faster: p-value of "ratio < 1 / (1 + threshold)".
        p_not_faster: p-value of "ratio > 1 / (1 + threshold)".
    """

    log_ratio: NDArray[np.float64]
    log_low: NDArray[np.float64]
    log_high: NDArray[np.float64]
    p_slower: NDArray[np.float64]
    p_not_slower: NDArray[np.float64]
    p_faster: NDArray[np.float64]
    p_not_faster: NDArray[np.float64]

    @classmethod
    def joined(cls, tests: Sequence[RatioTest]) -> RatioTest:
        """Tests of several legs as one array with a last axis of that length."""
        return cls(**{name: np.stack([getattr(test, name) for test in tests], axis=-1) for name in _FIELDS})

    @classmethod
    def untested(cls) -> RatioTest:
        """Stands for a leg that cannot be tested: no estimate, and p-values at which nothing is rejected."""
        nothing, one = np.array(np.nan), np.array(1.0)
        return cls(nothing, nothing, nothing, one, one, one, one)


_FIELDS = tuple(RatioTest.__dataclass_fields__)


def paired_test(log_base: ArrayLike, log_new: ArrayLike, threshold: ArrayLike) -> RatioTest:
    """Student's t on the differences of pairs.

    Args:
        log_base: Logarithms of process rounds, shape (..., pairs).
        log_new: The rounds run beside them, same shape.
        threshold: Accepted slowdown as a fraction, shape (...) or a number.

    Raises:
        DataError: The statistic cannot be computed.
    """
    differences = np.asarray(log_new, np.float64) - np.asarray(log_base, np.float64)
    limit = np.log1p(np.asarray(threshold, np.float64))[..., None]
    above, below = differences - limit, differences + limit
    interval = ttest_1samp(differences, 0.0, axis=-1).confidence_interval(INTERVAL_CONFIDENCE)
    return _checked(
        RatioTest(
            log_ratio=differences.mean(axis=-1),
            log_low=interval.low,
            log_high=interval.high,
            p_slower=ttest_1samp(above, 0.0, axis=-1, alternative="greater").pvalue,
            p_not_slower=ttest_1samp(above, 0.0, axis=-1, alternative="less").pvalue,
            p_faster=ttest_1samp(below, 0.0, axis=-1, alternative="less").pvalue,
            p_not_faster=ttest_1samp(below, 0.0, axis=-1, alternative="greater").pvalue,
        )
    )


def unpaired_test(log_base: ArrayLike, log_new: ArrayLike, threshold: ArrayLike) -> RatioTest:
    """Welch's t on rounds that do not belong together.

    Args:
        log_base: Logarithms of rounds, shape (..., base rounds).
        log_new: Shape (..., new rounds).
        threshold: Accepted slowdown as a fraction, shape (...) or a number.

    Raises:
        DataError: The statistic cannot be computed.
    """
    base, new = np.asarray(log_base, np.float64), np.asarray(log_new, np.float64)
    limit = np.log1p(np.asarray(threshold, np.float64))[..., None]

    def p_value(shifted: NDArray[np.float64], alternative: str) -> NDArray[np.float64]:
        result: NDArray[np.float64] = ttest_ind(shifted, base, axis=-1, equal_var=False, alternative=alternative).pvalue
        return result

    interval = ttest_ind(new, base, axis=-1, equal_var=False).confidence_interval(INTERVAL_CONFIDENCE)
    return _checked(
        RatioTest(
            log_ratio=new.mean(axis=-1) - base.mean(axis=-1),
            log_low=interval.low,
            log_high=interval.high,
            p_slower=p_value(new - limit, "greater"),
            p_not_slower=p_value(new - limit, "less"),
            p_faster=p_value(new + limit, "less"),
            p_not_faster=p_value(new + limit, "greater"),
        )
    )


def _checked(test: RatioTest) -> RatioTest:
    """A statistic that failed is an error: taken as a verdict, it would be a wrong one."""
    for name in _FIELDS:
        if not np.all(np.isfinite(getattr(test, name))):
            raise DataError(f"statistic {name} is not finite: look at the samples of this case, and measure it again")
    return test
