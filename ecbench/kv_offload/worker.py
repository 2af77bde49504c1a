"""The worker side of KV offloading: stores blocks of the device in host slots and loads them back.

A job is all that one request stores or loads at once, of every group: one batch of descriptors, one stream, one report.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.copy_plan import merge_adjacent
from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.transfers import CopyPlanner
from ecbench.transfer.addresses import address_of
from ecbench.transfer.queue import CompletedTransfer, TransferQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from ecbench.core.protocols import CopyEngine, DescriptorWriter, Device, Stream
    from ecbench.kv_offload.transfers import GroupTransfer, KvMemory
    from ecbench.transfer.shared_region import SharedRegion


@dataclass(frozen=True)
class FinishedJobs:
    """What ended since the last poll.

    Args:
        stored: Jobs whose bytes are in the host slots.
        loaded: Jobs whose bytes are on the device.
        stores: The batches behind ``stored``; a job that had nothing to move has none.
        loads: The batches behind ``loaded``.
    """

    stored: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    stores: tuple[CompletedTransfer[str], ...] = ()
    loads: tuple[CompletedTransfer[str], ...] = ()


class KvOffloadWorker:
    """Moves cache blocks between a device and a shared region of host slots.

    Args:
        memory: Where blocks and chunks lie.
        region: A block of it per host slot; closed by `shutdown`.
        caches: Device memory as `DeviceBlocks` describes it: uint8, shape ``(memory.device.nbytes,)``.
        device: Holds the caches.
        engine: Moves bytes.
        writer: Writes descriptors.
        coalesce: Joins copies that continue each other on both sides.
        rank: Tensor-parallel rank; decides which part of a slot is its own. Where all share one, rank 0 stores.

    Raises:
        EcbenchError: A region or caches of other sizes, or a rank without a part.
    """

    def __init__(
        self,
        memory: KvMemory,
        region: SharedRegion,
        caches: Tensor,
        *,
        device: Device,
        engine: CopyEngine,
        writer: DescriptorWriter,
        coalesce: bool = True,
        rank: int = 0,
    ) -> None:
        _refuse_other_sizes(memory, region, caches)
        self._planner = CopyPlanner(memory, rank)
        self._stores_here = rank == 0 or memory.host.copies > 1
        self._region = region
        self._slots = region.blocks.view(-1)
        self._caches = caches
        self._device = device
        self._writer = writer
        self._coalesce = coalesce
        self._stores: TransferQueue[str] = TransferQueue(device, engine, Direction.TO_HOST)
        self._loads: TransferQueue[str] = TransferQueue(device, engine, Direction.TO_DEVICE)
        self._stored_without_copy: list[str] = []
        self._loaded_without_copy: list[str] = []

    def store(self, job: str, transfers: Sequence[GroupTransfer]) -> None:
        """Stores blocks, after everything the compute stream holds now.

        Args:
            job: Comes back when the bytes are there.
            transfers: What to store; the blocks must not be written before that.

        Raises:
            EcbenchError: Transfers that do not fit the memory.
            CopyRefusedError: The writer or the engine refuses the batch.
        """
        if not self._stores_here or self._submit(self._stores, job, transfers, Direction.TO_HOST) is None:
            self._stored_without_copy.append(job)

    def load(self, job: str, transfers: Sequence[GroupTransfer]) -> None:
        """Loads blocks; the compute stream waits for them.

        Args:
            job: Comes back when the bytes are there.
            transfers: What to load; the slots must not be reused before that.

        Raises:
            EcbenchError: Transfers that do not fit the memory, or a block that is loaded twice.
            CopyRefusedError: The writer or the engine refuses the batch.
        """
        stream = self._submit(self._loads, job, transfers, Direction.TO_DEVICE)
        if stream is None:
            self._loaded_without_copy.append(job)
            return
        self._device.current_stream().wait_stream(stream)

    def poll(self) -> FinishedJobs:
        """Reports what ended since the last call; never waits."""
        return self._report(self._stores.poll(), self._loads.poll())

    def wait(self) -> FinishedJobs:
        """Reports everything that was in flight, when it is done."""
        return self._report(self._stores.wait(), self._loads.wait())

    def shutdown(self) -> None:
        """Waits for copies in flight and closes the region, also where waiting fails. May be called twice."""
        try:
            self._stores.wait()
            self._loads.wait()
        finally:
            self._region.close()

    def _submit(
        self, queue: TransferQueue[str], job: str, transfers: Sequence[GroupTransfer], direction: Direction
    ) -> Stream | None:
        """Starts a batch; None where there is nothing to move."""
        began = time.perf_counter()
        plan = self._planner.plan(transfers, direction)
        if not len(plan):
            return None
        if self._coalesce:
            plan = merge_adjacent(plan)
        source, destination = self._caches, self._slots
        if direction is Direction.TO_DEVICE:
            source, destination = destination, source
        arrays = queue.arrays.acquire(len(plan))
        try:
            self._writer.write(arrays, 0, plan, address_of(source), address_of(destination))
        except BaseException:
            queue.arrays.release(arrays)
            raise
        fill_s = time.perf_counter() - began
        return queue.submit(job, arrays, len(plan), sources=(source,), destinations=(destination,), fill_s=fill_s)

    def _report(self, stores: list[CompletedTransfer[str]], loads: list[CompletedTransfer[str]]) -> FinishedJobs:
        stored = [transfer.label for transfer in stores] + self._stored_without_copy
        loaded = [transfer.label for transfer in loads] + self._loaded_without_copy
        self._stored_without_copy, self._loaded_without_copy = [], []
        return FinishedJobs(tuple(stored), tuple(loaded), tuple(stores), tuple(loads))


def _refuse_other_sizes(memory: KvMemory, region: SharedRegion, caches: Tensor) -> None:
    host, device = memory.host, memory.device
    if (region.num_blocks, region.block_size_bytes) != (host.slots, host.slot_bytes):
        raise EcbenchError(
            f"region of {region.num_blocks} x {region.block_size_bytes} bytes for {host.slots} host slots of "
            f"{host.slot_bytes} bytes: create it with these numbers"
        )
    if caches.nbytes != device.nbytes:
        raise EcbenchError(f"device memory of {caches.nbytes} bytes for caches of {device.nbytes}: allocate these")
