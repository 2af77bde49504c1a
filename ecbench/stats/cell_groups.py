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


@dataclass(frozen=True)
class MeasuredCell:
    """One direction of a cell that was measured and whose bytes were right.

    Args:
        case_id: The cell.
        block_size_bytes: Bytes of a block.
        blocks: Blocks of the batch.
        run_length: Blocks that are neighbours.
        byte_offset: Shift of the device's addresses.
        descriptors: Copies of the batch.
        seconds: Median time.
    """

    case_id: str
    block_size_bytes: int
    blocks: int
    run_length: int
    byte_offset: int
    descriptors: int
    seconds: float

    @property
    def copied_bytes(self) -> int:
        """Bytes of the batch."""
        return self.block_size_bytes * self.blocks

    @property
    def observation(self) -> Observation:
        """The cell as the model sees it."""
        return Observation(self.case_id, self.descriptors, self.copied_bytes, self.seconds)

    @property
    def work(self) -> tuple[int, ...]:
        """What was to be copied: the same for two engines, and whether blocks were joined or not."""
        return self.block_size_bytes, self.blocks, self.run_length, self.byte_offset


def group_cells(cases: Iterable[CaseResult]) -> dict[CellGroup, list[MeasuredCell]]:
    """Sorts the measured legs of synthetic cells by engine, direction, writer and host memory.

    Args:
        cases: Cells; those without times, with wrong bytes or of another kind are left out.
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
    size = _number(case, "block_size_bytes")
    if leg.status is not LegStatus.PASSED or leg.median_s is None or min(size, leg.blocks, leg.descriptors) < 1:
        return None
    return MeasuredCell(
        case_id=case.case_id,
        block_size_bytes=size,
        blocks=leg.blocks,
        run_length=_number(case, "run_length"),
        byte_offset=_number(case, "byte_offset"),
        descriptors=leg.descriptors,
        seconds=leg.median_s,
    )


def _number(case: CaseResult, axis: str) -> int:
    value = case.params.get(axis)
    return value if isinstance(value, int) else 0
