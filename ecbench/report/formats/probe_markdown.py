"""A pointer probe as Markdown, for an issue or a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.formats.markdown import escape, table
from ecbench.report.probe_figures import (
    RULING_COLUMNS,
    case_notes,
    case_title,
    matrix_columns,
    matrix_notes,
    matrix_rows,
    not_probed_lines,
    probed,
    ruling_row,
    unexpected_lines,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.probe_records import ProbeCase, ProbeResult


def render_probe_markdown(result: ProbeResult) -> str:
    """A heading, the table or the matrix, what to use, and what nobody expected."""
    lines = [f"# ecbench {result.kind}, {result.started_at}", ""]
    cases = probed(result.cases)
    if len(cases) == 1:
        lines += _ruling_lines(cases[0])
    elif cases:
        lines += _matrix_lines(cases)
    unexpected = [
        f"- **{escape(case_title(case))}: {escape(line)}**" for case in cases for line in unexpected_lines(case)
    ]
    missing = [f"- **{escape(line)}**" for line in not_probed_lines(result.cases)]
    return "\n".join([*lines, *unexpected, *missing, *([""] if unexpected or missing else [])])


def _ruling_lines(case: ProbeCase) -> list[str]:
    lines = [f"## {escape(case_title(case))}", ""]
    lines += table(RULING_COLUMNS, [ruling_row(convention) for convention in case.conventions])
    return [*lines, *(f"- {escape(note)}" for note in case_notes(case)), "", f"**{escape(case.advice)}**", ""]


def _matrix_lines(cases: Sequence[ProbeCase]) -> list[str]:
    rows = [(name, *(cell.text for cell in cells)) for name, cells in matrix_rows(cases)]
    lines = table(matrix_columns(cases), rows)
    return [*lines, *(f"- {escape(note)}" for note in matrix_notes(cases)), ""]
