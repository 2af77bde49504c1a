"""Looks at a growing number of pairs, also where a leg drops out or the pairs end early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.stats.verdicts import SequentialJudge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.comparison_records import TimeComparison
    from ecbench.stats.alpha_spending import LookSchedule
    from ecbench.stats.pairing import Observations
    from ecbench.stats.verdicts import LegQuestion


class Looks:
    """Judges times at the looks that were planned.

    A leg that went wrong on the way is not asked about any more; the others are then judged anew, at one look.
    """

    def __init__(self, schedule: LookSchedule) -> None:
        self._schedule = schedule
        self._questions: tuple[LegQuestion, ...] | None = None
        self._judge = SequentialJudge((), schedule)

    @property
    def next_rounds(self) -> int | None:
        """Pairs that the next look needs; None when all is settled."""
        return self._judge.next_rounds

    def judge(self, questions: Sequence[LegQuestion], observations: Sequence[Observations]) -> list[TimeComparison]:
        """Takes a look; one that comes before it was planned is the last."""
        if tuple(questions) != self._questions:
            self._questions = tuple(questions)
            self._judge = SequentialJudge(questions, self._schedule)
        if observations and len(observations[0].base) != self._judge.next_rounds:
            self._judge.cut_short(len(observations[0].base))
        return self._judge.look(observations)
