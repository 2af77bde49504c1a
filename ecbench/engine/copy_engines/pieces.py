"""Finds the tensors behind a batch's addresses, for engines that copy tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ecbench.core.errors import CopyRefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Located:
    """One side of a batch, as places in tensors.

    Args:
        flat: The tensors as uint8, shape ``(nbytes,)``, by ascending address.
        owners: Index in ``flat`` of each descriptor's tensor, int64, shape ``(n,)``.
        offsets: First byte of each descriptor in its tensor, int64, shape ``(n,)``.
        sizes: Bytes of each descriptor, int64, shape ``(n,)``.
    """

    flat: list[Tensor]
    owners: NDArray[np.int64]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def on_host(self) -> bool:
        """Tells whether the tensors are in host memory."""
        return all(tensor.device.type == "cpu" for tensor in self.flat)

    def pieces(self) -> list[Tensor]:
        """A view per descriptor: uint8, shape ``(size,)``."""
        rows = zip(self.owners.tolist(), self.offsets.tolist(), self.sizes.tolist(), strict=True)
        return [self.flat[owner][offset : offset + size] for owner, offset, size in rows]

    def cut(self, packed: Tensor) -> list[Tensor]:
        """A view per descriptor into a buffer that holds them all, one after the other."""
        ends = np.cumsum(self.sizes)
        return [packed[end - size : end] for end, size in zip(ends.tolist(), self.sizes.tolist(), strict=True)]

    def span(self) -> Tensor | None:
        """The one view that holds all descriptors in order and nothing else; None where there is none."""
        ends = self.offsets + self.sizes
        if not len(ends) or (self.owners != self.owners[0]).any() or (self.offsets[1:] != ends[:-1]).any():
            return None
        owner: Tensor = self.flat[int(self.owners[0])]
        return owner[int(self.offsets[0]) : int(ends[-1])]


def locate(column: Tensor, sizes: Tensor, tensors: tuple[Tensor, ...], engine: str) -> Located:
    """Finds the tensor and the offset behind each address.

    Args:
        column: Addresses, int64 or uint64, shape ``(n,)``.
        sizes: Bytes, same shape and dtype.
        tensors: Every tensor that an address points into.
        engine: Who asks, for the message.

    Raises:
        CopyRefusedError: An address that lies in none of the tensors.
    """
    flat = sorted((tensor.view(-1).view(torch.uint8) for tensor in tensors), key=lambda tensor: tensor.data_ptr())
    starts = np.array([tensor.data_ptr() for tensor in flat], dtype=np.uint64)
    lengths = np.array([tensor.nbytes for tensor in flat], dtype=np.int64)
    addresses, nbytes = _unsigned(column), _unsigned(sizes).astype(np.int64)
    owners = np.searchsorted(starts, addresses, side="right") - 1
    offsets = (addresses - starts[owners]).view(np.int64)
    outside = (owners < 0) | (offsets < 0) | (nbytes > lengths[owners] - offsets)
    if outside.any():
        raise CopyRefusedError(
            f"engine {engine}: descriptor {int(outside.argmax())} of {nbytes[outside.argmax()]} bytes points outside "
            "the tensors of its batch: pass every tensor that addresses point into"
        )
    return Located(flat, owners, offsets, nbytes)


def _unsigned(column: Tensor) -> NDArray[np.uint64]:
    values: NDArray[np.uint64] = column.numpy().view(np.uint64)
    return values
