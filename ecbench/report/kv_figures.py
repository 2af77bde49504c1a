"""What the KV cells of a sweep store and hit: exact figures of their plans, one row per plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.axes import AXIS_WORDS, axis_value, varying_axes
from ecbench.report.documents import shown

if TYPE_CHECKING:
    from ecbench.core.records import CaseResult
    from ecbench.core.sweep_records import SweepResult

PLAN_COLUMNS = ("plan", "chunks stored", "of", "blocks stored", "blocks loaded", "replay hits", "of tokens")
PLAN_EXPLAINED = "exact figures of whole plans, also where a cell copies a sample"
_PLAN_AXES = (
    "model",
    "tokens",
    "block_size_tokens",
    "alignment_tokens",
    "blocks_per_chunk",
    "retention_interval",
    "policy",
)
_FIGURES = ("stored_chunks", "full_chunks", "stored_blocks", "loaded_blocks", "replay_hit_tokens", "tokens")


def plan_rows(result: SweepResult) -> list[tuple[str, ...]]:
    """Rows of text in the order of `PLAN_COLUMNS`; none for cells of another kind.

    Cells that differ in what copies, or in how caches lie, have one plan in common.
    """
    varying = [axis for axis in varying_axes(result) if axis in _PLAN_AXES]
    planned = [case for case in result.cases if all(name in case.params for name in _FIGURES)]
    rows = {_name(case, varying): tuple(shown(case.params[name]) for name in _FIGURES) for case in planned}
    return [(name, *figures) for name, figures in rows.items()]


def _name(case: CaseResult, varying: list[str]) -> str:
    named = [f"{AXIS_WORDS.get(axis, axis)} {axis_value(case, axis)}" for axis in varying]
    return ", ".join(named) or f"{case.params['model']}"
