"""Descriptor arrays and the pool they come from.

Three CPU tensors of the device's pointer dtype, written through cached NumPy arrays: torch's scalar assignment treats
addresses >= 2**63 differently from version to version (vLLM #49532, #49994).
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Storage:
    """What a pool keeps: three tensors, shape ``(capacity,)``, and NumPy arrays of uint64 over their memory."""

    tensors: Tensors
    arrays: Views

    @property
    def capacity(self) -> int:
        """Copies that fit."""
        return len(self.arrays[0])


class DescriptorArrays:
    """Source addresses, destination addresses and sizes of up to ``capacity`` copies, for one use.

    Args:
        storage: Memory that nobody else uses until `retire`.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage: Storage | None = storage
        source, destination, size = storage.arrays
        # Views of this use alone: they can be locked at its end without locking those of the next.
        self._views: Views = (source[:], destination[:], size[:])

    @property
    def tensors(self) -> Tensors:
        """Source addresses, destination addresses, sizes."""
        return self._in_use.tensors

    @property
    def views(self) -> Views:
        """The same memory as uint64, shape ``(capacity,)``."""
        if self._storage is None:
            raise _used_after_release()
        return self._views

    @property
    def capacity(self) -> int:
        """Copies that fit."""
        return self._in_use.capacity

    @property
    def _in_use(self) -> Storage:
        if self._storage is None:
            raise _used_after_release()
        return self._storage

    def retire(self) -> Storage:
        """Ends this use. A view that somebody kept refuses to be written from now on.

        Returns:
            The memory, for the next use.
        """
        storage = self._in_use
        for view in self._views:
            view.flags.writeable = False
        self._storage = None
        return storage


def _used_after_release() -> EcbenchError:
    return EcbenchError("descriptor arrays were used after their release: acquire new ones from the pool")


class DescriptorArrayPool:
    """Reuses descriptor arrays. Only whoever saw a transfer's end event may release its arrays.

    Args:
        dtype: torch.int64 or torch.uint64.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._free: list[Storage] = []

    def acquire(self, capacity: int) -> DescriptorArrays:
        """Hands out arrays with room for at least ``capacity`` copies, the smallest free ones that fit."""
        fitting = [storage for storage in self._free if storage.capacity >= capacity]
        if not fitting:
            return DescriptorArrays(self._allocate(capacity))
        chosen = min(fitting, key=lambda storage: storage.capacity)
        self._free = [storage for storage in self._free if storage is not chosen]
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

    def _allocate(self, capacity: int) -> Storage:
        rounded = max(MIN_CAPACITY, 1 << (capacity - 1).bit_length())
        source, destination, size = (torch.empty(rounded, dtype=self._dtype) for _ in range(3))
        return Storage((source, destination, size), (_as_uint64(source), _as_uint64(destination), _as_uint64(size)))


def _as_uint64(tensor: Tensor) -> NDArray[np.uint64]:
    return tensor.numpy().view(np.uint64)
