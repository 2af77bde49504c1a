"""An emulated Intel XPU: host memory whose addresses carry bit 63, described by uint64 descriptors.

It proves the address path and the bytes, not the bandwidth. Tensors of this device must never be read or written
through torch: their addresses are not mapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.host_pool import array_at
from ecbench.measure.memory import HostMemory

if TYPE_CHECKING:
    from torch import Tensor

    from ecbench.core.descriptors import Direction

TOP_BIT = 1 << 63


class XpuSimDevice(CpuDevice):
    """Host memory under high addresses."""

    name = "xpu-sim"
    description = "emulated Intel XPU"
    pointer_dtype = torch.uint64
    emulation: str | None = "xpu-sim: host memory under addresses with bit 63 set; no Intel GPU took part"

    def empty(self, nbytes: int) -> Tensor:
        """Allocates uint8, shape ``(nbytes,)``, whose ``data_ptr()`` is at least 2**63."""
        return torch.from_numpy(self._pool.take(nbytes, TOP_BIT))

    def memory(self, tensor: Tensor) -> HostMemory:
        """The bytes behind the high address."""
        return HostMemory(self.host_alias(tensor).numpy())

    def host_alias(self, tensor: Tensor) -> Tensor:
        """The same memory under its real address: uint8, one dimension; keeps the original alive."""
        return torch.from_numpy(array_at(tensor.data_ptr() & ~TOP_BIT & (2 * TOP_BIT - 1), tensor.nbytes, tensor))

    def copy_contiguous(
        self, device_tensor: Tensor, host_tensor: Tensor, nbytes: int, direction: Direction, threads: int
    ) -> float:
        """As on the CPU, on the real addresses."""
        return super().copy_contiguous(self.host_alias(device_tensor), host_tensor, nbytes, direction, threads)
