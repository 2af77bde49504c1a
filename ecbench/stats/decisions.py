"""What is rejected so far: four one-sided hypotheses per case, over all cases and all looks of a gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.comparison_records import Reason, Verdict
from ecbench.stats.alpha_spending import ALPHA
from ecbench.stats.holm import step_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.stats.alpha_spending import LookSchedule
    from ecbench.stats.log_ratio import RatioTest


@dataclass(frozen=True, eq=False)
class Decisions:
    """Boolean arrays of shape (..., cases); what was shown once stays shown.

    Args:
        slower: Beyond the threshold; Holm over the cases, since one false alarm fails the gate.
        not_slower: By as much as the threshold. Not adjusted: a gate passes only if every case does, so that passing
            with a regression in it already takes the error of that one case.
        faster: Beyond the threshold; Holm.
        not_faster: By as much as the threshold.
    """

    slower: NDArray[np.bool_]
    not_slower: NDArray[np.bool_]
    faster: NDArray[np.bool_]
    not_faster: NDArray[np.bool_]

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Decisions:
        """Before the first look."""
        return cls(*(np.zeros(shape, np.bool_) for _ in range(4)))

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Where more rounds would not change the verdict."""
        return self.slower | self.faster | (self.not_slower & self.not_faster)

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Where the verdict is `Verdict.PASSED`."""
        return self.not_slower & ~self.slower & ~self.faster

    @property
    def inconclusive(self) -> NDArray[np.bool_]:
        """Where the verdict is `Verdict.INCONCLUSIVE`."""
        return ~(self.slower | self.faster | self.not_slower)


def decide(tests: RatioTest, earlier: Decisions, schedule: LookSchedule, look: int) -> Decisions:
    """Takes a look.

    Args:
        tests: On all data so far, shape (..., cases).
        earlier: After the looks before; same shape.
        schedule: All looks, fixed beforehand.
        look: Number of this one, from 0.
    """
    cases = tests.p_slower.shape[-1]
    holm_levels = [schedule.nominal_level(look, ALPHA / (cases - rejected)) for rejected in range(cases)]
    level = schedule.nominal_level(look)

    def reject(p_values: NDArray[np.float64], before: NDArray[np.bool_]) -> NDArray[np.bool_]:
        # A case that was rejected before hands its share of the error on to the others.
        return step_down(np.where(before, 0.0, p_values), holm_levels)

    return Decisions(
        slower=reject(tests.p_slower, earlier.slower),
        not_slower=earlier.not_slower | (tests.p_not_slower <= level),
        faster=reject(tests.p_faster, earlier.faster),
        not_faster=earlier.not_faster | (tests.p_not_faster <= level),
    )


def verdict_of(*, slower: bool, not_slower: bool, faster: bool, not_faster: bool) -> tuple[Verdict, Reason]:
    """The verdict on one case.

    Swapping base and new swaps ``slower`` with ``faster`` and ``not_slower`` with ``not_faster``. A gate guards against
    slowdowns, so ``not_slower`` alone passes while ``not_faster`` alone is inconclusive.
    """
    if slower:
        return Verdict.REGRESSED, Reason.SLOWER_BEYOND_THRESHOLD
    if faster:
        return Verdict.IMPROVED, Reason.IMPROVED_BEYOND_THRESHOLD
    if not_slower:
        return Verdict.PASSED, Reason.WITHIN_THRESHOLD if not_faster else Reason.MAY_BE_IMPROVED
    return Verdict.INCONCLUSIVE, Reason.MAY_BE_REGRESSED if not_faster else Reason.TOO_NOISY
