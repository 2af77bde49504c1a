"""Pairs of process rounds, one of either installation, in ABBA order."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.core.records import LegStatus
from ecbench.stats.pairing import Side, abba_order
from ecbench.workflows.process_rounds import ask_version, merge_processes, run_in_fresh_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ecbench.core.records import Param, RoundTripResult
    from ecbench.stats.alpha_spending import LookSchedule
    from ecbench.workflows.round_trip import RoundTripOptions

ProcessReport = Callable[[str, int, int], None]
"""Called before each process with what it is, the processes done and the processes that the budget allows."""


@dataclass(frozen=True)
class SideCommand:
    """How one of the two installations is started.

    Args:
        side: Which.
        text: As the user gave it.
        command: What is run.
    """

    side: Side
    text: str
    command: tuple[str, ...]


@contextmanager
def naming(side: Side, text: str) -> Iterator[None]:
    """Says which side an error is about."""
    try:
        yield
    except EcbenchError as error:
        raise type(error)(f"{side} ({text}): {error}") from error


@dataclass(eq=False)
class Pairs:
    """Process rounds of both sides.

    Args:
        sides: How either is started.
        round_trip: What both run, with every scenario named.
        schedule: After how many pairs there are looks.
        finished: Results by side, in the order of the pairs.
    """

    sides: Mapping[Side, SideCommand]
    round_trip: RoundTripOptions
    schedule: LookSchedule
    finished: dict[Side, list[RoundTripResult]] = field(default_factory=lambda: {side: [] for side in Side})

    @property
    def budget(self) -> int:
        """Most pairs."""
        return self.schedule.rounds[-1]

    @property
    def count(self) -> int:
        """Pairs of which both processes are done."""
        return min(map(len, self.finished.values()))

    @property
    def have_wrong_bytes(self) -> bool:
        """Some byte was wrong in some round of either side."""
        results = [result for side in Side for result in self.finished[side]]
        return any(leg.status is LegStatus.FAILED for result in results for case in result.cases for leg in case.legs)

    def run_until(self, pairs: int, report: ProcessReport) -> None:
        """Runs on until there are so many pairs, or one of them has wrong bytes.

        Raises:
            EcbenchError: A process failed; its side is named.
            KeyboardInterrupt: It was interrupted.
        """
        looks = ", ".join(map(str, self.schedule.rounds))
        first = self.count
        for number, (side, pair) in enumerate(abba_order(pairs)):
            if pair < first:
                continue
            if number % 2 == 0 and self.have_wrong_bytes:
                return
            report(f"pair {pair + 1} of {self.budget} (looks after {looks}), {side}", number, 2 * self.budget)
            self.run_process(side, self._in_order_of(pair))

    def _in_order_of(self, pair: int) -> RoundTripOptions:
        """Both processes of a pair run the cases in one order, so that it favours neither side."""
        names = list(self.round_trip.scenarios)
        if pair > 0:  # the first one gives the result its order
            random.Random(f"{self.round_trip.seed} {pair}").shuffle(names)  # noqa: S311 - no secret
        return replace(self.round_trip, scenarios=tuple(names))

    def run_process(self, side: Side, options: RoundTripOptions) -> None:
        """Runs one process.

        Raises:
            EcbenchError: It failed; its side is named.
        """
        with naming(side, self.sides[side].text):
            self.finished[side].append(run_in_fresh_process(options, self.sides[side].command))

    def merged(self, side: Side, settings: Mapping[str, Param]) -> RoundTripResult:
        """The finished pairs' rounds of one side as one result.

        Args:
            side: Which.
            settings: Added to those of the rounds.
        """
        whole = merge_processes(self.finished[side][: self.count])
        return msgspec.structs.replace(whole, settings={**whole.settings, **settings})


def ask_both(
    sides: Mapping[Side, SideCommand], round_trip: RoundTripOptions, schedule: LookSchedule, report: ProcessReport
) -> Pairs:
    """A pair that is not counted: what cannot run is found, and caches are as warm as they will be.

    Raises:
        EcbenchError: A side that is no ecbench, lacks something or cannot be read; it is named.
    """
    asked = Pairs(sides, round_trip, schedule)
    for side in Side:
        with naming(side, sides[side].text):
            ask_version(sides[side].command)
    for side in Side:
        report(f"warm-up, {side}", 0, 2 * asked.budget)
        asked.run_process(side, replace(round_trip, rounds=1))
    return asked
