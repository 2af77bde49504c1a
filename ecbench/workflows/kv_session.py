"""KV round trips on real memory: caches that all cells of a sweep share, slots that the reference's cells share."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.errors import CopyRefusedError
from ecbench.engine.registry import open_engine
from ecbench.kv_offload.placement import place_transfers
from ecbench.targets.reference_kv import REGION_GUARD_BYTES, ReferenceKvSession
from ecbench.transfer.shared_region import create_region
from ecbench.transfer.writers import find_writer
from ecbench.workflows.kv_case import measured_copy, sample_note
from ecbench.workflows.kv_cell import DIRECTIONS, KvCell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

    from ecbench.core.host_memory import HostMemoryKind, HostRegistration
    from ecbench.core.protocols import CopyEngine, Device, KvOffloadSession, Memory
    from ecbench.kv_offload.placement import PlacedTransfers
    from ecbench.measure.rounds import MeasuredCopy
    from ecbench.measure.stages import StageClock
    from ecbench.transfer.shared_region import SharedRegion
    from ecbench.workflows.sweep_family import Cell, Devices


@dataclass(frozen=True, eq=False)
class _Memory:
    """What the cells of one kind of host memory share.

    Args:
        device: Holds the caches.
        caches: uint8, as large as the largest cell's.
        region: Host memory, likewise; each cell of the reference takes its first bytes as slots of its own size.
        registration: Of the region.
    """

    device: Device
    caches: Tensor
    region: SharedRegion
    registration: HostRegistration


@dataclass(frozen=True, eq=False)
class _Worker:
    """A cell's worker, open.

    Args:
        placed: What moves.
        caches: First bytes of the shared ones, as many as the cell's.
        session: Stores and loads.
        note: Why the shared region is not pinned, where that was asked for and the worker uses it.
    """

    placed: PlacedTransfers
    caches: Tensor
    session: KvOffloadSession
    note: str | None


class KvSession:
    """Open memory for a sweep of KV round trips. Made by `open`.

    Args:
        memory: By kind of host memory.
        seed: Decides where shuffled blocks and slots lie.
        clock: Takes the time that plans cost.
        stack: Ends the cells' own sessions.
    """

    def __init__(
        self, memory: Mapping[HostMemoryKind, _Memory], seed: int, clock: StageClock, stack: ExitStack
    ) -> None:
        self._memory = memory
        self._seed = seed
        self._clock = clock
        self._stack = stack
        self._engines: dict[tuple[HostMemoryKind, str], CopyEngine] = {}
        self._caches: dict[tuple[HostMemoryKind, int], Memory] = {}
        self._of_targets: dict[str, _Worker | CopyRefusedError] = {}

    @classmethod
    @contextmanager
    def open(
        cls,
        sizes: Mapping[HostMemoryKind, tuple[int, int]],
        of_targets: Sequence[KvCell],
        devices: Devices,
        seed: int,
        clock: StageClock,
    ) -> Iterator[KvSession]:
        """Takes caches and a region per kind of host memory, opens targets' workers, and gives all back at the end.

        Args:
            sizes: Bytes of caches and region; 0 bytes of region where targets bring theirs.
            of_targets: Cells that a target's worker copies, each in a region of its own.
            devices: The device by kind of host memory.
            seed: Decides where shuffled blocks and slots lie.
            clock: Takes the time that plans cost.

        Raises:
            DoesNotFitError: A region does not fit /dev/shm, or the caches the device.
            UnavailableError: A target cannot run here.
        """
        with ExitStack() as stack:
            memory = {kind: _take(devices[kind], *sizes[kind], stack) for kind in sizes}
            session = cls(memory, seed, clock, stack)
            session._open_targets(of_targets)
            yield session

    def copies(self, cell: Cell) -> list[MeasuredCopy]:
        """The directions of a cell over the first bytes of the shared memory.

        Raises:
            CopyRefusedError: The target's worker does not take the cell's caches.
        """
        assert isinstance(cell, KvCell)
        with self._clock.stage("plan"):
            worker = self._worker(cell)
            notes = (worker.note, sample_note(cell.planned.sample))
            return [
                measured_copy(
                    DIRECTIONS[name],
                    worker.placed,
                    worker.session,
                    worker.caches,
                    self._memory[cell.host_memory].device,
                    writer=cell.writer,
                    notes=tuple(note for note in notes if note),
                    on_device=self._caches_memory(cell.host_memory, worker.caches),
                )
                for name in cell.directions
            ]

    def _open_targets(self, cells: Sequence[KvCell]) -> None:
        """All at once: what has no room ends the sweep before its first round, a cell that is refused ends alone."""
        for cell in cells:
            try:
                self._of_targets[cell.case_id] = self._open(cell)
            except CopyRefusedError as error:
                self._of_targets[cell.case_id] = error

    def _worker(self, cell: KvCell) -> _Worker:
        if cell.target is None:
            return self._open(cell)
        worker = self._of_targets[cell.case_id]
        if isinstance(worker, CopyRefusedError):
            raise worker
        return worker

    def _caches_memory(self, kind: HostMemoryKind, caches: Tensor) -> Memory:
        """One per size: on an accelerator each holds buffers of its own."""
        key = kind, caches.nbytes
        if key not in self._caches:
            self._caches[key] = self._memory[kind].device.memory(caches)
        return self._caches[key]

    def _open(self, cell: KvCell) -> _Worker:
        memory = self._memory[cell.host_memory]
        placed = place_transfers(cell.planned.sample, cell.scenario.block_order, self._seed)
        caches = memory.caches[: placed.memory.device.nbytes]
        session = self._open_session(cell, placed, caches)
        self._stack.callback(session.close)
        return _Worker(placed, caches, session, memory.registration.note if cell.target is None else None)

    def _open_session(self, cell: KvCell, placed: PlacedTransfers, caches: Tensor) -> KvOffloadSession:
        if cell.target is None:
            return self._open_reference(cell, placed, caches)
        device = self._memory[cell.host_memory].device
        return cell.target.open_kv_offload(placed, caches, device=device, coalesce=cell.scenario.coalesce)

    def _open_reference(self, cell: KvCell, placed: PlacedTransfers, caches: Tensor) -> ReferenceKvSession:
        memory, host = self._memory[cell.host_memory], placed.memory.host
        return ReferenceKvSession(
            placed,
            caches,
            device=memory.device,
            engine=self._engine(cell),
            writer=find_writer(cell.writer),
            coalesce=cell.scenario.coalesce,
            region=memory.region.part(host.slots, host.slot_bytes),
        )

    def _engine(self, cell: KvCell) -> CopyEngine:
        key = cell.host_memory, cell.engine
        if key not in self._engines:
            self._engines[key] = open_engine(cell.engine, self._memory[cell.host_memory].device)
        return self._engines[key]


def _take(device: Device, device_bytes: int, region_bytes: int, stack: ExitStack) -> _Memory:
    region = create_region(1, max(1, region_bytes - 2 * REGION_GUARD_BYTES), REGION_GUARD_BYTES)
    stack.callback(region.close)
    registration = device.register_host(region.whole)
    stack.callback(registration.release)
    return _Memory(device, device.empty(device_bytes), region, registration)
