"""Results as JSON, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import DataError
from ecbench.core.records import SCHEMA_VERSION, RoundTripResult
from ecbench.stats.summary import recompute

if TYPE_CHECKING:
    from pathlib import Path

_MEND = "give a result that ecbench wrote with --json or --out"


class _Header(msgspec.Struct, frozen=True):
    kind: str
    schema_version: int


def load_round_trip(path: Path) -> RoundTripResult:
    """Loads a result of ``roundtrip``; every figure that samples decide is computed anew.

    Raises:
        DataError: The file cannot be read, is no such result, is of a newer schema, or holds impossible samples.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): {_MEND}") from error
    return _decode(data, str(path))


def _decode(data: bytes, where: str) -> RoundTripResult:
    try:
        header = msgspec.json.decode(data, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{where}: no ecbench result ({error}): {_MEND}") from error
    if header.schema_version > SCHEMA_VERSION:
        raise DataError(
            f"{where}: schema_version {header.schema_version}, known up to {SCHEMA_VERSION}: read it with a newer ecbench"
        )
    if header.kind != "roundtrip":
        raise DataError(f"{where}: a result of {header.kind!r} cannot be shown as a round trip: {_MEND}")
    try:
        return recompute(msgspec.json.decode(data, type=RoundTripResult))
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: damaged result ({error}): {_MEND}") from error
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
