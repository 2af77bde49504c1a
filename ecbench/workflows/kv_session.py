"""KV round trips on real memory: caches and slots that all cells of a sweep share, through the reference worker."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.engine.registry import open_engine
from ecbench.kv_offload.placement import place_transfers
from ecbench.targets.reference_kv import REGION_GUARD_BYTES, ReferenceKvSession
from ecbench.transfer.shared_region import create_region
from ecbench.transfer.writers import find_writer
from ecbench.workflows.kv_case import measured_copy, sample_note
from ecbench.workflows.kv_cell import DIRECTIONS, KvCell, KvWork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from ecbench.core.host_memory import HostMemoryKind, HostRegistration
    from ecbench.core.protocols import CopyEngine, Device, Memory
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
        region: Host memory, likewise; each cell takes its first bytes as slots of its own size.
        registration: Of the region.
    """

    device: Device
    caches: Tensor
    region: SharedRegion
    registration: HostRegistration


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

    @classmethod
    @contextmanager
    def open(
        cls, sizes: Mapping[HostMemoryKind, tuple[int, int]], devices: Devices, seed: int, clock: StageClock
    ) -> Iterator[KvSession]:
        """Takes caches and a region per kind of host memory and gives them back at the end.

        Args:
            sizes: Bytes of caches and region.
            devices: The device by kind of host memory.
            seed: Decides where shuffled blocks and slots lie.
            clock: Takes the time that plans cost.

        Raises:
            DoesNotFitError: The region does not fit /dev/shm, or the caches the device.
        """
        with ExitStack() as stack:
            memory = {kind: _take(devices[kind], *sizes[kind], stack) for kind in sizes}
            yield cls(memory, seed, clock, stack)

    def copies(self, cell: Cell) -> list[MeasuredCopy]:
        """The directions of a cell over the first bytes of the shared memory."""
        assert isinstance(cell, KvCell)
        assert isinstance(cell.work, KvWork)
        with self._clock.stage("plan"):
            placed = place_transfers(cell.work.sample, cell.scenario.block_order, self._seed)
            memory = self._memory[cell.host_memory]
            caches = memory.caches[: placed.memory.device.nbytes]
            session = self._open_session(cell, placed, caches)
            notes = tuple(note for note in (memory.registration.note, sample_note(cell.work.sample)) if note)
            return [
                measured_copy(
                    DIRECTIONS[name],
                    placed,
                    session,
                    caches,
                    memory.device,
                    writer=cell.writer,
                    notes=notes,
                    on_device=self._caches_memory(cell.host_memory, caches),
                )
                for name in cell.directions
            ]

    def _caches_memory(self, kind: HostMemoryKind, caches: Tensor) -> Memory:
        """One per size: on an accelerator each holds buffers of its own."""
        key = kind, caches.nbytes
        if key not in self._caches:
            self._caches[key] = self._memory[kind].device.memory(caches)
        return self._caches[key]

    def _open_session(self, cell: KvCell, placed: PlacedTransfers, caches: Tensor) -> ReferenceKvSession:
        memory, host = self._memory[cell.host_memory], placed.memory.host
        session = ReferenceKvSession(
            placed,
            caches,
            device=memory.device,
            engine=self._engine(cell),
            writer=find_writer(cell.writer),
            coalesce=cell.scenario.coalesce,
            region=memory.region.part(host.slots, host.slot_bytes),
        )
        self._stack.callback(session.close)
        return session

    def _engine(self, cell: KvCell) -> CopyEngine:
        key = cell.host_memory, cell.engine
        if key not in self._engines:
            self._engines[key] = open_engine(cell.engine, self._memory[cell.host_memory].device)
        return self._engines[key]


def _take(device: Device, device_bytes: int, region_bytes: int, stack: ExitStack) -> _Memory:
    region = create_region(1, region_bytes - 2 * REGION_GUARD_BYTES, REGION_GUARD_BYTES)
    stack.callback(region.close)
    registration = device.register_host(region.whole)
    stack.callback(registration.release)
    return _Memory(device, device.empty(device_bytes), region, registration)
