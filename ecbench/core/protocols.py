"""What a device, a copy engine and a target must offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.core.copy_plan import CopyPlan
    from ecbench.core.descriptors import CopyTimes, DescriptorBatch, Direction, PreparedCopy
    from ecbench.core.errors import UnavailableError
    from ecbench.core.host_memory import HostRegistration, SlotOrder


class Stream(Protocol):
    """An ordered queue of work on a device."""

    def wait_stream(self, other: Stream, /) -> None:
        """Makes later work on this stream wait for what the other holds now."""

    def synchronize(self) -> None:
        """Blocks until all work on the stream is done."""

    def __enter__(self) -> object:
        """Sends what torch submits inside the block to this stream, and to its device."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object:
        """Goes back to the stream before."""


class Event(Protocol):
    """A timed mark in a stream."""

    def record(self, stream: Stream, /) -> None:
        """Marks the stream's present end."""

    def query(self) -> bool:
        """Tells whether everything before the mark is done."""

    def synchronize(self) -> None:
        """Blocks until everything before the mark is done."""

    def seconds_until(self, end: Event, /) -> float:
        """Seconds between two marks that have both been reached."""


class Memory(Protocol):
    """One contiguous buffer as the verifier sees it; runs where the memory is."""

    @property
    def nbytes(self) -> int:
        """Length in bytes."""

    def write_content(self, key: int) -> None:
        """Fills the buffer with the content of a round (`ecbench.measure.content`)."""

    def poison(self) -> None:
        """Fills the buffer with the poison byte."""

    def holds_content(self, key: int) -> bool:
        """Tells whether the whole buffer still holds the content of a round."""

    def holds_copies(self, plan: CopyPlan, key: int) -> bool:
        """Tells whether each destination holds its source's content and everything else is poison."""

    def to_host(self) -> NDArray[np.uint8]:
        """The bytes, shape ``(nbytes,)``, in host memory."""


class Device(Protocol):
    """Where encoder outputs and KV caches live."""

    @property
    def name(self) -> str:
        """Name with its index where there are several."""

    @property
    def pointer_dtype(self) -> torch.dtype:
        """Type of descriptor arrays: int64 or uint64."""

    @property
    def emulation(self) -> str | None:
        """What stands in for hardware, in words."""

    @property
    def description(self) -> str:
        """The product's name, or what the device is."""

    @property
    def driver(self) -> str | None:
        """Version of the driver; None where there is none."""

    @property
    def pinning(self) -> str:
        """How host memory is made visible to the device, in words."""

    @property
    def copies_inside_submit(self) -> bool:
        """True where a submitting call returns only after the bytes have moved."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about any time taken on this device."""

    def free_bytes(self) -> int | None:
        """Memory of its own that the device has left; None where it lives in the host's."""

    def empty(self, nbytes: int) -> Tensor:
        """Allocates uint8, shape ``(nbytes,)``, from the device's pool."""

    def memory(self, tensor: Tensor) -> Memory:
        """The verifier's access to a contiguous tensor of this device."""

    def current_stream(self) -> Stream:
        """The stream the model computes on."""

    def new_stream(self) -> Stream:
        """A further stream."""

    def new_event(self) -> Event:
        """A timed event."""

    def record_stream(self, tensor: Tensor, stream: Stream) -> None:
        """Keeps the tensor's memory from being handed out again before the stream is done with it."""

    def explain(self, error: RuntimeError) -> UnavailableError | None:
        """Recognises the error of a device that failed while it was used; None where it is somebody else's."""

    def register_host(self, tensor: Tensor) -> HostRegistration:
        """Makes host memory visible to the device where it has a driver that does so; a refusal becomes a note.

        Args:
            tensor: Contiguous, in host memory; kept alive until the registration is released.
        """

    def copy_contiguous(
        self, device_tensor: Tensor, host_tensor: Tensor, nbytes: int, direction: Direction, threads: int
    ) -> float:
        """Copies the first bytes of one tensor to the other in one piece; returns the seconds it took.

        Args:
            device_tensor: uint8, contiguous, on this device.
            host_tensor: uint8, contiguous, in host memory.
            nbytes: Bytes to copy.
            direction: Which way.
            threads: Host threads to use where the host copies.
        """


class CopyEngine(Protocol):
    """A way to move a batch of descriptors. Knows no layout."""

    @property
    def name(self) -> str:
        """Registered name."""

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Checks and translates a batch; moves nothing.

        Args:
            batch: What to copy; its arrays stay alive and unchanged until the copy is done.

        Raises:
            CopyRefusedError: The engine cannot take this batch; the message says why and what can.
        """


class DescriptorWriter(Protocol):
    """A way to write addresses into descriptor arrays."""

    @property
    def name(self) -> str:
        """Registered name."""

    def write(
        self, arrays: DescriptorArrays, start: int, plan: CopyPlan, source_address: int, destination_address: int
    ) -> None:
        """Writes one descriptor per copy of a plan from index ``start`` on.

        Args:
            arrays: Where to write.
            start: First index to write.
            plan: Offsets and sizes.
            source_address: Address of the source buffer, 0 to 2**64 - 1.
            destination_address: Address of the destination buffer, 0 to 2**64 - 1.

        Raises:
            CopyRefusedError: This torch or NumPy refuses the values; the message names the exception and the mend.
        """


class DescriptorArrays(Protocol):
    """The three arrays a writer fills, as tensors and as cached NumPy views of the same memory."""

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Source addresses, destination addresses, sizes: shape ``(capacity,)``, the device's pointer dtype."""

    @property
    def views(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """The same memory as uint64."""


class EncoderCacheSession(Protocol):
    """One encoder-cache connector, opened for a case: a region, its blocks and a worker."""

    @property
    def region(self) -> Tensor:
        """All blocks with the guard bytes around them: uint8, shape ``(bytes,)``, in host memory."""

    @property
    def blocks_offset(self) -> int:
        """Offset of block 0 in `region`, in bytes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about how the region is held."""

    def block_ids(self, key: str) -> Sequence[int]:
        """Blocks of an entry, in order."""

    def save(self, outputs: Mapping[str, Tensor]) -> CopyTimes:
        """Saves entries in one batch and waits until it is done."""

    def load(self, shapes: Mapping[str, tuple[int, ...]]) -> CopyTimes:
        """Loads entries in one batch into what `allocate` gives, and waits until it is done."""

    def close(self) -> None:
        """Releases the region and everything else; may be called twice."""


class KvOffloadSession(Protocol):
    """One KV offload worker, opened for a store and a load of one request."""

    @property
    def region(self) -> Tensor:
        """All host slots with the guard bytes around them: uint8, shape ``(bytes,)``, in host memory."""

    @property
    def slots_offset(self) -> int:
        """Offset of slot 0 in `region`, in bytes."""

    @property
    def slot_order(self) -> SlotOrder:
        """In which order a slot holds the pages of a chunk."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about how the region is held."""

    def store(self) -> CopyTimes:
        """Stores every chunk of the request in one batch and waits until it is done."""

    def load(self) -> CopyTimes:
        """Loads what the request hits in one batch and waits until it is done."""

    def close(self) -> None:
        """Releases the region and everything else; may be called twice."""
