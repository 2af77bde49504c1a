"""A batch of descriptors as engines take it: three arrays and the tensors they point into."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


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
