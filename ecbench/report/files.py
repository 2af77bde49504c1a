"""Files that are whole or not there at all."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FILE_MODE = 0o666


def refuse_unwritable(directory: Path) -> None:
    """Finds out before a long run whether its results can be written; makes the folder where it is missing.

    Raises:
        EcbenchError: The folder cannot be made or written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".ecbench-"):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name and renames it; on failure the old file stays as it was.

    Raises:
        EcbenchError: The folder is read-only, full or missing.
    """
    try:
        _write_and_rename(path, content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _write_and_rename(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".ecbench-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), _FILE_MODE & ~_umask())
        os.replace(temporary, path)  # noqa: PTH105 - the temporary name is a string
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108 - likewise
        raise


def write_result_files(directory: Path, stem: str, contents: Mapping[str, bytes]) -> list[Path]:
    """Writes one result in several formats under one free name.

    Args:
        directory: An existing folder.
        stem: Name without ending; a number is added where it is taken.
        contents: File contents by ending, for example ``".json"``.

    Returns:
        The paths, in the order of ``contents``.
    """
    free = _free_stem(directory, stem, list(contents))
    paths = [directory / f"{free}{ending}" for ending in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        write_atomically(path, content)
    return paths


def _free_stem(directory: Path, stem: str, endings: list[str]) -> str:
    candidate, number = stem, 1
    while any((directory / f"{candidate}{ending}").exists() for ending in endings):
        number += 1
        candidate = f"{stem}-{number}"
    return candidate


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(path: Path, error: OSError) -> EcbenchError:
    return EcbenchError(
        f"{path}: cannot be written ({error.strerror or error}): give a folder with room that you may write to"
    )
