"""Memory is stated before it is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psutil

from ecbench.core.errors import DoesNotFitError
from ecbench.core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class MemoryNeed:
    """What a case takes while it runs.

    Args:
        case_id: The case.
        host_region_bytes: Shared host memory, guards included.
        device_bytes: Buffers on the device, guards included.
        device_is_host: The device's memory is host memory too.
        process_bytes: What the process holds before the case: interpreter, torch, NumPy.
        mend: What makes it take less, in words.
    """

    case_id: str
    host_region_bytes: int
    device_bytes: int
    device_is_host: bool
    process_bytes: int
    mend: str = "use fewer or smaller images, fewer tokens"

    @property
    def peak_host_bytes(self) -> int:
        """Host memory at the case's peak; diagnosing a round whose bytes are wrong takes about as much again, twice."""
        return self.process_bytes + self.new_host_bytes

    @property
    def new_host_bytes(self) -> int:
        """Host memory the case adds."""
        return self.host_region_bytes + (self.device_bytes if self.device_is_host else 0)


def together(needs: Sequence[MemoryNeed]) -> MemoryNeed:
    """What one case takes that is open on several targets at once.

    Args:
        needs: Of the same case on each target; at least one.
    """
    return replace(
        needs[0],
        host_region_bytes=sum(need.host_region_bytes for need in needs),
        device_bytes=sum(need.device_bytes for need in needs),
    )


def process_bytes() -> int:
    """Resident memory of this process now."""
    return int(psutil.Process().memory_info().rss)


def refuse_what_does_not_fit(
    needs: Sequence[MemoryNeed], limit_bytes: int | None, shm_free_bytes: int, device_free_bytes: int | None = None
) -> None:
    """Holds every case against the limit, /dev/shm and the memory that is free, on the device too where it has its own.

    Raises:
        DoesNotFitError: A case does not fit; both numbers are named.
    """
    available = int(psutil.virtual_memory().available)
    for need in needs:
        if limit_bytes is not None:
            _refuse(need, need.peak_host_bytes, limit_bytes, "the memory limit", "raise --memory-limit")
        _refuse(need, need.host_region_bytes, shm_free_bytes, "what /dev/shm has free", "remount it larger")
        _refuse(need, need.new_host_bytes, available, "the host memory that is available", "free some")
        if device_free_bytes is not None:
            _refuse(need, need.device_bytes, device_free_bytes, "the device's free memory", "free some there")


def _refuse(need: MemoryNeed, needed: int, there: int, what: str, mend: str) -> None:
    if needed > there:
        raise DoesNotFitError(
            f"case {need.case_id} needs {format_bytes(needed)}, more than {what}, {format_bytes(there)}: "
            f"{need.mend}, or {mend}"
        )
