"""A document in a terminal, or as plain aligned text in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ecbench.report.documents import Tone

if TYPE_CHECKING:
    from rich.console import Console

    from ecbench.report.documents import Document, Section
    from ecbench.report.documents import Table as DocumentTable

_STYLES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.CAUTION: "yellow", Tone.BAD: "bold red"}


def print_document(document: Document, console: Console) -> None:
    """Prints warnings, answers and sections, each table as wide as the terminal allows."""
    console.print(Text(document.title, style="bold"))
    console.print(Text(document.subtitle))
    for warning in document.warnings:
        console.print(Text(warning, style="bold yellow"))
    for answer in document.answers:
        console.print(Text.assemble((f"{answer.question} ", "bold"), (answer.text, _STYLES[answer.tone])))
    for section in document.shown_sections:
        _print_section(section, console)
    if document.footer:
        console.print()
        console.print(Text(document.footer, style="dim"))


def _print_section(section: Section, console: Console) -> None:
    console.print()
    console.print(Text.assemble((section.heading, "bold"), f": {section.lead}" if section.lead else ""))
    if section.table is not None and section.table.rows:
        console.print(_table(section.table))
    for note in section.notes:
        console.print(Text(f"note: {note}"))


def _table(content: DocumentTable) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in content.columns:
        table.add_column(Text(column), justify="right" if column in content.numeric else "left", overflow="fold")
    for row in content.rows:
        *cells, last = row.cells
        table.add_row(*map(Text, cells), Text(last, style=_STYLES[row.tone]))
    return table
