"""A batch of descriptors as engines take it: three arrays and the tensors they point into."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ecbench.core.protocols import Stream


class Direction(StrEnum):
    """Which way bytes go; names the side that holds device addresses."""

    TO_HOST = "to_host"
    """EC save, KV store: sources are device addresses."""
    TO_DEVICE = "to_device"
    """EC load, KV load: destinations are device addresses."""


@dataclass(frozen=True, eq=False)
class DescriptorBatch:
    """Copies by absolute address.

    Args:
        direction: Which side is the device's.
        sources: Addresses, shape ``(n,)``, int64 or uint64 by device, on the CPU.
        destinations: Addresses, same shape and dtype.
        sizes: Bytes, same shape and dtype.
        source_tensors: Every tensor a source address points into.
        destination_tensors: Every tensor a destination address points into.
    """

    direction: Direction
    sources: Tensor
    destinations: Tensor
    sizes: Tensor
    source_tensors: tuple[Tensor, ...]
    destination_tensors: tuple[Tensor, ...]

    def __len__(self) -> int:
        return int(self.sizes.numel())


@dataclass(frozen=True)
class PreparedCopy:
    """A batch that an engine has checked and translated.

    Args:
        engine: The engine that will run; one that chooses among others names its choice.
        threads: Host threads that will move bytes; 0 where the device does.
        run: Moves the bytes, or enqueues the moving of them, on a stream.
        notes: What a reader must know about the way this batch takes.
    """

    engine: str
    threads: int
    run: Callable[[Stream], None]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CopyTimes:
    """How one batched copy went.

    Args:
        total_s: Wall time from the first call until the copy was complete.
        fill_s: Seconds spent writing descriptors.
        submit_s: Seconds spent handing the batch over, without the copy where that ran inside the call.
        copy_s: Seconds between the start and the end event.
        descriptors: Copies in the batch.
        engine: The engine that ran.
        threads: Host threads that moved bytes; 0 where the device did.
        notes: What a reader must know about the way the batch took.
    """

    total_s: float
    fill_s: float
    submit_s: float
    copy_s: float
    descriptors: int
    engine: str
    threads: int
    notes: tuple[str, ...] = ()
