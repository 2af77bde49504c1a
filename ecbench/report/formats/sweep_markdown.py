"""A sweep as Markdown, for an issue, a pull request or a wiki."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.figures import environment_line, stage_line, summary, warnings
from ecbench.report.formats.markdown import escape, table
from ecbench.report.kv_figures import PLAN_COLUMNS, PLAN_EXPLAINED, plan_rows
from ecbench.report.sweep_figures import (
    CELL_COLUMNS,
    COALESCING_COLUMNS,
    FIT_COLUMNS,
    MODEL_EXPLAINED,
    cell_row,
    coalescing_row,
    crossover_lines,
    fit_remarks,
    fit_row,
    sweep_notes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.sweep_records import SweepResult


def render_sweep_markdown(result: SweepResult) -> str:
    """A heading, warnings, what the times say, and every cell."""
    lines = [f"# ecbench {result.kind} {escape(str(result.settings.get('scenario', '')))}, {result.started_at}", ""]
    lines += [environment_line(result), ""]
    for warning in warnings(result):
        lines += [f"> **{escape(warning)}**", ""]
    lines += [f"**{summary(result)}**", ""]
    if result.fits:
        lines += ["## Cost model", "", MODEL_EXPLAINED, "", *table(FIT_COLUMNS, map(fit_row, result.fits))]
    lines += _section("Where the model does not hold", fit_remarks(result))
    lines += _section("Which engine where", crossover_lines(result))
    if result.coalescing:
        lines += ["## What coalescing gives", "", *table(COALESCING_COLUMNS, map(coalescing_row, result.coalescing))]
    plans = plan_rows(result)
    if plans:
        lines += ["## Plans", "", PLAN_EXPLAINED, "", *table(PLAN_COLUMNS, plans)]
    rows = [cell_row(case, leg) for case in result.cases for leg in case.legs]
    lines += ["## Cells", "", *table(CELL_COLUMNS, rows)]
    lines += _section("Notes", sweep_notes(result))
    return "\n".join([*lines, stage_line(result), ""])


def _section(title: str, remarks: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {escape(remark)}" for remark in remarks), ""] if remarks else []
