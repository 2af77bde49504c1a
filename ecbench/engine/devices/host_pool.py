"""Host memory in the part of device memory: pooled like an accelerator's, so copies meet no fresh page."""

from __future__ import annotations

import mmap
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_BUFFER_BYTES = 4096
MAX_WASTE = 2
"""A free buffer serves a request if it is at most so many times as large."""
_MADV_POPULATE_WRITE = 23
_SHAPE_OF_BYTES = {"typestr": "|u1", "version": 3}


class ArrayAt:
    """Names memory by address for NumPy, and keeps its owner alive for as long as an array or tensor over it lives.

    Args:
        address: First byte. It is not read here, so it may be one that only an engine can resolve.
        nbytes: Length.
        owner: What must live as long as the memory is used.
    """

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.__array_interface__: dict[str, Any] = {**_SHAPE_OF_BYTES, "shape": (nbytes,), "data": (address, False)}
        self._owner = owner


def array_at(address: int, nbytes: int, owner: object) -> NDArray[np.uint8]:
    """An array over existing memory.

    Args:
        address: First byte.
        nbytes: Length.
        owner: Kept alive by the array.

    Returns:
        uint8, shape ``(nbytes,)``.
    """
    return np.asarray(ArrayAt(address, nbytes, owner))


class HostPool:
    """Anonymous memory; a buffer comes back when the last tensor over it is gone."""

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []

    def take(self, nbytes: int, address_bits: int = 0) -> NDArray[np.uint8]:
        """Hands out memory whose pages are present.

        Args:
            nbytes: Length.
            address_bits: Bits to set in the address that the array shows; with any, the array must not be touched.

        Returns:
            uint8, shape ``(nbytes,)``; contents are whatever the last user left.
        """
        buffer = self._take_free(nbytes) or _map_pages(size_class(nbytes))
        lease = ArrayAt(_address_of(buffer) | address_bits, nbytes, buffer)
        weakref.finalize(lease, self._free.append, buffer)
        return np.asarray(lease)

    def _take_free(self, nbytes: int) -> mmap.mmap | None:
        """The smallest free buffer that fits and is not wasted on the request."""
        size = size_class(nbytes)
        # Latest first: what was used last is still in the caches.
        fitting = [buffer for buffer in reversed(self._free) if size <= len(buffer) <= MAX_WASTE * size]
        chosen = min(fitting, key=len, default=None)
        self._free[:] = [buffer for buffer in self._free if buffer is not chosen]
        return chosen


def size_class(nbytes: int) -> int:
    """Bytes that a request takes: rounded up by at most an eighth, so that neighbouring requests share buffers."""
    step = max(MIN_BUFFER_BYTES, (1 << nbytes.bit_length()) // 16)
    return max(MIN_BUFFER_BYTES, -(-nbytes // step) * step)


def _map_pages(size: int) -> mmap.mmap:
    buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Linux before 5.14 has no such advice; there, the first round, which is not counted, touches the pages.
    with suppress(OSError):
        buffer.madvise(_MADV_POPULATE_WRITE)
    return buffer


def _address_of(buffer: mmap.mmap) -> int:
    return int(np.frombuffer(buffer, dtype=np.uint8).ctypes.data)
