"""A round trip as a table in a terminal, or as plain aligned text in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ecbench.core.records import LegStatus
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
from ecbench.report.target_figures import PARTS, TARGET_COLUMNS, TARGET_HEADING, TARGET_LEAD, target_rows

if TYPE_CHECKING:
    from rich.console import Console

    from ecbench.core.records import CaseResult, RoundTripResult

_STYLES = {
    LegStatus.PASSED: "green",
    LegStatus.FAILED: "bold red",
    LegStatus.ERROR: "bold red",
    LegStatus.SKIPPED: "yellow",
}
_NUMBERS = frozenset({"descr.", "bandwidth", "95% interval", "of ceiling", "fill", "submit", "copy"})
_WIDE_COLUMNS = 100
"""From this width on, columns stand two spaces apart; below, one, so that a table fits 80 columns."""


def print_round_trip(result: RoundTripResult, console: Console) -> None:
    """Prints warnings, a table per case, and how it ended."""
    console.print(Text(environment_line(result)))
    for warning in warnings(result):
        console.print(Text(warning, style="bold yellow"))
    for case in result.cases:
        _print_case(case, result, console)
    _print_targets(target_rows(result), console)
    console.print()
    console.print(Text(summary(result), style="bold"))
    console.print(Text(stage_line(result), style="dim"))


def _print_case(case: CaseResult, result: RoundTripResult, console: Console) -> None:
    console.print()
    console.print(Text.assemble((case.case_id, "bold"), ": ", case_title(case)))
    spaces = 2 if console.width >= _WIDE_COLUMNS else 1
    table = Table(box=None, pad_edge=False, padding=(0, spaces, 0, 0))
    for column in LEG_COLUMNS:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    for leg in case.legs:
        *cells, verdict = leg_row(leg)
        table.add_row(*map(Text, cells), Text(verdict, style=_STYLES[leg.status]))
    console.print(table)
    for remark in remarks(case, result):
        console.print(Text(f"note: {remark}"))


def _print_targets(rows: list[tuple[str, ...]], console: Console) -> None:
    if not rows:
        return
    console.print()
    console.print(Text.assemble((TARGET_HEADING, "bold"), ": ", TARGET_LEAD))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in TARGET_COLUMNS:
        table.add_column(column, justify="right" if column in PARTS else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def print_memory_needs(rows: list[tuple[str, str, str, str]], console: Console) -> None:
    """Prints what each case will take: case, host region, device buffers, peak host memory."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("case", "host region", "device buffers", "peak host memory"):
        table.add_column(column, justify="left" if column == "case" else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
