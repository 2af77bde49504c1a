"""Addresses as plain integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def address_of(tensor: Tensor) -> int:
    """A tensor's address, 0 to 2**64 - 1, also on a torch that reports high addresses as negative numbers."""
    return tensor.data_ptr() & ((1 << 64) - 1)
