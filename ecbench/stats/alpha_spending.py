"""Several looks at growing data without more false alarms: the error is spent over looks that were fixed beforehand.

Lan and DeMets (1983), with the spending function that resembles O'Brien and Fleming's boundaries: nearly all of the
error is kept for the last look, so that the interim looks cost almost no power.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALPHA = 0.05
"""One-sided error of each decision."""
FIRST_LOOK_PAIRS = 6
"""Three ABBA quadruples; the statistics need five pairs."""
_GRID_POINTS = 601
_GRID_REACH = 8.0
"""Standard deviations of the grid on either side: beyond lies 1e-15 of the probability."""
_LEAST_SPENT = 1e-12
"""Less error than this cannot be told from none in double precision on the grid."""


@dataclass(frozen=True)
class LookSchedule:
    """How many pairs (or process rounds) there are at each look; fixed before the first is run.

    Args:
        rounds: Rising numbers of pairs; the last one is the whole budget.
    """

    rounds: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = all(earlier < later for earlier, later in pairwise(self.rounds))
        if not (self.rounds and self.rounds[0] >= 1 and rising):
            raise EcbenchError(f"looks after {self.rounds} rounds: give rising numbers, each at least 1")

    @classmethod
    def up_to(cls, pairs: int) -> LookSchedule:
        """The usual plan: looks at half, three quarters and all of the pairs, each after whole ABBA quadruples.

        Args:
            pairs: The budget, at least `FIRST_LOOK_PAIRS`; an odd one is rounded down.
        """
        if pairs < FIRST_LOOK_PAIRS:
            raise EcbenchError(f"{pairs} pairs are too few for a verdict: allow at least {FIRST_LOOK_PAIRS}")
        looks = {max(FIRST_LOOK_PAIRS, -(-pairs * share // 8) * 2) for share in (2, 3)}
        last = pairs // 2 * 2
        return cls((*sorted(look for look in looks if look < last), last))

    @property
    def fractions(self) -> tuple[float, ...]:
        """Share of the whole data at each look."""
        return tuple(count / self.rounds[-1] for count in self.rounds)

    def nominal_level(self, look: int, alpha: float = ALPHA) -> float:
        """The level to test at.

        Args:
            look: Number of the look, from 0.
            alpha: Error over all looks together.

        Returns:
            The p-value below which a hypothesis is rejected at this look.
        """
        return nominal_levels(self.fractions, alpha)[look]


def spent(fraction: float, alpha: float) -> float:
    """Error that may have been used when a share of the data is there."""
    return float(2 * norm.sf(norm.isf(alpha / 2) / np.sqrt(fraction)))


@lru_cache(maxsize=1024)
def nominal_levels(fractions: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    """Levels whose union over all looks is exactly ``alpha`` for a normal statistic.

    The score process has independent increments; its density among the paths that were not stopped is carried from look
    to look on a grid (Armitage, McPherson and Rowe, 1969).

    Args:
        fractions: Share of the data at each look, rising to 1.
        alpha: Error over all looks together.

    Returns:
        One level per look, to be compared with a p-value of that look.
    """
    levels = []
    points, density = np.zeros(1), np.ones(1)
    before, used = 0.0, 0.0
    for fraction in fractions:
        step = np.sqrt(fraction - before)
        budget = spent(fraction, alpha) - used
        boundary = _boundary(points, density, step, budget)
        levels.append(float(norm.sf(boundary / np.sqrt(fraction))))
        points, density = _continue(points, density, step, boundary, np.sqrt(fraction))
        before, used = fraction, used + budget
    return tuple(levels)


def _boundary(points: NDArray[np.float64], density: NDArray[np.float64], step: float, budget: float) -> float:
    if budget < _LEAST_SPENT:
        return np.inf
    return float(brentq(lambda edge: density @ norm.sf((edge - points) / step) - budget, -_GRID_REACH, _GRID_REACH))


def _continue(
    points: NDArray[np.float64], density: NDArray[np.float64], step: float, boundary: float, deviation: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grid points and their probabilities after a look that did not stop."""
    upper = min(boundary, _GRID_REACH * deviation)
    grid = np.linspace(-_GRID_REACH * deviation, upper, _GRID_POINTS)
    carried = norm.pdf((grid[:, None] - points[None, :]) / step) @ density / step
    weights = np.full(_GRID_POINTS, grid[1] - grid[0])
    weights[[0, -1]] /= 2
    return grid, carried * weights
