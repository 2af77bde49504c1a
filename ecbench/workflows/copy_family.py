"""Cells that are synthetic copies: equal blocks between a device and a host region, through writers and engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.host_memory import HostMemoryKind
from ecbench.measure.device_memory import CHUNK_BYTES
from ecbench.workflows.copy_cell import DIRECTIONS, KIB, CopyCell
from ecbench.workflows.copy_geometry import CopyGeometry
from ecbench.workflows.copy_session import CopySession
from ecbench.workflows.machine_axes import MACHINE_AXES, complete_machine_axes, why_not_here
from ecbench.workflows.memory import MemoryNeed, process_bytes
from ecbench.workflows.sweep_axes import LEG_AXIS, Axis, one_of, size_value, whole_number
from ecbench.workflows.target_copies import region_blocks_by_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from ecbench.core.protocols import Device
    from ecbench.measure.stages import StageClock
    from ecbench.targets.protocol import Target
    from ecbench.workflows.sweep_axes import AxisValue, AxisValues
    from ecbench.workflows.sweep_family import Cell, Devices

MAX_BLOCKS = 1 << 24
MAX_BYTE_OFFSET = 1 << 20

AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("block_size", "block_size_bytes", size_value, (7 * KIB,), "bytes of a block"),
        Axis("count", "count", whole_number(1, MAX_BLOCKS), (1024,), "blocks of a batch"),
        Axis("run_length", "run_length", whole_number(1, MAX_BLOCKS), (1,), "blocks that are neighbours on the host"),
        Axis(
            "byte_offset", "byte_offset", whole_number(0, MAX_BYTE_OFFSET), (0,), "shift of every device address, bytes"
        ),
        *MACHINE_AXES,
        Axis(LEG_AXIS, "direction", one_of("direction", tuple(DIRECTIONS)), tuple(DIRECTIONS), "which way"),
    )
}


class CopyFamily:
    """The grid over block size, count, run length, offset, host memory, writer, engine and direction."""

    workload = "copies"
    axes: Mapping[str, Axis] = AXES

    def complete(self, values: AxisValues, device: Device) -> AxisValues:
        """Replaces ``all`` by the engines that run here, and the usual host memory by what it is."""
        return complete_machine_axes(values, device)

    def cell(
        self,
        scenario: str,
        values: Mapping[str, AxisValue],
        directions: tuple[str, ...],
        devices: Devices,
        targets: Mapping[str, Target],
    ) -> CopyCell:
        """Makes one cell, and finds out whether it can run here."""
        geometry = CopyGeometry(
            block_size_bytes=int(values["block_size"]),
            blocks=int(values["count"]),
            run_length=int(values["run_length"]),
            byte_offset=int(values["byte_offset"]),
        )
        host_memory, engine = HostMemoryKind(str(values["host_memory"])), str(values["engine"])
        target = targets.get(engine)
        return CopyCell(
            scenario=scenario,
            geometry=geometry,
            coalesce=bool(values["coalesce"]),
            host_memory=host_memory,
            writer=target.writer if target else str(values["writer"]),
            engine=engine,
            directions=directions,
            skipped=_why_skipped(geometry, host_memory, engine, devices[host_memory]),
            target=target,
        )

    def memory_need(self, name: str, cells: Sequence[Cell], devices: Devices) -> MemoryNeed:
        """One arena and one region per kind of host memory, as large as its largest cell, and what checks cells."""
        runnable = _copy_cells(cells)
        kinds = {cell.host_memory for cell in runnable}
        geometries = {cell.geometry for cell in runnable}
        on_host = any(device.copies_inside_submit for device in devices.values())
        return MemoryNeed(
            case_id=name,
            host_region_bytes=sum(_region_bytes(_of_kind(runnable, kind)) for kind in kinds)
            + sum(blocks * block_bytes for (_, _, block_bytes), blocks in region_blocks_by_key(runnable).items()),
            device_bytes=sum(max(cell.geometry.arena_bytes for cell in _of_kind(runnable, kind)) for kind in kinds)
            + (0 if on_host else max((cell.copied_bytes for cell in runnable if cell.target), default=0))
            + (0 if on_host else sum(_check_bytes(_of_kind(runnable, kind)) for kind in kinds)),
            device_is_host=on_host,
            process_bytes=process_bytes() + sum(geometry.plan_bytes for geometry in geometries),
            mend="use fewer or smaller blocks",
        )

    def open(
        self, cells: Sequence[Cell], devices: Devices, seed: int, clock: StageClock
    ) -> AbstractContextManager[CopySession]:
        """Takes arenas and regions for all cells."""
        runnable = _copy_cells(cells)
        kinds = dict.fromkeys(cell.host_memory for cell in runnable)
        sizes = {
            kind: (
                max(cell.geometry.arena_bytes for cell in _of_kind(runnable, kind)),
                _region_bytes(_of_kind(runnable, kind)),
            )
            for kind in kinds
        }
        return CopySession.open(sizes, [cell for cell in runnable if cell.target], devices, seed, clock)


def _copy_cells(cells: Sequence[Cell]) -> list[CopyCell]:
    return [cell for cell in cells if isinstance(cell, CopyCell) and cell.skipped is None]


def _of_kind(cells: Sequence[CopyCell], kind: HostMemoryKind) -> list[CopyCell]:
    return [cell for cell in cells if cell.host_memory is kind]


def _region_bytes(cells: Sequence[CopyCell]) -> int:
    """The largest region that writers and engines copy to; targets bring their own."""
    return max((cell.geometry.region_bytes for cell in cells if cell.target is None), default=0)


def _check_bytes(cells: Sequence[CopyCell]) -> int:
    """What a device holds to make and check content, for every size of arena."""
    return sum(min(nbytes, CHUNK_BYTES) for nbytes in {cell.geometry.arena_bytes for cell in cells})


def _why_skipped(geometry: CopyGeometry, host_memory: HostMemoryKind, engine: str, device: Device) -> str | None:
    if geometry.run_length > geometry.blocks:
        return f"runs of {geometry.run_length} blocks are longer than a batch of {geometry.blocks}"
    return why_not_here(host_memory, engine, device)
