"""A round trip as Markdown, for an issue, a pull request or a wiki."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.figures import (
    LEG_COLUMNS,
    case_title,
    environment_line,
    leg_row,
    remarks,
    stage_line,
    summary,
    warnings,
)
from ecbench.report.target_figures import TARGET_COLUMNS, TARGET_HEADING, TARGET_LEAD, target_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecbench.core.records import CaseResult, RoundTripResult


def render_markdown(result: RoundTripResult) -> str:
    """A heading, warnings, a table per case and how it ended."""
    lines = [f"# ecbench {result.kind}, {escape(result.started_at)}", "", escape(environment_line(result)), ""]
    for warning in warnings(result):
        lines += [f"> **{escape(warning)}**", ""]
    for case in result.cases:
        lines += _case_lines(case, result)
    rows = target_rows(result)
    if rows:
        lines += [f"## {TARGET_HEADING}", "", TARGET_LEAD, "", *table(TARGET_COLUMNS, rows)]
    lines += [f"**{escape(summary(result))}**", "", escape(stage_line(result)), ""]
    return "\n".join(lines)


def _case_lines(case: CaseResult, result: RoundTripResult) -> list[str]:
    lines = [f"## {escape(case.case_id)}", "", escape(case_title(case)), ""]
    lines += table(LEG_COLUMNS, [leg_row(leg) for leg in case.legs])
    notes = [f"- {escape(remark)}" for remark in remarks(case, result)]
    return [*lines, *notes, ""] if notes else lines


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a Markdown table, with an empty line after it.

    Args:
        columns: Headings.
        rows: Cells as plain text; whatever would break a table is escaped.
    """
    headings = list(columns)
    lines = [_row(headings), _row(["---"] * len(headings))]
    return [*lines, *(_row(map(escape, cells)) for cells in rows), ""]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """Keeps text from being read as Markdown or HTML."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
