"""Files that vLLM left in /dev/shm and no living process holds. They are named, never removed."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import ok, warning
from ecbench.core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ecbench.core.doctor_records import Check
    from ecbench.core.records import Param

PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"vllm_ec_.+\.mmap",  # encoder cache region
        r"vllm_offload_.+\.mmap(\.\d+)?",  # KV offload region, in one file or in segments
        r"vllm_engram_[a-z0-9_]{8}",  # engram tables
        r"vllm_mm_[A-Za-z0-9_-]{22}",  # multimodal cache
        r"VLLM_OBJECT_STORAGE_SHM_BUFFER.*",  # multimodal cache of earlier versions
        r".*-\[\d+(-\d+)*\]-cpushm.*",  # collectives of the CPU backend
    )
)
"""Names that vLLM 0.33.0 gives its files in /dev/shm.

Its message queues carry Python's own name (``psm_`` and eight digits), which any Python program may have made.
"""
SHOWN = 4
"""Most files that the line names one by one."""
_STAT_BLOCK_BYTES = 512
_HOST_PID_NAMESPACE = "pid:[4026531836]"
"""The first PID namespace has a fixed inode in every Linux (PROC_PID_INIT_INO)."""


@dataclass(frozen=True)
class SharedFile:
    """A file in /dev/shm.

    Args:
        path: Where it is.
        nbytes: Memory it takes.
        device: With `inode`, tells it from every other file.
        inode: See `device`.
    """

    path: Path
    nbytes: int
    device: int
    inode: int


@dataclass(frozen=True)
class Holders:
    """Who may hold a file.

    Args:
        held: (device, inode) of every file among those asked for that some process has open or mapped.
        hidden: Processes that could not be looked into.
        sees_all: Every process of the machine is visible, as from outside a container.
    """

    held: frozenset[tuple[int, int]]
    hidden: int
    sees_all: bool


def find_vllm_files(directory: Path) -> list[SharedFile]:
    """Looks for files by the exact patterns of `PATTERNS`, by name.

    Args:
        directory: /dev/shm.
    """
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return []
    return [file for path in entries if any(p.fullmatch(path.name) for p in PATTERNS) and (file := _file_at(path))]


def _file_at(path: Path) -> SharedFile | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return SharedFile(path, found.st_blocks * _STAT_BLOCK_BYTES, found.st_dev, found.st_ino)


def find_holders(files: Sequence[SharedFile], proc_root: Path) -> Holders:
    """Looks through all processes for those that have a file open or mapped.

    Args:
        files: From `find_vllm_files`; where there is none, no process is looked into.
        proc_root: /proc.
    """
    wanted = {(file.device, file.inode) for file in files}
    held: set[tuple[int, int]] = set()
    hidden = 0
    for folder in proc_root.glob("[0-9]*") if files else ():
        try:
            held |= wanted & {*_opened(folder), *_mapped(folder)}
        except PermissionError:
            hidden += 1
        except OSError:
            continue  # ended meanwhile
    return Holders(frozenset(held), hidden, _sees_all_processes(proc_root))


def _opened(folder: Path) -> Iterator[tuple[int, int]]:
    for link in (folder / "fd").iterdir():
        try:
            opened = link.stat()
        except FileNotFoundError:
            continue
        yield opened.st_dev, opened.st_ino


def _mapped(folder: Path) -> Iterator[tuple[int, int]]:
    for line in (folder / "maps").read_text(errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) > 4 and fields[4] != "0":  # noqa: PLR2004 - address, modes, offset, device, inode
            major, minor = (int(number, 16) for number in fields[3].split(":"))
            yield os.makedev(major, minor), int(fields[4])


def _sees_all_processes(proc_root: Path) -> bool:
    try:
        return str((proc_root / "self/ns/pid").readlink()) == _HOST_PID_NAMESPACE
    except OSError:
        return False


def check_stale_files(files: Sequence[SharedFile], holders: Holders) -> Check:
    """Warns of files that nobody holds.

    Args:
        files: From `find_vllm_files`.
        holders: From `find_holders`.
    """
    name = "left by vLLM"
    stale = [file for file in files if (file.device, file.inode) not in holders.held]
    if not files:
        return ok(name, "no file of vLLM in shared memory")
    if not stale:
        return ok(name, f"{len(files)} in use by living processes")
    total = sum(file.nbytes for file in stale)
    values: dict[str, Param] = {"files": [str(file.path) for file in stale], "bytes": total}
    named = ", ".join(f"{file.path} ({format_bytes(file.nbytes)})" for file in stale[:SHOWN])
    more = f" and {len(stale) - SHOWN} more" if len(stale) > SHOWN else ""
    count = f"{len(stale)} file{'s' if len(stale) > 1 else ''}"
    detail = f"{format_bytes(total)} in {count} without a living owner{_blind_spots(holders)}: {named}{more}"
    return warning(name, detail, "make sure that no engine still needs them, then remove them yourself", values)


def _blind_spots(holders: Holders) -> str:
    blind = [] if holders.sees_all else ["processes outside this container are not visible"]
    if holders.hidden:
        blind.append(f"processes that could not be looked into: {holders.hidden}")
    return f" ({'; '.join(blind)})" if blind else ""
