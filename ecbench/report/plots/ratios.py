"""Several results against the first: the ratio of times with its interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from ecbench.report.plots.style import INK, SERIES, Drawing, in_words, new_figure, plot_style, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ecbench.report.side_by_side import MatchedLeg, SideBySide

NAME = "time-ratios"
MAX_ROWS = 24
"""Legs that one figure can hold legibly."""
_ROW_IN = 0.3
_LINE_IN = 0.16
_LEAST_REACH = 1.05
"""The axis shows at least 5% to both sides of 1, so that noise does not fill it."""


def draw_ratios(sides: SideBySide) -> Drawing:
    """A group per leg, a mark with its interval per further result."""
    title = f"Times against {shortened(sides.labels[0], 28)}"
    rows = [leg for leg in sides.legs if any(leg.ratios)]
    if not rows:
        return in_words(NAME, title, "no leg was measured on the same work in two results.")
    farthest = sorted(rows, key=_distance, reverse=True)[:MAX_ROWS]
    shown = [leg for leg in rows if leg in farthest]
    with plot_style():
        height = 1.3 + len(shown) * (_ROW_IN + _LINE_IN * (len(sides.labels) - 1))
        figure, (axes,) = new_figure(title, height)
        _draw_rows(axes, shown, sides.labels)
    caption = (
        "Left of 1 is faster than the first result. Bars are 95% intervals; where one covers 1, rounds cannot tell."
    )
    if len(rows) > MAX_ROWS:
        caption += f" Of {len(rows)} legs, the {MAX_ROWS} with ratios farthest from 1 are drawn."
    return Drawing(NAME, title, caption, figure)


def _distance(leg: MatchedLeg) -> float:
    return max(abs(math.log(ratio.value)) for ratio in leg.ratios if ratio)


def _draw_rows(axes: Axes, rows: Sequence[MatchedLeg], labels: Sequence[str]) -> None:
    axes.axvline(1.0, color=INK, lw=1)
    step = 0.62 / max(1, len(labels) - 1)
    for number, label in enumerate(labels[1:]):
        style = SERIES[number % len(SERIES)]
        found = [
            (row + (number + 1) * step, ratio) for row, leg in enumerate(rows) if (ratio := leg.ratios[number + 1])
        ]
        for place, ratio in found:
            axes.plot([ratio.low, ratio.high], [place, place], color=style.colour, lw=1.8)
        places, values = [place for place, _ in found], [ratio.value for _, ratio in found]
        axes.plot(values, places, ls="", marker=style.marker, ms=5.5, color=style.colour, label=shortened(label, 40))
    for row, leg in enumerate(rows):
        label = shortened(f"{leg.case_id} {leg.direction}")
        axes.annotate(label, (0, row), (2, -3), ("axes fraction", "data"), "offset points", fontsize=8)
    axes.set_ylim(len(rows) - 0.1, -0.35)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    _set_ratio_axis(axes, rows)
    axes.figure.legend(loc="outside lower center", ncols=1)


def _set_ratio_axis(axes: Axes, rows: Sequence[MatchedLeg]) -> None:
    """A doubling axis, as far to the left of 1 as to the right, so that half and twice look alike."""
    ends = [end for leg in rows for ratio in leg.ratios if ratio for end in (ratio.low, ratio.high)]
    reach = max(_LEAST_REACH, *ends, *(1 / end for end in ends)) ** 1.1
    axes.set_xscale("log", base=2)
    axes.set_xlim(1 / reach, reach)
    axes.set_xticks(_ratio_ticks(reach))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("time ratio (below 1: faster)")


def _ratio_ticks(reach: float) -> list[float]:
    """Round factors on both sides of 1, at most three on each."""
    steps = [factor for factor in (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 4, 8, 16, 64, 256) if factor <= reach][-3:]
    return [*(1 / factor for factor in reversed(steps)), 1.0, *steps]
