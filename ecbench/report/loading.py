"""Results from files: which record a file holds, and what makes it unusable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import msgspec

from ecbench.core.errors import DataError
from ecbench.core.records import SCHEMA_VERSION, RoundTripResult
from ecbench.report.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.report.kinds import AnyResult

_FIRST_FIELDS = re.compile(rb'\s*\{\s*"schema_version":\s*(\d{1,9}),\s*"kind":\s*"([a-z-]{1,40})"')
"""How ecbench begins a result: reading the kind here spares a large file a second pass."""
_MEND = "give a result that ecbench wrote with --json or --out"


class _Header(msgspec.Struct, frozen=True):
    kind: str
    schema_version: int


def load_result(path: Path) -> AnyResult:
    """Loads a result of any kind; every figure that samples decide is computed anew.

    Raises:
        DataError: The file cannot be read, is no result of a known kind, is of a newer schema, or holds impossible
            samples.
    """
    stored = read_stored(path)
    try:
        return cast("AnyResult", KINDS[stored.kind].with_figures(stored))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def load_round_trip(path: Path) -> RoundTripResult:
    """Loads a result of ``roundtrip``.

    Raises:
        DataError: As `load_result`, or the result is of another kind.
    """
    result = load_result(path)
    if result.kind != "roundtrip":
        raise DataError(f"{path}: a result of {result.kind!r} cannot be shown as a round trip: {_MEND}")
    return result


def read_stored(path: Path) -> AnyResult:
    """Reads a result as it was stored, figures included.

    Raises:
        DataError: The file cannot be read, is no result of a known kind, or is of a newer schema.
    """
    data = _read(path)
    kind = _kind(data, str(path))
    try:
        result = cast("AnyResult", msgspec.json.decode(data, type=KINDS[kind].result_type))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: damaged result ({error}): {_MEND}") from error
    if result.kind != kind:
        raise DataError(f"{path}: damaged result (two kinds, {kind!r} and {result.kind!r}): {_MEND}")
    return result


def stored_kind(path: Path) -> str:
    """Reads of which kind a result is, and no more of it.

    Raises:
        DataError: The file cannot be read, is no result of a known kind, or is of a newer schema.
    """
    return _kind(_read(path), str(path))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): {_MEND}") from error


def _kind(data: bytes, where: str) -> str:
    header = _header(data, where)
    if header.schema_version > SCHEMA_VERSION:
        raise DataError(
            f"{where}: schema_version {header.schema_version} is above {SCHEMA_VERSION}: read it with a newer ecbench"
        )
    if header.kind not in KINDS:
        raise DataError(f"{where}: a result of {header.kind!r}, known are {', '.join(KINDS)}: {_MEND}")
    return header.kind


def _header(data: bytes, where: str) -> _Header:
    if first := _FIRST_FIELDS.match(data):
        return _Header(kind=first[2].decode(), schema_version=int(first[1]))
    try:
        return msgspec.json.decode(data, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{where}: no ecbench result ({error}): {_MEND}") from error
