"""Descriptor arrays and the pool they come from.

Three CPU tensors of the device's pointer dtype, written through NumPy views that are made once per use: torch's scalar
assignment treats addresses >= 2**63 differently from version to version (vLLM #49532, #49994).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Tensors = tuple[Tensor, Tensor, Tensor]
    Views = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]

MIN_CAPACITY = 1024
"""Smallest arrays that are made: 24 KiB, so that a step with few descriptors never grows them."""


class DescriptorArrays:
    """Source addresses, destination addresses and sizes of up to ``capacity`` copies.

    Args:
        tensors: Three tensors, shape ``(capacity,)``, int64 or uint64, on the CPU.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._tensors: Tensors | None = tensors
        source, destination, size = (tensor.numpy().view(np.uint64) for tensor in tensors)
        self._views: Views | None = (source, destination, size)

    @property
    def tensors(self) -> Tensors:
        """Source addresses, destination addresses, sizes."""
        if self._tensors is None:
            raise EcbenchError("descriptor arrays were used after their release: acquire new ones from the pool")
        return self._tensors

    @property
    def views(self) -> Views:
        """The same memory as uint64, shape ``(capacity,)``."""
        if self._views is None:
            raise EcbenchError("descriptor arrays were used after their release: acquire new ones from the pool")
        return self._views

    @property
    def capacity(self) -> int:
        """Copies that fit."""
        return int(self.tensors[0].numel())

    def retire(self) -> Tensors:
        """Ends this use. A view that somebody kept refuses to be written from now on.

        Returns:
            The tensors, for the next use under new views.
        """
        tensors = self.tensors
        for view in self.views:
            view.flags.writeable = False
        self._tensors = self._views = None
        return tensors


class DescriptorArrayPool:
    """Reuses descriptor arrays. Only whoever saw a transfer's end event may release its arrays.

    Args:
        dtype: torch.int64 or torch.uint64.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._free: list[Tensors] = []

    def acquire(self, capacity: int) -> DescriptorArrays:
        """Hands out arrays with room for at least ``capacity`` copies, the smallest free ones that fit."""
        fitting = [tensors for tensors in self._free if tensors[0].numel() >= capacity]
        if not fitting:
            return DescriptorArrays(self._allocate(capacity))
        chosen = min(fitting, key=lambda tensors: tensors[0].numel())
        self._free = [tensors for tensors in self._free if tensors is not chosen]
        return DescriptorArrays(chosen)

    def grow(self, arrays: DescriptorArrays, used: int, capacity: int) -> DescriptorArrays:
        """Exchanges arrays for larger ones that begin with the first ``used`` descriptors."""
        larger = self.acquire(max(capacity, 2 * arrays.capacity))
        for old, new in zip(arrays.views, larger.views, strict=True):
            new[:used] = old[:used]
        self.release(arrays)
        return larger

    def release(self, arrays: DescriptorArrays) -> None:
        """Takes arrays back. Releasing the same arrays twice is an error."""
        self._free.append(arrays.retire())

    def _allocate(self, capacity: int) -> Tensors:
        rounded = max(MIN_CAPACITY, 1 << (capacity - 1).bit_length())
        source, destination, size = (torch.empty(rounded, dtype=self._dtype) for _ in range(3))
        return source, destination, size
