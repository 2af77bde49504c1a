"""A sweep in a terminal: its cells, then what their times say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ecbench.core.records import LegStatus
from ecbench.report.figures import environment_line, stage_line, summary, warnings
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
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from ecbench.core.sweep_records import SweepResult

MAX_ROWS = 200
MAX_COALESCING_ROWS = 24
"""Rows of a table that a terminal shows; files hold all."""
_STYLES = {
    LegStatus.PASSED: "green",
    LegStatus.FAILED: "bold red",
    LegStatus.ERROR: "bold red",
    LegStatus.SKIPPED: "yellow",
}
_WORDS = frozenset({"cell", "leg", "bytes", "engine", "blocks", "plan"})
_WIDE_COLUMNS = 100
"""From this width on, columns stand two spaces apart, as in a round trip."""


def print_sweep(result: SweepResult, console: Console) -> None:
    """Prints warnings, cells, the cost model and how it ended."""
    console.print(Text(environment_line(result)))
    for warning in warnings(result):
        console.print(Text(warning, style="bold yellow"))
    _print_cells(result, console)
    _print_plans(result, console)
    _print_model(result, console)
    _print_lines("notes", sweep_notes(result), console)
    console.print()
    console.print(Text(summary(result), style="bold"))
    console.print(Text(stage_line(result), style="dim"))


def _print_cells(result: SweepResult, console: Console) -> None:
    legs = [(case, leg) for case in result.cases for leg in case.legs]
    # What went wrong is never among the rows that are left out.
    first = sorted(legs, key=lambda pair: pair[1].status in {LegStatus.PASSED, LegStatus.SKIPPED})
    shown = legs if len(legs) <= MAX_ROWS else first[:MAX_ROWS]
    console.print()
    rows = [
        [*map(Text, cell_row(case, leg)[:-1]), Text(cell_row(case, leg)[-1], _STYLES[leg.status])]
        for case, leg in shown
    ]
    _print_table(CELL_COLUMNS, rows, console)
    _print_omission(len(legs) - len(shown), console)


def _print_plans(result: SweepResult, console: Console) -> None:
    rows = plan_rows(result)
    if rows:
        console.print()
        console.print(Text.assemble(("plans", "bold"), f": {PLAN_EXPLAINED}"))
        _print_table(PLAN_COLUMNS, [[*map(Text, row)] for row in rows[:MAX_ROWS]], console)
        _print_omission(max(0, len(rows) - MAX_ROWS), console)


def _print_model(result: SweepResult, console: Console) -> None:
    if result.fits:
        console.print()
        console.print(Text.assemble(("cost model", "bold"), f": {MODEL_EXPLAINED}"))
        _print_table(FIT_COLUMNS, [[*map(Text, fit_row(fit))] for fit in result.fits], console)
    _print_lines("where it does not hold", fit_remarks(result), console)
    _print_lines("which engine where", crossover_lines(result), console)
    if result.coalescing:
        console.print()
        console.print(Text.assemble(("coalescing", "bold"), ": time of blocks apart over time of runs joined"))
        shown = result.coalescing[:MAX_COALESCING_ROWS]
        _print_table(COALESCING_COLUMNS, [[*map(Text, coalescing_row(gain))] for gain in shown], console)
        _print_omission(len(result.coalescing) - len(shown), console)


def _print_omission(rows: int, console: Console) -> None:
    if rows:
        console.print(Text(f"... and {rows} more; the files hold all", style="dim"))


def _print_lines(title: str, lines: Sequence[str], console: Console) -> None:
    if lines:
        console.print()
        console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Text(f"- {line}"))


def print_sweep_plan(rows: Sequence[tuple[str, ...]], totals: str, console: Console) -> None:
    """Prints the cells of a sweep that has not run: cell, descriptors, bytes, expected time."""
    shown = rows[:MAX_ROWS]
    _print_table(("cell", "descr.", "to copy", "expected"), [[*map(Text, row)] for row in shown], console)
    if len(rows) > len(shown):
        console.print(Text(f"... and {len(rows) - len(shown)} more", style="dim"))
    console.print(Text(totals, style="bold"))


def _print_table(columns: Iterable[str], rows: Iterable[Sequence[Text]], console: Console) -> None:
    spaces = 2 if console.width >= _WIDE_COLUMNS else 1
    table = Table(box=None, pad_edge=False, padding=(0, spaces, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if column in _WORDS else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
