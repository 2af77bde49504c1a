"""Figures as SVG and PNG: the same bytes for the same result."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from ecbench.report.plots.style import BAD, GRID, INK, MUTED, PAPER, SERIES, new_figure, plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ecbench.report.plots.style import Drawing

_THEME = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    BAD: "var(--bad)",
    PAPER: "var(--paper)",
    **{style.colour: f"var(--series-{number})" for number, style in enumerate(SERIES)},
}
"""Colours that a page chooses by its scheme."""
_COLOUR = re.compile("|".join(_THEME))
_IDENTIFIER = re.compile(r'(\bid="|\bhref="#|url\(#)')
_PROLOGUE = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def render_svg(drawing: Drawing) -> bytes:
    """A drawing as a file of its own, dark on white."""
    return _svg(_figure(drawing), transparent=False).encode()


def render_png(drawing: Drawing) -> bytes:
    """A drawing as a bitmap, dark on white."""
    stream = io.BytesIO()
    with plot_style():
        _figure(drawing).savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def render_inline_svg(drawing: Drawing, prefix: str) -> str:
    """A drawing as an element of a page, which gives it its colours and its width.

    Args:
        drawing: With a figure.
        prefix: Of all names inside, unique on the page.
    """
    assert drawing.figure is not None
    text = _METADATA.sub("", _PROLOGUE.sub("", _svg(drawing.figure, transparent=True)))
    head, _, body = text.partition(">")
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    body = _COLOUR.sub(lambda match: _THEME[match.group()], body)
    return _IDENTIFIER.sub(rf"\g<1>{prefix}", f"{head}>{body}").rstrip()


def _figure(drawing: Drawing) -> Figure:
    if drawing.figure is not None:
        return drawing.figure
    with plot_style():
        figure, (axes,) = new_figure(drawing.title, height_in=1.6)
        axes.set_axis_off()
        axes.text(0, 0.9, drawing.caption, wrap=True, va="top")
    return figure


def _svg(figure: Figure, *, transparent: bool) -> str:
    stream = io.StringIO()
    with plot_style():
        metadata = {"Date": None, "Creator": None}
        figure.savefig(stream, format="svg", transparent=transparent, metadata=metadata)
    return stream.getvalue()
