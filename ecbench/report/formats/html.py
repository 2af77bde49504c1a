"""Results as one HTML page that needs nothing else: style and plots are inside, and nothing is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ecbench.report.plots.rendering import render_inline_svg
from ecbench.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.report.documents import Document
    from ecbench.report.plots.style import Drawing

_TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


@dataclass(frozen=True)
class Page:
    """A document with its plots.

    Args:
        document: What the page says.
        drawings: What it shows.
    """

    document: Document
    drawings: tuple[Drawing, ...] = ()


@dataclass(frozen=True)
class _Plot:
    title: str
    caption: str
    svg: Markup | None


def render_html(pages: Sequence[Page]) -> str:
    """One file with all pages, one after the other.

    Args:
        pages: At least one; any text in them may hold anything, it is shown as text.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.j2")
    shown = [
        {"document": page.document, "plots": [_plot(drawing, number) for drawing in page.drawings]}
        for number, page in enumerate(pages)
    ]
    return template.render(pages=shown, version=__version__).lstrip()


def _plot(drawing: Drawing, page_number: int) -> _Plot:
    if drawing.figure is None:
        return _Plot(drawing.title, drawing.caption, None)
    # Safe: matplotlib escapes the text of its own SVG.
    svg = Markup(render_inline_svg(drawing, f"p{page_number}-{drawing.name}-"))  # noqa: S704
    return _Plot(drawing.title, drawing.caption, svg)
