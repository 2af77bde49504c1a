"""Shared memory, /dev/shm: its room, and whether it can hold a file without a name."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import ok, problem, warning
from ecbench.core.units import format_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.core.doctor_records import Check

SMALL_FREE_BYTES = 4095 << 20
"""What one engine asked for where 1405 MiB were free, and died (vLLM #52496)."""
CONTAINER_DEFAULT_BYTES = 64 << 20
"""What Docker and Kubernetes give a container that asks for nothing."""
_LARGER = "mount -o remount,size=16G /dev/shm; in a container --shm-size=16g or --ipc=host"


def read_room(directory: Path) -> tuple[int, int] | None:
    """Bytes in all and bytes free of a file system; None where there is none."""
    try:
        stat = os.statvfs(directory)
    except OSError:
        return None
    return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize


def check_room(directory: Path, room: tuple[int, int] | None) -> Check:
    """Judges whether a region of a common size fits.

    Args:
        directory: /dev/shm, for the message.
        room: From `read_room`.
    """
    name = str(directory)
    if room is None:
        return problem(name, "not there", "mount a tmpfs: mount -t tmpfs -o size=16G tmpfs /dev/shm")
    total, free = room
    values = {"total_bytes": total, "free_bytes": free}
    detail = f"{format_bytes(total)}, {format_bytes(total - free)} used, {format_bytes(free)} free"
    if total <= CONTAINER_DEFAULT_BYTES:
        return warning(name, f"{detail}: a container's default, too small for a region", _LARGER, values)
    if free < SMALL_FREE_BYTES:
        return warning(name, f"{detail}: engines were seen to ask for 4 GiB (vLLM #52496)", _LARGER, values)
    return ok(name, detail, values)


def check_unnamed_file(directory: Path) -> Check:
    """Creates a file without a name, reserves one page of it and lets it go.

    Args:
        directory: /dev/shm.
    """
    name = "unnamed shared files"
    try:
        fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, mmap.PAGESIZE)
        finally:
            os.close(fd)
    except OSError as error:
        mend = f"free some room in {directory}, or mount a tmpfs there that this user may write to"
        return problem(name, f"O_TMPFILE in {directory} fails ({error.strerror}): no region can be made", mend)
    return ok(name, f"O_TMPFILE works in {directory}: a killed run leaves nothing behind")
