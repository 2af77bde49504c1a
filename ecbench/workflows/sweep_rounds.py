"""The rounds of a sweep: cells take turns, and each round is on disk before the next starts."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.errors import CopyRefusedError
from ecbench.core.records import LegResult, LegStatus
from ecbench.measure.rounds import measure_rounds
from ecbench.workflows.sweep_ledger import WARM_UP, CellRound, Ledger, one_round
from ecbench.workflows.sweep_schedule import (
    MAX_BUDGET_ROUNDS,
    TimeLeft,
    equal_passes,
    warm_up_order,
    widest_passes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecbench.measure.stages import StageClock
    from ecbench.workflows.sweep_family import CellSession
    from ecbench.workflows.sweep_grid import Sweep
    from ecbench.workflows.sweep_journal import Journal


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is.

    Args:
        case_id: Cell that ran last.
        share: Of the rounds, or of the budget.
        rounds_done: Rounds that count, earlier processes included.
        seconds_left: Estimate from what the cells took so far.
    """

    case_id: str
    share: float
    rounds_done: int
    seconds_left: float


class SweepRounds:
    """Runs what a ledger does not hold yet.

    Args:
        sweep: What to measure.
        journal: Takes every round.
        ledger: Rounds of earlier processes; takes every round too.
        clock: Takes the time of each stage.
        report: Told after each round.
    """

    def __init__(
        self,
        sweep: Sweep,
        journal: Journal,
        ledger: Ledger,
        clock: StageClock,
        report: Callable[[SweepProgress], None],
    ) -> None:
        self._sweep = sweep
        self._journal = journal
        self._ledger = ledger
        self._clock = clock
        self._report = report
        self._process = ledger.last_process + 1
        self._spent_before_s = ledger.spent_s
        self._most_rounds = sweep.plan.rounds if sweep.plan.budget_s is None else MAX_BUDGET_ROUNDS
        self._steps: dict[int, Iterator[list[LegResult]]] = {}
        self._next_round: dict[int, int] = {}

    def measure(self) -> None:
        """Warms every unfinished cell up, then runs passes until the rounds or the budget are used up.

        Raises:
            EcbenchError: The journal cannot be written, or memory is gone.
        """
        count, seed = len(self._sweep.cells), self._sweep.options.seed
        warm_up = warm_up_order(self._ledger, count, self._most_rounds, seed)
        if not warm_up or self._budget_is_spent(self._spent_before_s):
            return
        left = [0] * count
        for cell in warm_up:
            left[cell] = self._most_rounds - self._ledger.rounds_done(cell) + 1
        self._left = TimeLeft(self._sweep.expected_s, left)
        self._rounds_in_all = self._ledger.kept + sum(left) - len(warm_up)
        with ExitStack() as stack:
            with self._clock.stage("open"):
                family, cells = self._sweep.plan.family, self._sweep.cells
                session = stack.enter_context(family.open(cells, self._sweep.devices, seed, self._clock))
            self._began_s = time.perf_counter()
            self._run_passes(session, warm_up)

    def _run_passes(self, session: CellSession, warm_up: list[int]) -> None:
        for order in self._passes(warm_up):
            for cell in order:
                if self._budget_is_spent(self._spent_s()):
                    return
                if self._ledger.open_directions(cell):
                    self._run_round(session, cell)

    def _passes(self, warm_up: list[int]) -> Iterator[list[int]]:
        count, seed = len(self._sweep.cells), self._sweep.options.seed
        yield warm_up
        if self._sweep.plan.budget_s is None:
            yield from equal_passes(self._ledger, count, self._most_rounds, seed)
        else:
            yield from widest_passes(self._ledger, count, seed)

    def _spent_s(self) -> float:
        return self._spent_before_s + time.perf_counter() - self._began_s

    def _budget_is_spent(self, spent_s: float) -> bool:
        budget_s = self._sweep.plan.budget_s
        return budget_s is not None and spent_s >= budget_s

    def _run_round(self, session: CellSession, cell: int) -> None:
        began = time.perf_counter()
        if cell not in self._steps:
            self._start(session, cell)
        legs = next(self._steps[cell])
        number = self._next_round[cell]
        self._next_round[cell] += 1
        entry = CellRound(
            cell=cell,
            process=self._process,
            round=number,
            seconds=time.perf_counter() - began,
            spent_s=self._spent_s(),
            legs=[one_round(leg, number) for leg in legs],
        )
        with self._clock.stage("journal"):
            self._journal.append(entry)
        self._ledger.add(entry)
        self._tell(entry)

    def _start(self, session: CellSession, cell: int) -> None:
        self._next_round[cell] = WARM_UP
        case_id = self._sweep.cells[cell].case_id
        still_open = self._ledger.open_directions(cell)
        try:
            copies = session.copies(self._sweep.cells[cell])
        except CopyRefusedError as error:
            self._steps[cell] = iter([[_refused(direction, error) for direction in still_open]])
            return
        self._steps[cell] = measure_rounds(
            [copy for copy in copies if copy.direction in still_open],
            rounds=self._most_rounds,
            seed=self._sweep.options.seed,
            label=f"{case_id}/{self._process}",
            clock=self._clock,
            process=self._process,
        )

    def _tell(self, entry: CellRound) -> None:
        self._left.finished(entry.cell, entry.seconds)
        budget_s, done = self._sweep.plan.budget_s, self._ledger.kept
        case_id = self._sweep.cells[entry.cell].case_id
        if budget_s is None:
            share = done / self._rounds_in_all
            self._report(SweepProgress(case_id, share, done, self._left.seconds))
        else:
            left_s = max(0.0, budget_s - entry.spent_s)
            self._report(SweepProgress(case_id, min(1.0, entry.spent_s / budget_s), done, left_s))


def _refused(direction: str, error: CopyRefusedError) -> LegResult:
    return LegResult(direction=direction, status=LegStatus.ERROR, reason=str(error))
