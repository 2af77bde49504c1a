"""Accelerators over torch's device-generic API: what runs on one kind is what runs on every other."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.descriptors import Direction
from ecbench.core.errors import DoesNotFitError, EcbenchError, UnavailableError
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.units import format_bytes
from ecbench.engine.devices.accelerator_kinds import kind_of_torch
from ecbench.engine.devices.device_faults import device_lost, out_of_memory, why_absent
from ecbench.engine.devices.host_registration import PinnedHost
from ecbench.measure.device_memory import DeviceMemory

if TYPE_CHECKING:
    from torch import Tensor

    from ecbench.core.host_memory import HostRegistration
    from ecbench.core.protocols import Event, Stream
    from ecbench.engine.devices.accelerator_kinds import AcceleratorKind

_MS_PER_S = 1000.0


class AcceleratorEvent:
    """A timed event of one device.

    Args:
        event: torch's, made with timing.
    """

    def __init__(self, event: Any) -> None:
        self._event = event

    def record(self, stream: Stream, /) -> None:
        """Marks the stream's present end."""
        self._event.record(stream)

    def query(self) -> bool:
        """Tells whether everything before the mark is done."""
        return bool(self._event.query())

    def synchronize(self) -> None:
        """Blocks until everything before the mark is done."""
        self._event.synchronize()

    def seconds_until(self, end: Event, /) -> float:
        """Seconds on the device's own clock."""
        assert isinstance(end, AcceleratorEvent)
        return float(self._event.elapsed_time(end._event)) / _MS_PER_S  # noqa: SLF001 - same class


class AcceleratorDevice:
    """One GPU.

    Args:
        kind: What sets its kind apart.
        index: Which one.
        host_memory: How the host's side is to be held.
        runtime: torch; a test gives something that records streams, events and lifetimes.
    """

    emulation: str | None = None
    copies_inside_submit = False

    def __init__(
        self,
        kind: AcceleratorKind,
        index: int,
        host_memory: HostMemoryKind = HostMemoryKind.PINNED,
        runtime: Any = torch,
    ) -> None:
        self.kind = kind
        self.name = f"{kind.torch_type}:{index}"
        self.index = index
        self.pointer_dtype = kind.pointer_dtype
        self.runtime = runtime
        self._module = runtime.get_device_module(kind.torch_type)
        # Read now: a device that is lost later must still be named in the result.
        self.description = str(self._module.get_device_properties(index).name)
        self.driver = kind.driver(runtime, index)
        self._pinned = PinnedHost(
            kind, host_memory, runtime=runtime, synchronize=self.synchronize, clear_error=self._clear_error
        )

    @property
    def pinning(self) -> str:
        """How host memory is held; says so where the driver refused."""
        return self._pinned.state

    @property
    def notes(self) -> tuple[str, ...]:
        """What sets times on this kind of device apart."""
        return self.kind.notes

    def free_bytes(self) -> int:
        """What the driver has left; torch's own cache may give more."""
        return int(self._module.mem_get_info(self.index)[0])

    def empty(self, nbytes: int) -> Tensor:
        """Allocates uint8, shape ``(nbytes,)``, from torch's caching allocator.

        Raises:
            DoesNotFitError: The device has no room; both numbers are named.
        """
        try:
            tensor: Tensor = self.runtime.empty(nbytes, dtype=torch.uint8, device=self.name)
        except self.runtime.OutOfMemoryError as error:
            raise DoesNotFitError(self._shortage(f"a buffer of {format_bytes(nbytes)}")) from error
        return tensor

    def empty_host(self, nbytes: int) -> Tensor:
        """Allocates uint8, shape ``(nbytes,)``, in host memory that the device reads and writes without staging."""
        tensor: Tensor = self.runtime.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        return tensor

    def upload(self, host: Tensor) -> Tensor:
        """Copies a small host tensor to the device, in the order of the current stream.

        Args:
            host: Contiguous, any dtype; may be dropped when this returns.
        """
        # Pinned, so that the call does not wait for the stream; torch keeps the pinned buffer until the copy ran.
        pinned = self.empty_host(host.nbytes).view(host.dtype).view(host.shape)
        pinned.copy_(host)
        return self.empty(host.nbytes).view(host.dtype).view(host.shape).copy_(pinned, non_blocking=True)

    def memory(self, tensor: Tensor) -> DeviceMemory:
        """The tensor's bytes, made and checked on the device."""
        return DeviceMemory(tensor.view(-1).view(torch.uint8), upload=self.upload, synchronize=self.synchronize)

    def current_stream(self) -> Stream:
        """The stream the model computes on."""
        stream: Stream = self.runtime.accelerator.current_stream(self.name)
        return stream

    def new_stream(self) -> Stream:
        """A stream from torch's pool; never the legacy default stream."""
        stream: Stream = self.runtime.Stream(device=self.name)
        return stream

    def new_event(self) -> AcceleratorEvent:
        """An event with timing."""
        return AcceleratorEvent(self.runtime.Event(device=self.name, enable_timing=True))

    def record_stream(self, tensor: Tensor, stream: Stream) -> None:
        """Tells the caching allocator about a use on another stream; host memory is not its own."""
        if tensor.device.type != "cpu":
            tensor.record_stream(stream)  # type: ignore[arg-type]

    def synchronize(self) -> None:
        """Blocks until everything on this device is done."""
        self.runtime.accelerator.synchronize(self.name)

    def register_host(self, tensor: Tensor) -> HostRegistration:
        """Pins the memory where the user wants it and the driver can."""
        return self._pinned.register(tensor)

    def is_pinned(self, address: int, nbytes: int) -> bool:
        """Tells whether kernels of this device may use a range of host memory."""
        return self._pinned.covers(address, nbytes)

    def copy_contiguous(
        self,
        device_tensor: Tensor,
        host_tensor: Tensor,
        nbytes: int,
        direction: Direction,
        threads: int,  # noqa: ARG002 - the protocol's signature
    ) -> float:
        """One copy between two events on a stream of its own, from or to the same host memory as the path."""
        source, destination = device_tensor[:nbytes], host_tensor[:nbytes]
        if direction is Direction.TO_DEVICE:
            source, destination = destination, source
        stream, start, end = self.new_stream(), self.new_event(), self.new_event()
        stream.wait_stream(self.current_stream())
        with stream:
            start.record(stream)
            destination.copy_(source, non_blocking=True)
            end.record(stream)
        end.synchronize()
        return start.seconds_until(end)

    def explain(self, error: RuntimeError) -> UnavailableError | None:
        """Recognises an error of this device, such as its loss; None where it is somebody else's."""
        if isinstance(error, self.runtime.OutOfMemoryError):
            return UnavailableError(self._shortage("what checking a round takes beside it"))
        return device_lost(error, self.name, self.runtime)

    def _shortage(self, what: str) -> str:
        free_bytes, total_bytes = self._module.mem_get_info(self.index)
        return out_of_memory(self.name, what, free_bytes, total_bytes)

    def _clear_error(self) -> None:
        # A refused registration stays in the runtime's "last error", and the next kernel launch would be blamed for it.
        with suppress(RuntimeError):
            self.empty(1).zero_()
            self.synchronize()


