"""The cells of a sweep, sorted into the groups that one model describes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.records import LegStatus
from ecbench.core.sweep_records import CellGroup
from ecbench.stats.cost_model import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecbench.core.records import CaseResult, LegResult

Work = tuple[tuple[str, str], ...]
_HOW = frozenset({"engine", "writer", "host_memory", "coalesce"})
"""Parameters that say how a batch was copied, not what."""


@dataclass(frozen=True)
class MeasuredCell:
    """One direction of a cell that was measured and whose bytes were right.

    Args:
        case_id: The cell.
        work: What was to be copied: the same for two engines, and whether blocks were joined or not.
        block_size_bytes: Bytes of a block; 0 where blocks are of several sizes.
        blocks: Blocks of the batch.
        run_length: Blocks that are neighbours; 0 where that is no axis of the cell.
        byte_offset: Shift of the device's addresses.
        copied_bytes: Bytes of the batch.
        descriptors: Copies of the batch.
        seconds: Median time.
    """

    case_id: str
    work: Work
    block_size_bytes: int
    blocks: int
    run_length: int
    byte_offset: int
    copied_bytes: int
    descriptors: int
    seconds: float

    @property
    def observation(self) -> Observation:
        """The cell as the model sees it."""
        return Observation(self.case_id, self.descriptors, self.copied_bytes, self.seconds)


def group_cells(cases: Iterable[CaseResult]) -> dict[CellGroup, list[MeasuredCell]]:
    """Sorts the measured legs of cells by engine, direction, writer and host memory.

    Args:
        cases: Cells; those without times, or with wrong bytes are left out.
    """
    groups: defaultdict[CellGroup, list[MeasuredCell]] = defaultdict(list)
    for case in cases:
        for leg in case.legs:
            cell = _measured(case, leg)
            if cell is not None:
                groups[_group(case, leg)].append(cell)
    return dict(groups)


def _group(case: CaseResult, leg: LegResult) -> CellGroup:
    return CellGroup(
        engine=str(leg.engine),
        direction=leg.direction,
        writer=str(leg.writer),
        host_memory=str(case.params.get("host_memory")),
    )


def _measured(case: CaseResult, leg: LegResult) -> MeasuredCell | None:
    if (
        leg.status is not LegStatus.PASSED
        or leg.median_s is None
        or min(leg.copied_bytes, leg.blocks, leg.descriptors) < 1
    ):
        return None
    return MeasuredCell(
        case_id=case.case_id,
        work=tuple((name, repr(value)) for name, value in case.params.items() if name not in _HOW),
        block_size_bytes=_number(case, "block_size_bytes"),
        blocks=leg.blocks,
        run_length=_number(case, "run_length"),
        byte_offset=_number(case, "byte_offset"),
        copied_bytes=leg.copied_bytes,
        descriptors=leg.descriptors,
        seconds=leg.median_s,
    )


def _number(case: CaseResult, axis: str) -> int:
    value = case.params.get(axis)
    return value if isinstance(value, int) else 0
