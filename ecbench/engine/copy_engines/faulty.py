"""A copy engine that does one thing wrong, to see that it is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ecbench.core.descriptors import Direction, PreparedCopy
from ecbench.measure.fault_injection import CopiedMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import CopyEngine, Device, Stream

_ADDRESS_MASK = (1 << 64) - 1


class FaultyEngine:
    """Lets another engine copy rightly, waits for it, and spoils the memory then.

    Of a batch over several buffers, the memory between the first source buffer and the first destination buffer is
    spoilt, and the descriptors between these two are told.

    Args:
        inner: Copies.
        device: Whose memory one side of each batch is.
        spoil: Changes the memory of a batch that was copied.
    """

    name = "faulty"

    def __init__(self, inner: CopyEngine, device: Device, spoil: Callable[[CopiedMemory], None]) -> None:
        self._inner = inner
        self._device = device
        self._spoil = spoil

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Prepares the batch with the other engine.

        Raises:
            CopyRefusedError: That engine refuses it.
        """
        prepared = self._inner.prepare(batch)

        def run(stream: Stream) -> None:
            prepared.run(stream)
            stream.synchronize()
            self._spoil_memory(batch)

        return PreparedCopy(self.name, prepared.threads, run, prepared.notes)

    def _spoil_memory(self, batch: DescriptorBatch) -> None:
        to_host = batch.direction is Direction.TO_HOST
        source = _Buffer.behind(batch.source_tensors[0], self._device if to_host else None)
        destination = _Buffer.behind(batch.destination_tensors[0], None if to_host else self._device)
        sources, destinations = source.offsets_of(batch.sources), destination.offsets_of(batch.destinations)
        here = source.holds(sources) & destination.holds(destinations)
        sizes = batch.sizes.numpy().view(np.int64)
        self._spoil(
            CopiedMemory(
                direction=batch.direction,
                source=source.content,
                destination=destination.content,
                source_offsets=sources[here],
                destination_offsets=destinations[here],
                sizes=sizes[here],
            )
        )
        source.write_back()
        destination.write_back()


class _Buffer:
    """All memory that a tensor is a part of, guards included, as bytes in host memory.

    Args:
        whole: uint8, one dimension.
        content: The same bytes where the host can reach them, else a copy.
    """

    def __init__(self, whole: Tensor, content: NDArray[np.uint8]) -> None:
        self._whole = whole
        self.content = content

    @classmethod
    def behind(cls, tensor: Tensor, device: Device | None) -> _Buffer:
        """The buffer of a tensor of a device, or of one in host memory."""
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        return cls(whole, whole.numpy() if device is None else device.memory(whole).to_host())

    def offsets_of(self, addresses: Tensor) -> NDArray[np.int64]:
        """Distances from the first byte, shape ``(n,)``; those of other buffers lie outside."""
        base = np.uint64(self._whole.data_ptr() & _ADDRESS_MASK)
        return (addresses.numpy().view(np.uint64) - base).view(np.int64)

    def holds(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which offsets lie inside."""
        return (offsets >= 0) & (offsets < len(self.content))

    def write_back(self) -> None:
        """Brings changes to where the bytes are, if they were made to a copy."""
        if self._whole.device.type != "cpu":
            self._whole.copy_(torch.from_numpy(self.content))
