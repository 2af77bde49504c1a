"""What a device, a copy engine and a target must offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import torch
    from numpy.typing import NDArray
    import numpy as np
    from torch import Tensor

    from ecbench.core.copy_plan import CopyPlan
    from ecbench.core.descriptors import DescriptorBatch, Direction


class Stream(Protocol):
    """An ordered queue of work on a device."""

    def wait_stream(self, other: Stream, /) -> None:
        """Makes later work on this stream wait for what the other holds now."""

    def synchronize(self) -> None:
        """Blocks until all work on the stream is done."""


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
        """dtype of descriptor arrays: int64 or uint64."""

    @property
    def emulation(self) -> str | None:
        """What stands in for hardware, in words."""

    @property
    def copies_inside_submit(self) -> bool:
        """True where a submitting call returns only after the bytes have moved."""

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

    def copy_contiguous(self, device_tensor: Tensor, host_tensor: Tensor, nbytes: int, direction: Direction) -> float:
        """Copies the first bytes of one tensor to the other in one piece and returns the seconds it took."""


class CopyEngine(Protocol):
    """A way to move a batch of descriptors. Knows no layout."""

    @property
    def name(self) -> str:
        """Registered name."""

    @property
    def threads(self) -> int:
        """Host threads that move bytes; 0 where the device does."""

    def prepare(self, batch: DescriptorBatch) -> Callable[[Stream], None]:
        """Checks and translates a batch.

        Args:
            batch: What to copy; its arrays stay alive and unchanged until the copy is done.

        Returns:
            A call that moves the bytes, or enqueues the moving of them, on a stream.

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
        """All blocks with the guard bytes around them: uint8, shape ``(bytes,)``."""

    def save(self, outputs: Mapping[str, Tensor]) -> CopyTimes:
        """Saves all entries in one batch and waits until it is done."""

    def load(self, keys: Iterable[str]) -> CopyTimes:
        """Loads entries in one batch and waits until it is done."""

    def close(self) -> None:
        """Releases the region and everything else; may be called twice."""


class CopyTimes(Protocol):
    """How long the parts of one batched copy took."""

    fill_s: float
    submit_s: float
    copy_s: float
    descriptors: int