def native_handle(stream: Any) -> int:
    """The driver's handle of a stream; 0 is CUDA's legacy default stream."""
    handle = getattr(stream, "native_handle", None)
    if handle is not None:
        return int(handle)
    # torch 2.9 has the handle only on its CUDA class, which is made from the same three numbers.
    same = torch.cuda.Stream(  # type: ignore[no-untyped-call]
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )
    return int(same.cuda_stream)


def open_accelerator(
    torch_type: str, index: int | None, host_memory: HostMemoryKind, runtime: Any = torch
) -> AcceleratorDevice:
    """Opens a GPU.

    Args:
        torch_type: ``cuda`` (also ROCm) or ``xpu``.
        index: Which one; None takes the current one.
        host_memory: How the host's side is to be held.
        runtime: torch, or what stands for it in a test.

    Raises:
        UnavailableError: Torch sees no such device; the message says why and what to do.
    """
    kind = kind_of_torch(torch_type, runtime)
    module = runtime.get_device_module(torch_type)
    name = torch_type if index is None else f"{torch_type}:{index}"
    if not module.is_available():
        raise UnavailableError(
            f"device {name!r} is not available: torch {runtime.__version__} says {why_absent(kind, runtime)!r}: "
            f"{kind.mend}"
        )
    count = int(module.device_count())
    chosen = int(module.current_device()) if index is None else index
    if chosen >= count:
        raise UnavailableError(
            f"device '{torch_type}:{chosen}' is not here: torch sees {count}, "
            f"{torch_type}:0 to {torch_type}:{count - 1}"
        )
    return AcceleratorDevice(kind, chosen, host_memory, runtime)


def require_accelerator(device: object, engine: str) -> AcceleratorDevice:
    """Narrows a device for an engine that only a GPU can run.

    Raises:
        EcbenchError: The registry let another device through.
    """
    if not isinstance(device, AcceleratorDevice):
        raise EcbenchError(f"engine {engine!r} runs on accelerators only: choose another engine")
    return device
