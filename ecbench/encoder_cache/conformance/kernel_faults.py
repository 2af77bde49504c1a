"""Faults of the machine, made for one forked process: an old kernel, a small /dev/shm."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import resource
import signal

from ecbench.core.conformance_protocols import NotApplicableError

MADV_POPULATE_WRITE = 23
_MADVISE_BY_MACHINE = {"x86_64": 28, "aarch64": 233}
"""Numbers of the system call."""
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL_WITH = 0x7FFF0000, 0x00050000
_NUMBER_OFFSET, _THIRD_ARGUMENT_OFFSET = 0, 32
"""Where a filter finds the system call's number and the low half of its third argument."""
_EINVAL = 22
_libc = ctypes.CDLL(None, use_errno=True)


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("jump_true", ctypes.c_ubyte),
        ("jump_false", ctypes.c_ubyte),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


def refuse_populate() -> None:
    """Makes ``madvise(MADV_POPULATE_WRITE)`` fail with EINVAL in this process, as kernels before 5.14 do. For good.

    Raises:
        NotApplicableError: The kernel takes no such filter.
    """
    number = _MADVISE_BY_MACHINE.get(platform.machine())
    if number is None:
        raise NotApplicableError(f"an old kernel cannot be imitated on {platform.machine()}")
    instructions = (_Instruction * 6)(
        _Instruction(_LOAD, 0, 0, _NUMBER_OFFSET),
        _Instruction(_JUMP_IF_EQUAL, 0, 3, number),
        _Instruction(_LOAD, 0, 0, _THIRD_ARGUMENT_OFFSET),
        _Instruction(_JUMP_IF_EQUAL, 0, 1, MADV_POPULATE_WRITE),
        _Instruction(_RETURN, 0, 0, _FAIL_WITH | _EINVAL),
        _Instruction(_RETURN, 0, 0, _ALLOW),
    )
    program = _Program(len(instructions), instructions)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
    if not _populate_is_refused():
        raise NotApplicableError("an old kernel cannot be imitated here: system calls cannot be filtered")


def _populate_is_refused() -> bool:
    with mmap.mmap(-1, mmap.PAGESIZE) as mapping:
        try:
            mapping.madvise(MADV_POPULATE_WRITE)
        except OSError:
            return True
    return False


def shrink_shm(size_bytes: int) -> None:
    """Gives this process a small /dev/shm of its own. For good.

    Raises:
        NotApplicableError: The process may not mount.
    """
    if not (_unshare(_CLONE_NEWNS) or _unshare(_CLONE_NEWUSER | _CLONE_NEWNS)):
        raise NotApplicableError("this process may not have mounts of its own, so /dev/shm cannot be made small")
    # Shared mounts would carry the small /dev/shm to every other process.
    detached = _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0
    options = f"size={size_bytes}".encode()
    if not detached or _libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, options) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise NotApplicableError(f"a small /dev/shm cannot be mounted ({reason})")


def _unshare(flags: int) -> bool:
    return bool(_libc.unshare(flags) == 0)


def kill_self() -> None:
    """Ends this process as the kernel's memory killer would: without a last word."""
    os.kill(os.getpid(), signal.SIGKILL)


def limit_file_size(size_bytes: int) -> None:
    """Keeps this process from making larger files, the nearest thing to a small /dev/shm without mounts. For good."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))
