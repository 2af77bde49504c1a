"""What is known about the cells of a sweep, round by round, whether it was measured now or read from a journal."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import DataError
from ecbench.core.records import CaseResult, LegResult, LegStatus, Record
from ecbench.measure.verification import combine_rounds
from ecbench.stats.summary import with_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.records import Param
    from ecbench.workflows.sweep_family import Cell

WARM_UP = -1
"""Number of the round that is verified and not counted."""


class CellRound(Record, frozen=True, kw_only=True):
    """One round of one cell: what a journal keeps."""

    cell: int
    """Index of the cell in its grid."""
    process: int
    round: int
    """Number of the round within its process; -1 is the warm-up."""
    seconds: float
    """Wall time of the round, content and verification included."""
    spent_s: float
    """Time that the sweep had spent on rounds when this one ended, in all processes."""
    legs: list[LegResult]
    """The directions that ran, each with this round's sample alone and the verdict of its process so far."""


class Ledger:
    """Collects rounds.

    Args:
        cells: The grid.
        workload: Kind of its cells.
    """

    def __init__(self, cells: Sequence[Cell], workload: str) -> None:
        self._cells = cells
        self._workload = workload
        self._rounds: defaultdict[int, list[CellRound]] = defaultdict(list)
        self._done: Counter[int] = Counter()
        self._ended: defaultdict[int, set[str]] = defaultdict(set)
        self.last_process = -1
        self.spent_s = 0.0
        self.kept = 0

    def add(self, entry: CellRound) -> None:
        """Takes a finished round.

        Raises:
            DataError: It is of no cell of this grid.
        """
        if not 0 <= entry.cell < len(self._cells):
            raise DataError(f"round of cell {entry.cell}: the grid has {len(self._cells)} cells: run without --resume")
        self._rounds[entry.cell].append(entry)
        self._done[entry.cell] += entry.round > WARM_UP
        self._ended[entry.cell] |= {leg.direction for leg in entry.legs if leg.status is not LegStatus.PASSED}
        self.last_process = max(self.last_process, entry.process)
        self.spent_s = max(self.spent_s, entry.spent_s)
        self.kept += entry.round > WARM_UP

    def rounds_done(self, cell: int) -> int:
        """Rounds of a cell that count."""
        return self._done[cell]

    def open_directions(self, cell: int) -> tuple[str, ...]:
        """Directions that have not ended by an error or a wrong byte; none for a cell that cannot run."""
        if self._cells[cell].skipped is not None:
            return ()
        return tuple(name for name in self._cells[cell].directions if name not in self._ended[cell])

    def interval_width(self, cell: int) -> float:
        """Width of the widest interval among a cell's open directions, as a share of its median; infinite at first."""
        legs = [with_figures(self._leg(cell, direction)) for direction in self.open_directions(cell)]
        return max((_relative_width(leg) for leg in legs), default=0.0)

    def case(self, cell: int, params: dict[str, Param], reason: str) -> CaseResult:
        """The result of a cell.

        Args:
            cell: Its index.
            params: What the run adds to the cell's parameters.
            reason: Why a direction without any round has none.
        """
        what = self._cells[cell]
        return CaseResult(
            case_id=what.case_id,
            workload=self._workload,
            params={**what.params, **params},
            legs=[self._final_leg(cell, direction, what.skipped or reason) for direction in what.directions],
        )

    def _final_leg(self, cell: int, direction: str, reason: str) -> LegResult:
        leg = self._leg(cell, direction)
        if leg.samples or leg.status is not LegStatus.PASSED:
            return with_figures(leg)
        return LegResult(direction=direction, status=LegStatus.SKIPPED, reason=reason)

    def _leg(self, cell: int, direction: str) -> LegResult:
        """All rounds of a direction as one leg."""
        found = [leg for entry in self._rounds[cell] for leg in entry.legs if leg.direction == direction]
        if not found:
            return LegResult(direction=direction, status=LegStatus.PASSED)
        # Verdicts add up within a process; only the last of each says all.
        last = {entry.process: leg for entry in self._rounds[cell] for leg in entry.legs if leg.direction == direction}
        verdicts = [leg.verify for leg in last.values() if leg.verify is not None]
        return msgspec.structs.replace(
            found[-1],
            samples=[sample for leg in found for sample in leg.samples],
            verify=combine_rounds(verdicts) if verdicts else None,
        )


def _relative_width(leg: LegResult) -> float:
    if leg.median_s is None or leg.ci_low_s is None or leg.ci_high_s is None or len(leg.samples) == 1:
        return math.inf
    return (leg.ci_high_s - leg.ci_low_s) / leg.median_s


def one_round(leg: LegResult, number: int) -> LegResult:
    """A leg with the sample of one round alone, and without figures: a journal keeps nothing twice."""
    bare = with_figures(msgspec.structs.replace(leg, samples=[]))
    return msgspec.structs.replace(bare, samples=[sample for sample in leg.samples[-1:] if sample.round == number])
