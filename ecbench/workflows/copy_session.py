"""Synthetic copies on real memory: an arena and a region that all cells share, through the transfer room."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.descriptors import CopyTimes, Direction
from ecbench.engine.registry import open_engine
from ecbench.measure.memory import HostMemory
from ecbench.measure.rounds import MeasuredCopy
from ecbench.transfer.addresses import address_of
from ecbench.transfer.queue import TransferQueue
from ecbench.transfer.shared_region import create_region
from ecbench.transfer.writers import find_writer
from ecbench.workflows.copy_cell import DIRECTIONS, CopyCell
from ecbench.workflows.copy_geometry import GUARD_BYTES, CopyGeometry, descriptors_of
from ecbench.workflows.target_copies import TargetRegions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

    from ecbench.core.copy_plan import CopyPlan
    from ecbench.core.host_memory import HostMemoryKind, HostRegistration
    from ecbench.core.protocols import CopyEngine, DescriptorWriter, Device, Memory
    from ecbench.measure.stages import StageClock
    from ecbench.workflows.sweep_family import Cell, Devices


@dataclass(frozen=True, eq=False)
class _Memory:
    """What the cells of one kind of host memory share.

    Args:
        device: Holds the arena.
        arena: uint8, as large as the largest cell's.
        region: uint8, in host memory, likewise.
        registration: Of the region.
    """

    device: Device
    arena: Tensor
    region: Tensor
    registration: HostRegistration


class CopySession:
    """Open memory for a sweep of synthetic copies. Made by `open`.

    Args:
        memory: By kind of host memory.
        targets: Workers of targets.
        seed: Decides the order of runs.
        clock: Takes the time that plans cost.
    """

    def __init__(
        self, memory: Mapping[HostMemoryKind, _Memory], targets: TargetRegions, seed: int, clock: StageClock
    ) -> None:
        self._memory = memory
        self._targets = targets
        self._seed = seed
        self._clock = clock
        self._plans: dict[tuple[CopyGeometry, Direction, bool], CopyPlan] = {}
        self._queues: dict[tuple[HostMemoryKind, str, Direction], TransferQueue[None]] = {}
        self._engines: dict[tuple[HostMemoryKind, str], CopyEngine] = {}
        self._arenas: dict[tuple[HostMemoryKind, int], Memory] = {}

    @classmethod
    @contextmanager
    def open(
        cls,
        sizes: Mapping[HostMemoryKind, tuple[int, int]],
        of_targets: Sequence[CopyCell],
        devices: Devices,
        seed: int,
        clock: StageClock,
    ) -> Iterator[CopySession]:
        """Takes an arena and a region per kind of host memory and gives them back at the end.

        Args:
            sizes: Bytes of arena and region; 0 bytes of region where targets bring theirs.
            of_targets: Cells that a target's worker copies.
            devices: The device by kind of host memory.
            seed: Decides the order of runs.
            clock: Takes the time that plans cost.

        Raises:
            DoesNotFitError: The region does not fit /dev/shm, or the arena the device.
        """
        with ExitStack() as stack:
            memory = {kind: _take(devices[kind], *sizes[kind], stack) for kind in sizes}
            yield cls(memory, TargetRegions.open(of_targets, devices, seed, stack), seed, clock)

    def copies(self, cell: Cell) -> list[MeasuredCopy]:
        """The directions of a cell over the first bytes of the shared memory."""
        assert isinstance(cell, CopyCell)
        with self._clock.stage("plan"):
            if cell.target is not None:
                memory = self._memory[cell.host_memory]
                arena = memory.arena[: cell.geometry.arena_bytes]
                return self._targets.copies(cell, memory.device, arena, self._arena_memory(cell.host_memory, arena))
            return [self._measured(cell, name, DIRECTIONS[name]) for name in cell.directions]

    def _measured(self, cell: CopyCell, name: str, direction: Direction) -> MeasuredCopy:
        memory, geometry = self._memory[cell.host_memory], cell.geometry
        arena, region = memory.arena[: geometry.arena_bytes], memory.region[: geometry.region_bytes]
        on_device, on_host = self._arena_memory(cell.host_memory, arena), HostMemory(region.numpy())
        saving = direction is Direction.TO_HOST
        source, destination = (arena, region) if saving else (region, arena)
        transfer = _Transfer(
            queue=self._queue(cell, direction),
            writer=find_writer(cell.writer),
            plan=self._plan(geometry, direction, coalesce=cell.coalesce),
            source=source,
            destination=destination,
        )
        device, nbytes = memory.device, geometry.copied_bytes
        notes = (device.emulation, *device.notes, memory.registration.note)
        return MeasuredCopy(
            direction=name,
            plan=self._plan(geometry, direction, coalesce=False),
            source=on_device if saving else on_host,
            destination=on_host if saving else on_device,
            run=transfer.run,
            ceiling=lambda threads: device.copy_contiguous(arena, region, nbytes, direction, threads),
            notes=tuple(note for note in notes if note),
            writer=cell.writer,
        )

    def _arena_memory(self, kind: HostMemoryKind, arena: Tensor) -> Memory:
        """Access for the verifier, once per size: on a device it holds as much memory again, up to a chunk."""
        key = kind, arena.numel()
        if key not in self._arenas:
            self._arenas[key] = self._memory[kind].device.memory(arena)
        return self._arenas[key]

    def _plan(self, geometry: CopyGeometry, direction: Direction, *, coalesce: bool) -> CopyPlan:
        key = geometry, direction, coalesce
        if key not in self._plans:
            blocks = (
                self._plan(geometry, direction, coalesce=False) if coalesce else geometry.plan(direction, self._seed)
            )
            self._plans[key] = descriptors_of(blocks, coalesce)
        return self._plans[key]

    def _queue(self, cell: CopyCell, direction: Direction) -> TransferQueue[None]:
        key = cell.host_memory, cell.engine, direction
        if key not in self._queues:
            self._queues[key] = TransferQueue(self._memory[cell.host_memory].device, self._engine(cell), direction)
        return self._queues[key]

    def _engine(self, cell: CopyCell) -> CopyEngine:
        key = cell.host_memory, cell.engine
        if key not in self._engines:
            self._engines[key] = open_engine(cell.engine, self._memory[cell.host_memory].device)
        return self._engines[key]


def _take(device: Device, arena_bytes: int, region_bytes: int, stack: ExitStack) -> _Memory:
    region = create_region(1, max(1, region_bytes - 2 * GUARD_BYTES), GUARD_BYTES)
    stack.callback(region.close)
    registration = device.register_host(region.whole)
    stack.callback(registration.release)
    return _Memory(device, device.empty(arena_bytes), region.whole, registration)


@dataclass(frozen=True, eq=False)
class _Transfer:
    """One batch through writer, queue and engine, as a connector's worker sends it."""

    queue: TransferQueue[None]
    writer: DescriptorWriter
    plan: CopyPlan
    source: Tensor
    destination: Tensor

    def run(self) -> CopyTimes:
        began = time.perf_counter()
        arrays = self.queue.arrays.acquire(len(self.plan))
        try:
            self.writer.write(arrays, 0, self.plan, address_of(self.source), address_of(self.destination))
        except BaseException:
            self.queue.arrays.release(arrays)
            raise
        fill_s = time.perf_counter() - began
        self.queue.submit(
            None, arrays, len(self.plan), sources=(self.source,), destinations=(self.destination,), fill_s=fill_s
        )
        (transfer,) = self.queue.wait()
        return CopyTimes(
            total_s=time.perf_counter() - began,
            fill_s=transfer.fill_s,
            submit_s=transfer.submit_s,
            copy_s=transfer.copy_s,
            descriptors=transfer.descriptors,
            engine=transfer.engine,
            threads=transfer.threads,
            notes=transfer.notes,
        )
