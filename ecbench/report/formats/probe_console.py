"""A pointer probe in a terminal: one table for one version, a matrix for several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ecbench.core.probe_records import Ruling
from ecbench.report.probe_figures import (
    FINDING_COLUMNS,
    RULING_COLUMNS,
    case_notes,
    case_title,
    finding_groups,
    matrix_columns,
    matrix_notes,
    matrix_rows,
    not_probed_lines,
    probed,
    ruling_row,
    unexpected_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from ecbench.core.probe_records import ProbeCase, ProbeResult

_STYLES = {Ruling.SAFE: "green", Ruling.WARN: "yellow", Ruling.FAILS: "red", Ruling.CORRUPTS: "bold red", None: "dim"}


def print_probe(result: ProbeResult, console: Console) -> None:
    """Prints the rulings, what to use, and what nobody expected."""
    cases = probed(result.cases)
    if len(cases) == 1:
        _print_rulings(cases[0], console)
    elif cases:
        _print_matrix(cases, console)
    for case in cases:
        _print_lines(unexpected_lines(case), console, case_title(case) if len(cases) > 1 else None)
    for line in not_probed_lines(result.cases):
        console.print(Text(line, style="bold red"))


def _print_rulings(case: ProbeCase, console: Console) -> None:
    console.print(Text(case_title(case), style="bold"))
    table = _table(RULING_COLUMNS, {"ns/element"})
    for convention in case.conventions:
        name, ruling, cost, remark = ruling_row(convention)
        table.add_row(Text(name), Text(ruling, style=_STYLES[convention.ruling]), Text(cost), Text(remark))
    console.print(table)
    for note in case_notes(case):
        console.print(Text(note))
    console.print(Text(case.advice, style="bold"))


def _print_matrix(cases: Sequence[ProbeCase], console: Console) -> None:
    table = _table(matrix_columns(cases))
    for name, cells in matrix_rows(cases):
        table.add_row(Text(name), *(Text(cell.text, style=_STYLES[cell.ruling]) for cell in cells))
    console.print(table)
    for note in matrix_notes(cases):
        console.print(Text(note))


def _print_lines(lines: Sequence[str], console: Console, title: str | None) -> None:
    for line in lines:
        console.print(Text(f"{title}: {line}" if title else line, style="bold red"))


def print_probe_details(result: ProbeResult, console: Console) -> None:
    """Prints every finding: what became of each class of value, method by method."""
    for case in probed(result.cases):
        for group, rows in finding_groups(case):
            console.print()
            console.print(Text(f"{case_title(case)}: {group}", style="bold"))
            table = _table(FINDING_COLUMNS)
            for row in rows:
                table.add_row(*map(Text, row))
            console.print(table)


def _table(columns: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return table
