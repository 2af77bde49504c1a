"""Resolves the emulated XPU's addresses before a host engine moves the bytes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import torch

from ecbench.core.descriptors import Direction
from ecbench.core.errors import CopyRefusedError
from ecbench.engine.devices.xpu_sim import TOP_BIT

if TYPE_CHECKING:
    from torch import Tensor

    from ecbench.core.descriptors import DescriptorBatch, PreparedCopy
    from ecbench.core.protocols import CopyEngine
    from ecbench.engine.devices.xpu_sim import XpuSimDevice


class HighAddressEngine:
    """A host engine behind the emulated address space: device addresses must carry bit 63, host addresses must not.

    Args:
        inner: Moves the bytes.
        device: Owns the address space.
    """

    def __init__(self, inner: CopyEngine, device: XpuSimDevice) -> None:
        self._inner = inner
        self._device = device

    @property
    def name(self) -> str:
        """The host engine's name."""
        return self._inner.name

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Strips bit 63 from the device's side.

        Raises:
            CopyRefusedError: Arrays that are not uint64, a device address without bit 63, or a host address with it.
        """
        if batch.sources.dtype is not torch.uint64:
            raise CopyRefusedError(
                f"device xpu-sim takes uint64 descriptors, not {batch.sources.dtype}: use its pointer dtype"
            )
        if batch.direction is Direction.TO_HOST:
            _refuse_device_address("destination", batch.destinations)
            resolved = dataclasses.replace(
                batch, sources=_strip("source", batch.sources), source_tensors=self._aliases(batch.source_tensors)
            )
        else:
            _refuse_device_address("source", batch.sources)
            resolved = dataclasses.replace(
                batch,
                destinations=_strip("destination", batch.destinations),
                destination_tensors=self._aliases(batch.destination_tensors),
            )
        return self._inner.prepare(resolved)

    def _aliases(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(self._device.host_alias(tensor) for tensor in tensors)


def _strip(side: str, column: Tensor) -> Tensor:
    addresses = column.numpy()
    low = addresses < np.uint64(TOP_BIT)
    if low.any():
        raise CopyRefusedError(
            f"device xpu-sim: {side} of descriptor {int(low.argmax())} lacks bit 63: its writer lost the top bit"
        )
    return torch.from_numpy(addresses & np.uint64(TOP_BIT - 1))


def _refuse_device_address(side: str, column: Tensor) -> None:
    high = column.numpy() >= np.uint64(TOP_BIT)
    if high.any():
        raise CopyRefusedError(
            f"device xpu-sim: {side} of descriptor {int(high.argmax())} has bit 63 but must be a host address"
        )
