"""The journal of a sweep: one JSON line per finished round, on disk before the next round starts.

The first line says what is being measured and where. A line without its newline was being written when the process or
the disk ended; it is cut off on resuming. Nothing is ever rewritten.
"""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from ecbench.core.errors import DataError, EcbenchError
from ecbench.core.records import Environment, Record
from ecbench.workflows.sweep_ledger import WARM_UP, CellRound

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

RecordT = TypeVar("RecordT", bound=Record)

JOURNAL_VERSION = 1
SUFFIX = ".journal"
_MACHINE_FIELDS = (
    "device",
    "device_name",
    "driver",
    "torch",
    "numpy",
    "python",
    "ecbench",
    "host_cpu",
    "host_cpus",
    "kernel",
    "emulation",
)
"""What must be the same for rounds to be mixed. Pinning is a cell's own, and free memory changes nothing."""


class JournalHeader(Record, frozen=True, kw_only=True):
    """What a journal is about."""

    journal_version: int
    scenario: str
    started_at: str
    """UTC, ISO 8601."""
    environment: Environment
    axes: dict[str, list[str | int | bool]]
    max_batch_bytes: int | None
    rounds: int
    budget_s: float | None
    seed: int
    targets: list[str] = msgspec.field(default_factory=list)
    """Those beside the reference, with their versions."""


def differences(old: JournalHeader, new: JournalHeader) -> list[str]:
    """What keeps two headers from being one sweep, each as ``what: there, here``."""
    pairs = {name: (getattr(old.environment, name), getattr(new.environment, name)) for name in _MACHINE_FIELDS}
    for name in dict.fromkeys([*old.axes, *new.axes]):
        pairs[f"axis {name}"] = old.axes.get(name), new.axes.get(name)
    for name in ("scenario", "max_batch_bytes", "rounds", "budget_s", "seed", "targets"):
        pairs[name] = getattr(old, name), getattr(new, name)
    return [f"{name}: {there} there, {here} here" for name, (there, here) in pairs.items() if there != here]


@dataclass(eq=False)
class Journal:
    """An open journal, held by this process alone. Made by `create_journal` or `resume_journal`.

    Args:
        path: The file.
        header: Its first line.
        rounds: Rounds it held when it was opened.
        kept: Rounds that count among all it holds now.
    """

    path: Path
    header: JournalHeader
    rounds: list[CellRound]
    _fd: int
    kept: int

    def __enter__(self) -> Self:
        """Nothing to do: it is open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Lets go of the file."""
        self.close()

    def append(self, entry: CellRound) -> None:
        """Puts a round on disk; returns when it is there.

        Raises:
            EcbenchError: The disk is full or gone; what was written before can be resumed.
        """
        _append(self._fd, self.path, entry)
        self.kept += entry.round > WARM_UP

    def close(self) -> None:
        """Lets go of the file, which stays. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def discard(self) -> None:
        """Removes the file: its result is elsewhere."""
        self.path.unlink(missing_ok=True)
        self.close()


def create_journal(directory: Path, stem: str, header: JournalHeader) -> Journal:
    """Starts a journal under a free name.

    Args:
        directory: An existing folder.
        stem: Name without ending; a number is added where it is taken.
        header: What will be measured.

    Raises:
        EcbenchError: It cannot be written.
    """
    number = 1
    while True:
        path = directory / f"{stem}{f'-{number}' if number > 1 else ''}{SUFFIX}"
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            raise _unwritable(path, error) from error
        break
    try:
        _lock(fd, path)
        _append(fd, path, header)
        _sync_directory(directory)
    except BaseException:
        os.close(fd)
        path.unlink(missing_ok=True)
        raise
    return Journal(path, header, [], fd, 0)


def unfinished_journals(directory: Path, scenario: str) -> list[Path]:
    """Journals of a scenario in a folder, the newest last."""
    name = re.compile(rf"sweep-{re.escape(scenario)}-\d{{4}}-\d\d-\d\dT\d{{6}}Z(-\d+)?")
    found = [path for path in directory.glob(f"*{SUFFIX}") if name.fullmatch(path.stem)]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def resume_journal(path: Path, header: JournalHeader) -> Journal:
    """Opens a journal to go on with it.

    Args:
        path: The file.
        header: What this process would measure.

    Raises:
        DataError: It is damaged, or of another machine, version or grid; what differs is named.
        EcbenchError: It cannot be opened, or another process is running it.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        _lock(fd, path)
        lines = _whole_lines(fd, path)
        old = _read_header(path, lines)
        _refuse_mixture(path, old, header)
        rounds = [_decode(path, number, line, CellRound) for number, line in enumerate(lines[1:], 2)]
    except BaseException:
        os.close(fd)
        raise
    return Journal(path, old, rounds, fd, sum(entry.round > WARM_UP for entry in rounds))


def _refuse_mixture(path: Path, old: JournalHeader, new: JournalHeader) -> None:
    differing = differences(old, new)
    if differing:
        raise DataError(
            f"{path}: cannot be resumed, it would mix what differs ({'; '.join(differing)}): "
            "run without --resume, or as it was started"
        )


def _read_header(path: Path, lines: list[bytes]) -> JournalHeader:
    if not lines:
        raise DataError(f"{path}: is empty: delete it and run without --resume")
    header = _decode(path, 1, lines[0], JournalHeader)
    if header.journal_version != JOURNAL_VERSION:
        raise DataError(
            f"{path}: journal_version {header.journal_version} is not {JOURNAL_VERSION}: resume it with the ecbench "
            f"that wrote it, {header.environment.ecbench}"
        )
    return header


def _decode(path: Path, number: int, line: bytes, record: type[RecordT]) -> RecordT:
    try:
        return msgspec.json.decode(line, type=record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}, line {number}: damaged journal ({error}): run without --resume") from error


def _whole_lines(fd: int, path: Path) -> list[bytes]:
    """Reads all lines that were written to their ends, and cuts off what follows them."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.ftruncate(fd, whole)
    return data[:whole].splitlines()


def _append(fd: int, path: Path, record: Record) -> None:
    line = msgspec.json.encode(record) + b"\n"
    try:
        written = os.write(fd, line)
        while written < len(line):
            written += os.write(fd, line[written:])
        os.fdatasync(fd)
    except OSError as error:
        raise EcbenchError(
            f"{path}: cannot be written ({error.strerror}): free some room and go on with --resume"
        ) from error


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise EcbenchError(f"{path}: another process is running this sweep: wait for it or end it") from error


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _unwritable(path: Path, error: OSError) -> EcbenchError:
    return EcbenchError(f"{path}: cannot be written ({error.strerror}): give a folder with room that you may write to")
