"""Verdicts on the legs of one gate: threshold, many cases and several looks in one place.

`judge` takes one look at results that exist. `SequentialJudge` is for who can add rounds: it is told beforehand after
how many pairs it will be asked, and says when to stop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.comparison_records import Pairing, Reason, TimeComparison, Verdict
from ecbench.core.errors import DataError, EcbenchError
from ecbench.stats.alpha_spending import LookSchedule
from ecbench.stats.decisions import Decisions, decide, verdict_of
from ecbench.stats.log_ratio import RatioTest, paired_test, unpaired_test
from ecbench.stats.pairing import WIDENING, Observations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MIN_ROUNDS = 5
"""Units that a test needs on either side. Below five, not even a sign test could reject at 5%: 2**-4 is 6%."""
CONSTANT_SPREAD = 1e-9
"""Logarithms that differ by less are the same number: clocks tick in nanoseconds, rounds take microseconds at least."""
_LARGEST_LOG = 700.0
"""An interval of five wild rounds can end beyond what a float holds; JSON has no infinity."""
DEFAULT_THRESHOLD = 0.05
"""Slowdown that is accepted: what shared machines can tell from noise with 16 pairs."""


@dataclass(frozen=True)
class LegQuestion:
    """What is asked of one leg, fixed before any data are seen.

    Args:
        name: Case and direction, for messages.
        metric: Name in `ecbench.stats.pairing.METRICS`.
        threshold: Accepted slowdown as a fraction, before widening.
    """

    name: str
    metric: str
    threshold: float = DEFAULT_THRESHOLD


def judge(questions: Sequence[LegQuestion], observations: Sequence[Observations]) -> list[TimeComparison]:
    """Judges results that exist, with one look.

    Args:
        questions: One per leg; all of one gate, so that chance is divided among them.
        observations: One per question.

    Raises:
        DataError: A statistic cannot be computed.
    """
    return SequentialJudge(questions, LookSchedule((1,))).look(observations)


class SequentialJudge:
    """Takes up to as many looks as were fixed beforehand; what was decided at one stays decided.

    Args:
        questions: One per leg.
        schedule: Units per leg at each look. With one look, legs may have any number.
    """

    def __init__(self, questions: Sequence[LegQuestion], schedule: LookSchedule) -> None:
        self._questions = tuple(questions)
        self._schedule = schedule
        self._looks_taken = 0
        self._decisions = Decisions.none((len(self._questions),))

    @property
    def next_rounds(self) -> int | None:
        """Pairs that the next look needs; None when all is settled or the budget is used up."""
        over = self._looks_taken == len(self._schedule.rounds) or (self._looks_taken and self._decisions.settled.all())
        return None if over else self._schedule.rounds[self._looks_taken]

    def cut_short(self, rounds: int) -> None:
        """Plans the next look after so many pairs, because there will be no more.

        Error is spent by the share of the data, so a look that comes early takes only what it is due. It is a fair one
        where the verdicts had no part in the decision to stop: an interruption, a lost device.

        Raises:
            EcbenchError: Not more pairs than at the last look, or more than the budget.
        """
        taken, budget = self._schedule.rounds[: self._looks_taken], self._schedule.rounds[-1]
        if rounds > budget:
            raise EcbenchError(f"a look after {rounds} pairs: the budget is {budget}")
        self._schedule = LookSchedule((*taken, *sorted({rounds, budget})))

    def look(self, observations: Sequence[Observations]) -> list[TimeComparison]:
        """Judges all legs on all data so far.

        Args:
            observations: One per question, in their order.

        Raises:
            EcbenchError: A look that was not planned, or one with another number of rounds than planned.
            DataError: A statistic cannot be computed.
        """
        self._refuse_unplanned(observations)
        if not self._questions:
            return []
        faults = [fault_of(units) for units in observations]
        tests = [
            RatioTest.untested() if fault else _test(question, units)
            for question, units, fault in zip(self._questions, observations, faults, strict=True)
        ]
        self._decisions = decide(RatioTest.joined(tests), self._decisions, self._schedule, self._looks_taken)
        self._looks_taken += 1
        return [
            self._comparison(index, *row) for index, row in enumerate(zip(observations, faults, tests, strict=True))
        ]

    def _refuse_unplanned(self, observations: Sequence[Observations]) -> None:
        planned = self._schedule.rounds
        if self._looks_taken == len(planned):
            raise EcbenchError(f"look {self._looks_taken + 1} was not planned: all {len(planned)} are taken")
        if len(planned) == 1:
            return
        for question, units in zip(self._questions, observations, strict=True):
            if not len(units.base) == len(units.new) == planned[self._looks_taken]:
                raise EcbenchError(
                    f"{question.name}: look {self._looks_taken + 1} was planned after {planned[self._looks_taken]} "
                    f"pairs, got {len(units.base)} and {len(units.new)}: run the missing ones"
                )

    def _comparison(self, index: int, units: Observations, fault: Reason | None, test: RatioTest) -> TimeComparison:
        decisions, question = self._decisions, self._questions[index]
        verdict, reason = verdict_of(
            slower=bool(decisions.slower[index]),
            not_slower=bool(decisions.not_slower[index]),
            faster=bool(decisions.faster[index]),
            not_faster=bool(decisions.not_faster[index]),
        )
        if verdict is Verdict.INCONCLUSIVE and fault is not None:
            reason = fault
        return TimeComparison(
            metric=question.metric,
            verdict=verdict,
            reason=reason,
            pairing=units.pairing,
            threshold=widened(question.threshold, units.pairing),
            base_rounds=len(units.base),
            new_rounds=len(units.new),
            base_median=_median(units.base),
            new_median=_median(units.new),
            look=self._looks_taken,
            looks=len(self._schedule.rounds),
            **({} if fault else _figures(test)),
        )


def widened(threshold: float, pairing: Pairing) -> float:
    """The threshold that is tested: wider where part of the noise cannot be seen."""
    return threshold * WIDENING[pairing]


def fault_of(units: Observations) -> Reason | None:
    """Why these units cannot be tested; None where they can."""
    values = (*units.base, *units.new)
    if not all(map(math.isfinite, values)):
        return Reason.NOT_A_NUMBER
    if min(values, default=1.0) <= 0:
        return Reason.NOT_POSITIVE
    if min(len(units.base), len(units.new)) < MIN_ROUNDS:
        return Reason.TOO_FEW_ROUNDS
    return Reason.CONSTANT_SAMPLES if _is_constant(units) else None


def _is_constant(units: Observations) -> bool:
    base, new = np.log(units.base), np.log(units.new)
    if units.pairing is Pairing.PAIRED:
        return float(np.ptp(new - base)) < CONSTANT_SPREAD
    return min(float(np.ptp(base)), float(np.ptp(new))) < CONSTANT_SPREAD


def _test(question: LegQuestion, units: Observations) -> RatioTest:
    test = paired_test if units.pairing is Pairing.PAIRED else unpaired_test
    try:
        return test(np.log(units.base), np.log(units.new), widened(question.threshold, units.pairing))
    except DataError as error:
        raise DataError(f"{question.name}: {error}") from error


def _median(values: tuple[float, ...]) -> float | None:
    usable = values and all(math.isfinite(value) for value in values)
    return median(values) if usable else None


def _figures(test: RatioTest) -> dict[str, float]:
    return {
        "ratio": _from_log(test.log_ratio),
        "ratio_low": _from_log(test.log_low),
        "ratio_high": _from_log(test.log_high),
        "p_slower": float(test.p_slower),
        "p_not_slower": float(test.p_not_slower),
    }


def _from_log(value: NDArray[np.float64]) -> float:
    return math.exp(min(max(float(value), -_LARGEST_LOG), _LARGEST_LOG))


def geometric_mean(ratios: Sequence[float]) -> float | None:
    """Of all ratios; None without any. Informs only: one bad case can hide in it."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
