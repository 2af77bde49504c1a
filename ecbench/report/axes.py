"""The axes of a grid: which parameters vary over the cases of a result, and how their values are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.units import format_bytes
from ecbench.report.documents import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecbench.core.records import CaseResult, Param, RunResult

AXIS_WORDS = {
    "block_size_bytes": "block size",
    "count": "blocks",
    "tokens": "prompt (tokens)",
    "block_size_tokens": "block size (tokens)",
    "run_length": "run length",
    "byte_offset": "byte offset",
    "host_memory": "host memory",
    "alignment_tokens": "alignment (tokens)",
    "blocks_per_chunk": "blocks per chunk",
    "retention_interval": "retention interval",
}
"""What readers call a parameter; one that is not here is shown by its own name."""
SIZE_AXIS = "block_size_bytes"
"""The parameter that holds the bytes of a block."""
BYTES_AXES = frozenset({SIZE_AXIS, "byte_offset"})
_NO_AXES = frozenset(
    {
        *("seed", "rounds"),
        *("block_stride_bytes", "host_slot_bytes", "groups", "hits_end_on_tokens", "replay_hit_tokens"),
        *("full_chunks", "stored_chunks", "stored_chunks_by_group", "stored_blocks", "loaded_blocks"),
        *("stored_share_copied", "loaded_share_copied"),
    }
)
"""Parameters that say how much was measured, or that follow from the others, as a plan does."""


def varying_axes(result: RunResult[CaseResult]) -> list[str]:
    """Names the parameters with more than one value, in the order of the first case."""
    names = dict.fromkeys(name for case in result.cases for name in case.params if name not in _NO_AXES)
    return [name for name in names if len({_key(case.params.get(name)) for case in result.cases}) > 1]


def _key(value: Param) -> str:
    return repr(value)


def axis_value(case: CaseResult, axis: str) -> str:
    """A case's value on an axis, as text."""
    value = case.params.get(axis)
    if axis in BYTES_AXES and isinstance(value, int) and not isinstance(value, bool):
        return format_bytes(value)
    return shown(value)


def size_of(case: CaseResult) -> int | None:
    """Bytes of a case's blocks, where it has any."""
    value = case.params.get(SIZE_AXIS)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def fullest_line(cases: Sequence[CaseResult], held: Sequence[str]) -> list[CaseResult]:
    """Of a grid, cells that share one value on each axis in ``held``: the longest such line, then what moves most."""
    lines: dict[tuple[str, ...], list[CaseResult]] = {}
    for case in cases:
        lines.setdefault(tuple(_key(case.params.get(axis)) for axis in held), []).append(case)
    return max(lines.values(), key=lambda line: (len(line), sum(map(_moved_bytes, line))), default=[])


def _moved_bytes(case: CaseResult) -> int:
    return sum(leg.copied_bytes for leg in case.legs)


def numeric_axes(cases: Sequence[CaseResult], axes: Iterable[str]) -> list[str]:
    """Those axes whose every value is a number."""
    return [axis for axis in axes if all(_is_number(case.params.get(axis)) for case in cases)]


def _is_number(value: Param) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
