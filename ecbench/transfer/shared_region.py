"""The shared host region: blocks in /dev/shm, in a file that never has a name.

An unnamed file (O_TMPFILE) is gone with its last descriptor, however the process ends, so a kill leaves nothing behind
(vLLM #51317). Its pages are reserved before they are mapped, so a full /dev/shm is an error and not a SIGBUS (#52496).
"""

from __future__ import annotations

import errno
import mmap
import os
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ecbench.core.errors import DoesNotFitError, EcbenchError
from ecbench.core.units import format_bytes

if TYPE_CHECKING:
    from torch import Tensor

SHM_DIRECTORY = Path("/dev/shm")  # noqa: S108 - the region belongs in shared memory
MADV_POPULATE_WRITE = 23
"""Linux 5.14; missing from Python's mmap module."""
ATTACH_TIMEOUT_S = 30.0
"""How long another rank waits for the creator; the engine this is modelled on waits as long."""
_POLL_INTERVAL_S = 0.01


@dataclass(frozen=True)
class RegionHandle:
    """What another process on this host needs to open a region: plain values, fit for any transport.

    Args:
        pid: Process that created the region and still holds it.
        fd: Its file descriptor there.
        inode: Identifies the file, so that a reused descriptor is noticed.
        num_blocks: Blocks.
        block_size_bytes: Bytes of one block.
        guard_bytes: Bytes before and after the blocks.
    """

    pid: int
    fd: int
    inode: int
    num_blocks: int
    block_size_bytes: int
    guard_bytes: int


class SharedRegion:
    """Blocks of host memory that several processes share. Made by `create_region` or `attach_region`.

    Args:
        fd: The file's descriptor; owned by this object.
        num_blocks: Blocks.
        block_size_bytes: Bytes of one block.
        guard_bytes: Bytes before and after the blocks, in whole pages.
    """

    def __init__(self, fd: int, num_blocks: int, block_size_bytes: int, guard_bytes: int) -> None:
        self.num_blocks = num_blocks
        self.block_size_bytes = block_size_bytes
        self.guard_bytes = guard_bytes
        self._fd: int | None = fd
        self._mapping = mmap.mmap(fd, _file_bytes(num_blocks, block_size_bytes, guard_bytes))
        self._whole: Tensor | None = torch.from_numpy(np.frombuffer(self._mapping, dtype=np.uint8))
        _prefault(self._mapping)
        # Last: until here, whoever opened the descriptor closes it. Now it goes with a region that is lost, too.
        self._release = weakref.finalize(self, os.close, fd)

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return self.num_blocks * self.block_size_bytes

    @property
    def whole(self) -> Tensor:
        """Guard, blocks, guard: uint8, shape ``(nbytes + 2 * guard_bytes,)``."""
        if self._whole is None:
            raise EcbenchError("the shared region was used after its close: open a new one")
        return self._whole

    @property
    def blocks(self) -> Tensor:
        """uint8, shape ``(num_blocks, block_size_bytes)``."""
        inner = self.whole[self.guard_bytes : self.guard_bytes + self.nbytes]
        return inner.view(self.num_blocks, self.block_size_bytes)

    @property
    def handle(self) -> RegionHandle:
        """What other processes open this region by, while this one holds it."""
        if self._fd is None:
            raise EcbenchError("the shared region was used after its close: open a new one")
        inode = os.fstat(self._fd).st_ino
        return RegionHandle(os.getpid(), self._fd, inode, self.num_blocks, self.block_size_bytes, self.guard_bytes)

    def close(self) -> None:
        """Gives up this process's hold; the memory goes with the last holder. May be called twice."""
        if self._fd is None:
            return
        self._release()
        self._fd = None
        # The mapping goes when the last tensor over it does: unmapping under a live tensor would be a crash.
        self._whole = None
        del self._mapping

    def part(self, num_blocks: int, block_size_bytes: int) -> SharedRegion:
        """The first bytes of this region as blocks of another size, between guards of the same size.

        Args:
            num_blocks: Blocks.
            block_size_bytes: Bytes of one block.

        Returns:
            A view: closing it frees nothing, and other processes cannot attach to it.

        Raises:
            EcbenchError: The region is smaller.
        """
        return _RegionPart(self, num_blocks, block_size_bytes)


class _RegionPart(SharedRegion):
    """A view of another region's first bytes."""

    def __init__(self, region: SharedRegion, num_blocks: int, block_size_bytes: int) -> None:
        needed = _file_bytes(num_blocks, block_size_bytes, region.guard_bytes)
        if needed > region.whole.nbytes:
            raise EcbenchError(
                f"part of {needed} bytes of a region of {region.whole.nbytes}: give fewer or smaller blocks"
            )
        self.num_blocks = num_blocks
        self.block_size_bytes = block_size_bytes
        self.guard_bytes = region.guard_bytes
        self._fd = None
        self._whole = region.whole[:needed]

    def close(self) -> None:
        """Lets go of the view. May be called twice."""
        self._whole = None


