"""Transfers in flight: submitted in order, reported when their end event has fired, buffers returned only then."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ecbench.core.descriptors import CopyTimes, DescriptorBatch
from ecbench.transfer.descriptor_arrays import DescriptorArrayPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ecbench.core.descriptors import Direction, PreparedCopy
    from ecbench.core.protocols import CopyEngine, Device, Event, Stream
    from ecbench.transfer.descriptor_arrays import DescriptorArrays

T = TypeVar("T")
LabelT = TypeVar("LabelT")


class ResourcePool(Generic[T]):
    """Reuses things that cost a driver call to make.

    Args:
        make: Makes a new one where none is free.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._free: list[T] = []

    def acquire(self) -> T:
        """Hands out the one that was released last, or a new one."""
        return self._free.pop() if self._free else self._make()

    def release(self, item: T) -> None:
        """Takes one back."""
        self._free.append(item)


@dataclass(frozen=True)
class CompletedTransfer(Generic[LabelT]):
    """A transfer whose end event has fired.

    Args:
        label: What the submitter gave.
        fill_s: Seconds spent writing descriptors.
        submit_s: Seconds spent handing the batch over, without the copy where that ran inside the call.
        copy_s: Seconds between the start and the end event.
        descriptors: Copies in the batch.
        engine: The engine that ran.
        threads: Host threads that moved bytes; 0 where the device did.
        notes: What a reader must know about the way the batch took.
    """

    label: LabelT
    fill_s: float
    submit_s: float
    copy_s: float
    descriptors: int
    engine: str
    threads: int
    notes: tuple[str, ...] = ()

    def copy_times(self, total_s: float) -> CopyTimes:
        """How the transfer went, within the wall time that its submitter saw."""
        return CopyTimes(
            total_s=total_s,
            fill_s=self.fill_s,
            submit_s=self.submit_s,
            copy_s=self.copy_s,
            descriptors=self.descriptors,
            engine=self.engine,
            threads=self.threads,
            notes=self.notes,
        )


@dataclass(frozen=True, eq=False)
class _InFlight(Generic[LabelT]):
    label: LabelT
    batch: DescriptorBatch
    prepared: PreparedCopy
    arrays: DescriptorArrays
    stream: Stream
    start: Event
    end: Event
    fill_s: float
    submit_wall_s: float


class TransferQueue(Generic[LabelT]):
    """Submits batches on streams of their own and gives everything back when they are done.

    A transfer holds its descriptor arrays and every tensor its addresses point into until its end event has fired, so a
    caller may drop its references as soon as `submit` has returned.

    Args:
        device: Makes streams and events.
        engine: Moves the bytes.
        direction: Which side of the copies is the device's.
    """

    def __init__(self, device: Device, engine: CopyEngine, direction: Direction) -> None:
        self._device = device
        self._engine = engine
        self._direction = direction
        self._arrays = DescriptorArrayPool(device.pointer_dtype)
        self._streams = ResourcePool(device.new_stream)
        self._events = ResourcePool(device.new_event)
        self._in_flight: deque[_InFlight[LabelT]] = deque()

    def __len__(self) -> int:
        return len(self._in_flight)

    @property
    def arrays(self) -> DescriptorArrayPool:
        """The pool to take descriptor arrays from."""
        return self._arrays

    def submit(
        self,
        label: LabelT,
        arrays: DescriptorArrays,
        count: int,
        *,
        sources: tuple[Tensor, ...],
        destinations: tuple[Tensor, ...],
        fill_s: float,
    ) -> Stream:
        """Starts a batch after everything the compute stream holds now.

        Args:
            label: Comes back in `CompletedTransfer`.
            arrays: Descriptors, taken from `arrays`; given back by this queue, also where the engine refuses.
            count: Descriptors in use.
            sources: Tensors the source addresses point into.
            destinations: Tensors the destination addresses point into.
            fill_s: Seconds it took to write the descriptors.

        Returns:
            The stream the copy runs on.

        Raises:
            CopyRefusedError: The engine cannot take the batch; nothing was copied and nothing is held.
        """
        source, destination, size = (tensor[:count] for tensor in arrays.tensors)
        batch = DescriptorBatch(self._direction, source, destination, size, sources, destinations)
        try:
            return self._start(label, arrays, batch, fill_s)
        except BaseException:
            self._arrays.release(arrays)
            raise

    def _start(self, label: LabelT, arrays: DescriptorArrays, batch: DescriptorBatch, fill_s: float) -> Stream:
        began = time.perf_counter()
        prepared = self._engine.prepare(batch)
        stream, start, end = self._streams.acquire(), self._events.acquire(), self._events.acquire()
        for tensor in (*batch.source_tensors, *batch.destination_tensors):
            self._device.record_stream(tensor, stream)
        stream.wait_stream(self._device.current_stream())
        start.record(stream)
        try:
            prepared.run(stream)
        except BaseException:
            # Part of the batch may be on its way: its arrays and tensors must outlive it.
            stream.synchronize()
            raise
        end.record(stream)
        wall = time.perf_counter() - began
        self._in_flight.append(_InFlight(label, batch, prepared, arrays, stream, start, end, fill_s, wall))
        return stream

    def poll(self) -> list[CompletedTransfer[LabelT]]:
        """Collects the transfers that are done, oldest first; never waits."""
        done = []
        while self._in_flight and self._in_flight[0].end.query():
            done.append(self._retire(self._in_flight.popleft()))
        return done

    def wait(self) -> list[CompletedTransfer[LabelT]]:
        """Waits until nothing is in flight and returns what was."""
        for transfer in self._in_flight:
            transfer.end.synchronize()
        return self.poll()

    def _retire(self, transfer: _InFlight[LabelT]) -> CompletedTransfer[LabelT]:
        copy_s = transfer.start.seconds_until(transfer.end)
        inside = copy_s if self._device.copies_inside_submit else 0.0
        self._events.release(transfer.start)
        self._events.release(transfer.end)
        self._streams.release(transfer.stream)
        self._arrays.release(transfer.arrays)
        return CompletedTransfer(
            label=transfer.label,
            fill_s=transfer.fill_s,
            submit_s=max(0.0, transfer.submit_wall_s - inside),
            copy_s=copy_s,
            descriptors=len(transfer.batch),
            engine=transfer.prepared.engine,
            threads=transfer.prepared.threads,
            notes=transfer.prepared.notes,
        )
