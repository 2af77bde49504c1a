"""A comparison as Markdown, for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.comparison_figures import COLUMNS, details, difference_line, leg_row, remarks, summary, title
from ecbench.report.formats.markdown import escape, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecbench.core.comparison_records import ComparisonResult


def render_comparison_markdown(result: ComparisonResult) -> str:
    """A heading, how it ended, what the environments differ in, a table and what it has no room for."""
    lines = [f"# ecbench {result.kind}, {result.started_at}", "", escape(title(result)), ""]
    lines += [f"**{escape(summary(result))}**", ""]
    for note in result.notes:
        lines += [f"> **{escape(note)}**", ""]
    lines += _list(f"differs: {difference_line(difference)}" for difference in result.differences)
    lines += table(COLUMNS, [leg_row(case, leg) for case in result.cases for leg in case.legs])
    lines += _list(details(result))
    lines += _list(f"times: {line}" for line in remarks(result))
    return "\n".join(lines)


def _list(texts: Iterable[str]) -> list[str]:
    lines = [f"- {escape(text)}" for text in texts]
    return [*lines, ""] if lines else []
