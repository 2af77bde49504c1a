"""ecbench's own KV offload worker as a target."""

from __future__ import annotations

import mmap
import time
from typing import TYPE_CHECKING

from ecbench.core.host_memory import SlotOrder
from ecbench.kv_offload.worker import KvOffloadWorker
from ecbench.transfer.shared_region import create_region

if TYPE_CHECKING:
    from torch import Tensor

    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import CopyEngine, DescriptorWriter, Device
    from ecbench.kv_offload.placement import PlacedTransfers
    from ecbench.transfer.shared_region import SharedRegion

REGION_GUARD_BYTES = mmap.PAGESIZE
_JOB = "request"


class ReferenceKvSession:
    """The reference worker, opened for one store and one load.

    Args:
        placed: What moves, and the memory it lies in.
        caches: Device memory: uint8, shape ``(placed.memory.device.nbytes,)``.
        device: Holds the caches.
        engine: Moves bytes.
        writer: Writes descriptors.
        coalesce: Joins copies that continue each other.
        region: Host slots that the caller has registered; closed with the session. None creates and registers them.

    Raises:
        DoesNotFitError: The slots do not fit /dev/shm.
    """

    def __init__(
        self,
        placed: PlacedTransfers,
        caches: Tensor,
        *,
        device: Device,
        engine: CopyEngine,
        writer: DescriptorWriter,
        coalesce: bool,
        region: SharedRegion | None = None,
    ) -> None:
        self._placed = placed
        host = placed.memory.host
        self._region = region or create_region(host.slots, host.slot_bytes, REGION_GUARD_BYTES)
        self._registration = device.register_host(self._region.whole) if region is None else None
        self._worker = KvOffloadWorker(
            placed.memory, self._region, caches, device=device, engine=engine, writer=writer, coalesce=coalesce
        )

    @property
    def region(self) -> Tensor:
        """Guard, slots, guard: uint8, in host memory."""
        return self._region.whole

    @property
    def slots_offset(self) -> int:
        """Where slot 0 begins."""
        return self._region.guard_bytes

    @property
    def slot_order(self) -> SlotOrder:
        """Block by block."""
        return SlotOrder.BLOCKS

    @property
    def notes(self) -> tuple[str, ...]:
        """Why the region is not pinned, where that was asked for."""
        return (self._registration.note,) if self._registration and self._registration.note else ()

    def store(self) -> CopyTimes:
        """One job that stores every chunk."""
        began = time.perf_counter()
        self._worker.store(_JOB, self._placed.stores)
        (transfer,) = self._worker.wait().stores
        return transfer.copy_times(time.perf_counter() - began)

    def load(self) -> CopyTimes:
        """One job that loads what the replay hits."""
        began = time.perf_counter()
        self._worker.load(_JOB, self._placed.loads)
        (transfer,) = self._worker.wait().loads
        return transfer.copy_times(time.perf_counter() - began)

    def close(self) -> None:
        """Shuts the worker down, and the region with it; the driver lets go only when no copy is in flight."""
        try:
            self._worker.shutdown()
        finally:
            if self._registration is not None:
                self._registration.release()
