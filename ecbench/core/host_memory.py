"""How the host's side of a copy is held: locked and known to the driver, or as the kernel sees fit."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class HostMemoryKind(StrEnum):
    """What a user asks of host memory."""

    PINNED = "pinned"
    """Registered with the driver where there is one that registers."""
    PAGEABLE = "pageable"
    """Left alone; the driver stages every copy."""


class SlotOrder(StrEnum):
    """In which order a host slot holds the pages of a chunk."""

    BLOCKS = "blocks"
    """Block by block: all pages of the first, then all pages of the second. All groups use the same bytes of a slot."""
    TENSORS = "tensors"
    """Tensor by tensor: its pages of all blocks. Every tensor has bytes of its own in each slot, whatever its group."""


class HostRegistration(Protocol):
    """Host memory as a device was told about it."""

    @property
    def note(self) -> str | None:
        """Why the memory is not pinned although that was asked for; None where it is as asked."""

    def release(self) -> None:
        """Takes the memory back from the driver once no copy uses it; may be called twice."""


class NoRegistration:
    """Memory that no driver was told about.

    Args:
        note: Why, where a reader must know.
    """

    def __init__(self, note: str | None = None) -> None:
        self.note = note

    def release(self) -> None:
        """Nothing to take back."""
