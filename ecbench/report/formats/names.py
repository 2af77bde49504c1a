"""The formats by name. Imports nothing, so that a command line can offer them at once."""

from __future__ import annotations

from enum import StrEnum


class ReportFormat(StrEnum):
    """Formats that a result can be shown in."""

    CONSOLE = "console"
    MARKDOWN = "markdown"
    HTML = "html"
    CSV = "csv"
    JSON = "json"
    JUNIT = "junit"
    PNG = "png"
    SVG = "svg"


ENDINGS = {
    ReportFormat.CONSOLE: ".txt",
    ReportFormat.MARKDOWN: ".md",
    ReportFormat.HTML: ".html",
    ReportFormat.CSV: ".csv",
    ReportFormat.JSON: ".json",
    ReportFormat.JUNIT: ".xml",
}
"""Of formats that are one text file; the others are a file per plot."""
DEFAULT_FILES = (ReportFormat.JSON, ReportFormat.MARKDOWN, ReportFormat.HTML)
"""What ``--out`` writes where nothing else is asked for."""