def create_region(num_blocks: int, block_size_bytes: int, guard_bytes: int = 0) -> SharedRegion:
    """Creates a region, with all its pages present.

    Args:
        num_blocks: Blocks, at least 1.
        block_size_bytes: Bytes of one block, at least 1.
        guard_bytes: Bytes to keep before and after the blocks; rounded up to whole pages, so blocks stay page-aligned.

    Raises:
        DoesNotFitError: /dev/shm has less room; both numbers are named and nothing is left behind.
        EcbenchError: A size below 1, or a host whose /dev/shm has no unnamed files.
    """
    if num_blocks < 1 or block_size_bytes < 1 or guard_bytes < 0:
        raise EcbenchError(
            f"region of {num_blocks} blocks of {block_size_bytes} bytes: give at least one block of at least one byte"
        )
    guard = -(-guard_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
    needed = _file_bytes(num_blocks, block_size_bytes, guard)
    refuse_if_too_large(needed)
    fd = _open_unnamed()
    try:
        _reserve(fd, needed)
        return SharedRegion(fd, num_blocks, block_size_bytes, guard)
    except BaseException:
        os.close(fd)
        raise


def attach_region(handle: RegionHandle, timeout_s: float = ATTACH_TIMEOUT_S) -> SharedRegion:
    """Opens a region that another process created.

    Args:
        handle: From the creator.
        timeout_s: How long to wait for the file to reach its size.

    Raises:
        EcbenchError: The creator is gone, its descriptor is another file now, or the size is not reached in time.
    """
    try:
        fd = os.open(f"/proc/{handle.pid}/fd/{handle.fd}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise EcbenchError(
            f"shared region of process {handle.pid} cannot be opened ({error.strerror}): "
            "its creator must live and belong to the same user"
        ) from error
    try:
        _refuse_other_file(fd, handle)
        _wait_for_size(fd, _file_bytes(handle.num_blocks, handle.block_size_bytes, handle.guard_bytes), timeout_s)
        return SharedRegion(fd, handle.num_blocks, handle.block_size_bytes, handle.guard_bytes)
    except BaseException:
        os.close(fd)
        raise


def _refuse_other_file(fd: int, handle: RegionHandle) -> None:
    if os.fstat(fd).st_ino != handle.inode:
        raise EcbenchError(
            f"descriptor {handle.fd} of process {handle.pid} is no longer the shared region: ask for a new handle"
        )


def refuse_if_too_large(needed_bytes: int) -> None:
    """Compares a region with the room in /dev/shm.

    Raises:
        DoesNotFitError: It does not fit; both numbers are named.
    """
    free = shm_free_bytes()
    if needed_bytes > free:
        raise DoesNotFitError(
            f"the region needs {format_bytes(needed_bytes)} of {SHM_DIRECTORY}, which has {format_bytes(free)} free: "
            f"use a smaller region or remount it larger (mount -o remount,size=...)"
        )


def shm_free_bytes() -> int:
    """Bytes that can still be allocated in /dev/shm."""
    stat = os.statvfs(SHM_DIRECTORY)
    return stat.f_bavail * stat.f_frsize


def _file_bytes(num_blocks: int, block_size_bytes: int, guard_bytes: int) -> int:
    return num_blocks * block_size_bytes + 2 * guard_bytes


def _open_unnamed() -> int:
    try:
        return os.open(SHM_DIRECTORY, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EcbenchError(
            f"{SHM_DIRECTORY} cannot hold an unnamed file ({error.strerror}): mount a tmpfs there"
        ) from error


def _reserve(fd: int, nbytes: int) -> None:
    try:
        os.posix_fallocate(fd, 0, nbytes)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.ENOMEM, errno.EFBIG}:
            raise
        raise DoesNotFitError(
            f"the region needs {format_bytes(nbytes)} of {SHM_DIRECTORY} and could not get it ({error.strerror}): "
            f"{format_bytes(shm_free_bytes())} are free now; use a smaller region"
        ) from error


def _wait_for_size(fd: int, nbytes: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while (size := os.fstat(fd).st_size) < nbytes:
        if time.monotonic() >= deadline:
            raise EcbenchError(
                f"shared region has {size} of {nbytes} bytes after {timeout_s:g} s: its creator did not finish"
            )
        time.sleep(_POLL_INTERVAL_S)


def _prefault(mapping: mmap.mmap) -> None:
    """Maps every page now, so that no copy pays for it."""
    try:
        mapping.madvise(MADV_POPULATE_WRITE)
    except OSError:
        _touch_pages(mapping)


def _touch_pages(mapping: mmap.mmap) -> None:
    # Kernels before 5.14 answer EINVAL (vLLM #53190). Bytes are written back unchanged: another rank may have put them.
    pages = np.frombuffer(mapping, dtype=np.uint8)[:: mmap.PAGESIZE]
    np.bitwise_or(pages, 0, out=pages)
