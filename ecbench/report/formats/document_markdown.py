"""A document as Markdown, for kinds of result that have no rendering of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.formats.markdown import escape, table

if TYPE_CHECKING:
    from ecbench.report.documents import Document, Section


def render_document_markdown(document: Document) -> str:
    """A heading, warnings, answers, and a section per table."""
    lines = [f"# {escape(document.title)}", "", escape(document.subtitle), ""]
    for warning in document.warnings:
        lines += [f"> **{escape(warning)}**", ""]
    for answer in document.answers:
        lines += [f"**{escape(answer.question)}** {escape(answer.text)}", ""]
    for section in document.shown_sections:
        lines += _section_lines(section)
    return "\n".join([*lines, *([escape(document.footer), ""] if document.footer else [])])


def _section_lines(section: Section) -> list[str]:
    lines = [f"## {escape(section.heading)}", "", *([escape(section.lead), ""] if section.lead else [])]
    if section.table is not None and section.table.rows:
        lines += table(map(escape, section.table.columns), [row.cells for row in section.table.rows])
    notes = [f"- {escape(note)}" for note in section.notes]
    return [*lines, *notes, ""] if notes else lines
