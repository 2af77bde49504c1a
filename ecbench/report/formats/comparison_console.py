"""A comparison as a table in a terminal, or as plain aligned text in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.table import Table
from rich.text import Text

from ecbench.core.comparison_records import DifferenceEffect, Verdict
from ecbench.report.comparison_figures import (
    COLUMNS,
    NARROW_COLUMNS,
    NUMERIC_COLUMNS,
    details,
    difference_line,
    leg_row,
    remarks,
    summary,
    title,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ecbench.core.comparison_records import ComparisonResult

_STYLES = {
    Verdict.IMPROVED: "bold green",
    Verdict.PASSED: "green",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.REGRESSED: "bold red",
}
_WIDE_COLUMNS = 100
"""From this width on there is room for all columns."""


def print_comparison(result: ComparisonResult, console: Console) -> None:
    """Prints what the environments differ in, then a table, then what it has no room for."""
    console.print(Text(title(result)))
    for difference in result.differences:
        refused = difference.effect is DifferenceEffect.TIMES_REFUSED
        console.print(Text(f"differs: {difference_line(difference)}", style="bold yellow" if refused else ""))
    for note in result.notes:
        console.print(Text(note, style="bold yellow"))
    console.print()
    console.print(_table(result, console.width))
    for line in details(result):
        console.print(Text(f"note: {line}"))
    for line in remarks(result):
        console.print(Text(f"times: {line}", style="dim"))
    console.print(Text(summary(result), style="bold"))


def _table(result: ComparisonResult, width: int) -> Table:
    columns = COLUMNS if width >= _WIDE_COLUMNS else NARROW_COLUMNS
    table = Table(box=None, pad_edge=False, padding=(0, 2 if width >= _WIDE_COLUMNS else 1, 0, 0))
    for column in columns:
        justify: Literal["right", "left"] = "right" if column in NUMERIC_COLUMNS else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column == "verdict")
    for case in result.cases:
        for leg in case.legs:
            cells = dict(zip(COLUMNS, map(Text, leg_row(case, leg)), strict=True))
            cells["verdict"].stylize(_STYLES[leg.verdict])
            table.add_row(*(cells[column] for column in columns))
    return table
