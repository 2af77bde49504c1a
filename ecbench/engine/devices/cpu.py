"""Host to host: the reference device. Proves bytes and measures our own overhead, no hardware."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING

import torch

from ecbench.core.descriptors import Direction
from ecbench.core.host_memory import NoRegistration
from ecbench.engine.devices.host_pool import HostPool
from ecbench.measure.memory import HostMemory

if TYPE_CHECKING:
    from types import TracebackType

    from torch import Tensor

    from ecbench.core.protocols import Event, Stream


class HostStream:
    """A stream of a device whose copies run inside the submitting call: always empty."""

    def wait_stream(self, other: Stream, /) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def __enter__(self) -> None:
        """Nothing to change: there is one stream."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Nothing to change back."""


class HostEvent:
    """A mark on the wall clock."""

    def __init__(self) -> None:
        self._time_s = 0.0

    def record(self, stream: Stream, /) -> None:  # noqa: ARG002 - the protocol's signature
        """Notes the time."""
        self._time_s = time.perf_counter()

    def query(self) -> bool:
        """Whatever was recorded is done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def seconds_until(self, end: Event, /) -> float:
        """Wall time between two marks."""
        assert isinstance(end, HostEvent)
        return end._time_s - self._time_s  # noqa: SLF001 - same class


class CpuDevice:
    """Device memory is pooled host memory; streams are empty and events read the wall clock."""

    name = "cpu"
    description = "host memory to host memory"
    driver: str | None = None
    pinning = "none: host to host"
    pointer_dtype = torch.int64
    emulation: str | None = None
    copies_inside_submit = True
    notes: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._pool = HostPool()
        self._stream = HostStream()

    def free_bytes(self) -> None:
        """The host's memory is counted where the host's is."""

    def empty(self, nbytes: int) -> Tensor:
        """Allocates uint8, shape ``(nbytes,)``, with its pages present."""
        return torch.from_numpy(self._pool.take(nbytes))

    def memory(self, tensor: Tensor) -> HostMemory:
        """The tensor's own bytes."""
        return HostMemory(tensor.view(-1).view(torch.uint8).numpy())

    def current_stream(self) -> HostStream:
        """The one stream there is."""
        return self._stream

    def new_stream(self) -> HostStream:
        """The one stream there is."""
        return self._stream

    def new_event(self) -> HostEvent:
        """A mark on the wall clock."""
        return HostEvent()

    def record_stream(self, tensor: Tensor, stream: Stream) -> None:
        """Nothing to record: a copy is done when its call returns."""

    def explain(self, error: RuntimeError) -> None:
        """No device that could fail."""

    def register_host(self, tensor: Tensor) -> NoRegistration:  # noqa: ARG002 - the protocol's signature
        """No driver takes part."""
        return NoRegistration()

    def copy_contiguous(
        self, device_tensor: Tensor, host_tensor: Tensor, nbytes: int, direction: Direction, threads: int
    ) -> float:
        """One memmove, or one torch copy where several threads are asked for."""
        source, destination = device_tensor[:nbytes], host_tensor[:nbytes]
        if direction is Direction.TO_DEVICE:
            source, destination = destination, source
        began = time.perf_counter()
        if threads == 1:
            ctypes.memmove(destination.data_ptr(), source.data_ptr(), nbytes)
        else:
            destination.copy_(source)
        return time.perf_counter() - began
