"""How plots look: legible on a phone, in print, in grey, in the dark and for colour-blind readers."""

from __future__ import annotations

import math
import textwrap
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ecbench.core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

WIDTH_IN = 5.2
"""Shown at the width of a phone, 9 pt letters are then still 9 px."""
INK = "#1f2328"
MUTED = "#59636e"
GRID = "#d1d9e0"
PAPER = "#ffffff"


class SeriesStyle(NamedTuple):
    """What tells one series from another, by colour and without it."""

    colour: str
    marker: str


SERIES = (
    SeriesStyle("#0072b2", "o"),
    SeriesStyle("#d55e00", "s"),
    SeriesStyle("#009e73", "^"),
    SeriesStyle("#a3508b", "D"),
    SeriesStyle("#b07d00", "v"),
    SeriesStyle("#3a8fc4", "P"),
)
"""Okabe and Ito's palette, its light tones darkened to 3:1 against white."""
HATCHES = ("////", "xxxx", "", "----")
"""Of stacked bars: colours that grey makes alike differ by these; the third part, the largest as a rule, is plain."""
BAD = "#b3261e"
MAX_DOTS = 2000
"""Raw samples drawn in one plot; from more, every n-th is taken, which the caption says."""
_TITLE_STYLE: dict[str, Any] = {"x": 0.01, "ha": "left", "fontsize": 10, "fontweight": "bold"}
_LABEL_CHARACTERS = 52
_TITLE_CHARACTERS = 62
_RC: dict[Any, Any] = {
    "font.size": 9.0,
    "font.family": "sans-serif",
    "axes.titlesize": 9.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "text.color": INK,
    "text.parse_math": False,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "hatch.linewidth": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "ecbench",
    "savefig.dpi": 160.0,
}


@dataclass(frozen=True)
class Drawing:
    """A plot, or words where there is nothing to plot.

    Args:
        name: For file names.
        title: What it shows.
        caption: How to read it and what was left out; the words, where there is no figure.
        figure: The plot; null where a plot would say nothing.
    """

    name: str
    title: str
    caption: str
    figure: Figure | None

    def __post_init__(self) -> None:
        """Lays the figure out once and for all: a second pass would move it, so that saving twice would differ."""
        if self.figure is not None and isinstance(self.figure.get_layout_engine(), ConstrainedLayoutEngine):
            with plot_style():
                self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")


def marked(drawing: Drawing, mark: str) -> Drawing:
    """Writes what must not be missed behind the title, where a plot that stands alone keeps it."""
    title = f"{drawing.title} ({mark})"
    if drawing.figure is not None:
        shown = drawing.figure.get_suptitle()
        for text in drawing.figure.texts:
            if text.get_text() == shown:
                text.set_text(f"{shown} ({mark})")
    return replace(drawing, title=title)


@contextmanager
def plot_style() -> Iterator[None]:
    """Applies the style to figures that are made or saved meanwhile; a letter that no font has is no reason to warn."""
    with mpl.rc_context(_RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def new_figure(title: str, height_in: float, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """Makes a figure with panels one below the other, which fits a phone.

    Args:
        title: Stands on top, folded.
        height_in: Of the whole figure, in inches.
        panels: At least one.
    """
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    figure.suptitle(textwrap.fill(title, _TITLE_CHARACTERS), **_TITLE_STYLE)
    axes = figure.subplots(panels, 1, squeeze=False)
    return figure, [row[0] for row in axes]


def in_words(name: str, title: str, words: str) -> Drawing:
    """A drawing that could not be drawn."""
    return Drawing(name, title, f"Not drawn: {words}", None)


def shortened(text: str, characters: int = _LABEL_CHARACTERS) -> str:
    """Cuts the middle out of a long label: both ends tell labels apart."""
    if len(text) <= characters:
        return text
    half = (characters - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


class Scale(NamedTuple):
    """A unit for an axis."""

    divisor: float
    unit: str


def bandwidth_scale(most_bytes_per_s: float) -> Scale:
    """The decimal unit in which the largest bandwidth has one to three digits before the point."""
    power = min(4, max(0, int(math.log10(most_bytes_per_s) // 3))) if most_bytes_per_s > 0 else 0
    return Scale(1000.0**power, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s")[power])


def size_label(size: float) -> str:
    """A size without digits that say nothing: ``4 KiB``, not ``4.00 KiB``."""
    number, unit = format_bytes(size).split()
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def set_size_axis(axes: Axes, sizes: Sequence[int], title: str) -> None:
    """Makes x an axis of sizes that double, with a label at measured sizes, as many as there is room for."""
    ordered = sorted(set(sizes))
    axes.set_xscale("log", base=2)
    axes.minorticks_off()
    ticks = _spread(ordered)
    axes.set_xticks(ticks, [size_label(size) for size in ticks])
    axes.set_xlabel(title)


def _spread(sizes: Sequence[int]) -> list[int]:
    """Sizes that lie far enough apart on a doubling axis for their labels: an eighth of its length."""
    reach = math.log2(sizes[-1] / sizes[0]) / 8 if len(sizes) > 1 else 0.0
    kept = [sizes[0]]
    for size in sizes[1:]:
        if math.log2(size / kept[-1]) >= reach:
            kept.append(size)
    return kept


def thinned(count: int, room: int) -> slice:
    """Takes every n-th of many, so that no more than ``room`` stay."""
    return slice(None, None, max(1, math.ceil(count / max(1, room))))
