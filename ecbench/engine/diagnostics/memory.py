"""Host memory: how much, what may be locked, and what the kernel offers for mapping it."""

from __future__ import annotations

import mmap
import os
import resource
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import ok, warning
from ecbench.core.units import format_bytes
from ecbench.engine.diagnostics.files import chosen_word, read_field
from ecbench.engine.diagnostics.torch_build import CUDA, ROCM

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ecbench.core.doctor_records import Check

MADV_POPULATE_WRITE = 23
"""Linux 5.14; missing from Python's mmap module."""
CUDA_REGISTRATION_FAILS_FROM_BYTES = 512 << 30
"""cudaHostRegister of one region of 512 GiB or more was refused (vLLM #51080)."""
ROCM_REGISTRATION_FAILS_FROM_BYTES = 128 * 10**9
"""hipHostRegister was refused at sizes between 128 and 512 GB (vLLM #52656); the lowest is taken."""
_REGISTRATION_LIMITS = {CUDA: CUDA_REGISTRATION_FAILS_FROM_BYTES, ROCM: ROCM_REGISTRATION_FAILS_FROM_BYTES}
_CAP_IPC_LOCK = 1 << 14


def read_total_bytes(proc_root: Path) -> int | None:
    """Host memory by /proc/meminfo; None where it does not say."""
    return _kib_field(proc_root / "meminfo", "MemTotal")


def _kib_field(path: Path, field: str) -> int | None:
    number = (read_field(path, field) or "").removesuffix("kB").strip()
    return int(number) * 1024 if number.isdigit() else None


def check_registration(total_bytes: int | None, kind: str | None) -> Check:
    """Compares the host's memory with the region sizes that drivers are known to refuse.

    Args:
        total_bytes: From `read_total_bytes`.
        kind: The accelerator torch sees, if any.
    """
    name = "host registration"
    if total_bytes is None:
        return ok(name, "host memory is not known: /proc/meminfo does not say")
    values = {"host_memory_bytes": total_bytes}
    known = "one region is known to fail from 512 GiB on CUDA and from 128 GB on ROCm"
    limit = _REGISTRATION_LIMITS.get(kind or "")
    if limit is not None and total_bytes >= limit:
        detail = f"{format_bytes(total_bytes)} of host memory: {known}"
        mend = f"keep a region on {kind} below {format_bytes(limit)}, or register it in parts"
        return warning(name, detail, mend, values)
    if total_bytes < ROCM_REGISTRATION_FAILS_FROM_BYTES:
        return ok(name, f"{format_bytes(total_bytes)} of host memory, below every size known to fail", values)
    return ok(name, f"{format_bytes(total_bytes)} of host memory; {known}", values)


def read_memlock_bytes() -> int | None:
    """How much this process may lock; None where it is not limited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def check_memlock(limit_bytes: int | None, proc_root: Path, kind: str | None) -> Check:
    """Judges the locked-memory limit, which drivers and RDMA transports meet when they pin a region.

    Args:
        limit_bytes: From `read_memlock_bytes`.
        proc_root: /proc.
        kind: The accelerator torch sees, if any.
    """
    name = "locked memory"
    if limit_bytes is None:
        return ok(name, "not limited")
    values = {"limit_bytes": limit_bytes}
    if _may_lock_anything(proc_root):
        return ok(name, f"{format_bytes(limit_bytes)}, not applied: this process has CAP_IPC_LOCK", values)
    if kind is None:
        return ok(name, f"{format_bytes(limit_bytes)}; matters only beside an accelerator or RDMA", values)
    mend = "ulimit -l unlimited, or in a container --ulimit memlock=-1"
    return warning(name, f"{format_bytes(limit_bytes)}: a larger region may not be pinned", mend, values)


def _may_lock_anything(proc_root: Path) -> bool:
    bits = read_field(proc_root / "self/status", "CapEff") or "0"
    return bool(int(bits, 16) & _CAP_IPC_LOCK)


def populate_one_page() -> None:
    """Asks the kernel to fault in one shared page for writing.

    Raises:
        OSError: The kernel does not know the advice.
    """
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page.madvise(MADV_POPULATE_WRITE)


def check_populate_write(populate: Callable[[], None] = populate_one_page) -> Check:
    """Tries MADV_POPULATE_WRITE, which faults in a whole region in one call.

    Args:
        populate: Uses the advice; raises OSError where it is refused.
    """
    name = "MADV_POPULATE_WRITE"
    try:
        populate()
    except OSError as error:
        detail = f"refused ({error.strerror}): regions are touched page by page, which is slower (vLLM #53190)"
        return warning(name, detail, f"use Linux 5.14 or later; this is {os.uname().release}")
    return ok(name, "supported, tried on one page")


def check_huge_pages(sys_root: Path) -> Check:
    """Names the modes of transparent huge pages; none of them is wrong, and results differ between them.

    Args:
        sys_root: /sys.
    """
    folder = sys_root / "kernel/mm/transparent_hugepage"
    private, shared = chosen_word(folder / "enabled"), chosen_word(folder / "shmem_enabled")
    if private is None:
        return ok("transparent huge pages", "not part of this kernel")
    detail = f"{private}; for shared memory {shared or 'unknown'}"
    return ok("transparent huge pages", detail, {"enabled": private, "shmem_enabled": shared})
