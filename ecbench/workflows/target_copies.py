"""Synthetic copies through a target's own worker, over regions that all cells of one block size share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.measure.memory import HostMemory
from ecbench.measure.rounds import MeasuredCopy
from ecbench.targets.protocol import BlockTarget
from ecbench.workflows.copy_cell import DIRECTIONS, CopyCell
from ecbench.workflows.copy_geometry import GUARD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from torch import Tensor

    from ecbench.core.host_memory import HostMemoryKind
    from ecbench.core.protocols import Device, Memory
    from ecbench.targets.protocol import BlockCopies

    RegionKey = tuple[str, HostMemoryKind, int]
    """Target, how host memory is held, and bytes of a block."""


def region_blocks_by_key(cells: Sequence[CopyCell]) -> dict[RegionKey, int]:
    """Blocks of the regions that the cells of targets need: one region per block size, as large as its largest cell.

    Args:
        cells: Of any target; those that bring no region of their own count for nothing.
    """
    blocks: dict[RegionKey, int] = {}
    for cell in cells:
        if cell.target is not None:
            key = cell.target.name, cell.host_memory, cell.geometry.block_size_bytes
            blocks[key] = max(blocks.get(key, 0), cell.geometry.region_blocks)
    return blocks


@dataclass(frozen=True, eq=False)
class TargetRegions:
    """Open workers of targets.

    Args:
        workers: By target, host memory and block size.
        seed: Decides the order of runs.
    """

    workers: Mapping[RegionKey, BlockCopies]
    seed: int

    @classmethod
    def open(
        cls, cells: Sequence[CopyCell], devices: Mapping[HostMemoryKind, Device], seed: int, stack: ExitStack
    ) -> TargetRegions:
        """Opens what cells need.

        Args:
            cells: Cells that can run.
            devices: The device by kind of host memory.
            seed: Decides the order of runs.
            stack: Closes the workers.

        Raises:
            DoesNotFitError: A region does not fit /dev/shm.
        """
        targets = {cell.target.name: cell.target for cell in cells if cell.target is not None}
        workers: dict[RegionKey, BlockCopies] = {}
        for (name, kind, block_bytes), blocks in region_blocks_by_key(cells).items():
            target = targets[name]
            assert isinstance(target, BlockTarget)
            worker = target.open_blocks(block_bytes, blocks, device=devices[kind])
            stack.callback(worker.close)
            workers[name, kind, block_bytes] = worker
        return cls(workers, seed)

    def copies(self, cell: CopyCell, device: Device, arena: Tensor, on_device: Memory) -> list[MeasuredCopy]:
        """The directions of a target's cell.

        Args:
            cell: Which one.
            device: Holds the arena.
            arena: Device memory of the cell, guards included.
            on_device: The same as content is made and checked there.
        """
        assert cell.target is not None
        worker = self.workers[cell.target.name, cell.host_memory, cell.geometry.block_size_bytes]
        region = worker.region[: cell.geometry.region_blocks * cell.geometry.block_size_bytes]
        sides = _Sides(device, arena, region, on_device, HostMemory(region.numpy()))
        return [_measured(cell, name, worker, sides, self.seed) for name in cell.directions]


@dataclass(frozen=True, eq=False)
class _Sides:
    """The memory of a cell, as tensors and as the verifier sees it."""

    device: Device
    arena: Tensor
    region: Tensor
    on_device: Memory
    on_host: Memory


def _measured(cell: CopyCell, name: str, worker: BlockCopies, sides: _Sides, seed: int) -> MeasuredCopy:
    geometry, direction, device = cell.geometry, DIRECTIONS[name], sides.device
    saving = direction is Direction.TO_HOST
    plan = _without_host_guards(geometry.plan(direction, seed), direction, sides.region.nbytes)
    on_host = plan.destination_offsets if saving else plan.source_offsets
    block_ids = (on_host // geometry.block_size_bytes).tolist()
    begin = GUARD_BYTES + geometry.byte_offset
    blocks = sides.arena[begin : begin + geometry.copied_bytes]
    notes = (device.emulation, *device.notes, *worker.notes)

    def ceiling(threads: int) -> float:
        return device.copy_contiguous(sides.arena, sides.region, geometry.copied_bytes, direction, threads)

    return MeasuredCopy(
        direction=name,
        plan=plan,
        source=sides.on_device if saving else sides.on_host,
        destination=sides.on_host if saving else sides.on_device,
        run=(lambda: worker.save(blocks, block_ids)) if saving else (lambda: worker.load(block_ids, blocks)),
        ceiling=ceiling,
        notes=tuple(note for note in notes if note),
        writer=cell.writer,
    )


def _without_host_guards(plan: CopyPlan, direction: Direction, region_bytes: int) -> CopyPlan:
    """The same copies where block 0 begins the region."""
    sources, destinations = plan.source_offsets, plan.destination_offsets
    if direction is Direction.TO_HOST:
        return CopyPlan(sources, destinations - GUARD_BYTES, plan.sizes, plan.source_bytes, region_bytes)
    return CopyPlan(sources - GUARD_BYTES, destinations, plan.sizes, region_bytes, plan.destination_bytes)
