"""The bandwidth of every leg: raw samples, median with interval, ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from ecbench.core.records import LegStatus
from ecbench.report.figures import verdict
from ecbench.report.plots.style import (
    BAD,
    INK,
    MAX_DOTS,
    MUTED,
    SERIES,
    Drawing,
    bandwidth_scale,
    in_words,
    new_figure,
    plot_style,
    shortened,
    thinned,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ecbench.core.records import CaseResult, LegResult, RunResult

NAME = "bandwidth-by-leg"
TITLE = "Bandwidth of every leg, against its ceiling"
MAX_ROWS = 40
"""Legs that one figure can hold legibly."""
_ROW_IN = 0.45
_DOTS_BELOW = 0.2
"""Rounds are drawn this part of a line below the interval, which would hide them."""


def draw_legs(result: RunResult[CaseResult]) -> Drawing:
    """A line per leg, in the order of the result."""
    rows = [(case, leg) for case in result.cases for leg in case.legs]
    if not any(leg.samples for _, leg in rows):
        return in_words(NAME, TITLE, "no leg has a sample.")
    shown = rows[:MAX_ROWS]
    with plot_style():
        figure, (axes,) = new_figure(TITLE, height_in=1.3 + _ROW_IN * len(shown))
        _draw_rows(axes, shown)
    return Drawing(NAME, TITLE, _caption(rows), figure)


def _caption(rows: Sequence[tuple[CaseResult, LegResult]]) -> str:
    samples = sum(len(leg.samples) for _, leg in rows)
    parts = [
        "Dots are rounds, the large mark is the median with its 95% interval, the bar is the median of the ceiling."
    ]
    if samples == 1:
        parts.append("There is only one sample, so nothing is known of its spread.")
    if samples > MAX_DOTS:
        parts.append(f"Of {samples:,} rounds, {MAX_DOTS:,} at most are drawn, evenly taken.")
    if len(rows) > MAX_ROWS:
        parts.append(f"The first {MAX_ROWS} of {len(rows)} legs are drawn.")
    return " ".join(parts)


def _draw_rows(axes: Axes, rows: Sequence[tuple[CaseResult, LegResult]]) -> None:
    measured = [leg for _, leg in rows if leg.samples]
    most = max(leg.copied_bytes / min(sample.total_s for sample in leg.samples) for leg in measured)
    most = max(most, *(leg.ceiling_bytes_per_s or 0.0 for leg in measured))
    scale = bandwidth_scale(most)
    room = MAX_DOTS // len(measured)
    for row, (case, leg) in enumerate(rows):
        _draw_label(axes, row, case, leg)
        if leg.samples:
            _draw_leg(axes, row, leg, scale.divisor, room)
    axes.set_ylim(len(rows) - 0.5, -0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, most / scale.divisor * 1.04)
    axes.set_xlabel(f"bandwidth ({scale.unit})")
    _add_legend(axes)


def _draw_label(axes: Axes, row: int, case: CaseResult, leg: LegResult) -> None:
    good = leg.status is LegStatus.PASSED
    suffix = "" if good else f": {verdict(leg)}" + ("" if leg.samples else ", not measured")
    label = shortened(f"{case.case_id} {leg.direction}", 52 - len(suffix)) + suffix
    axes.annotate(
        label,
        (0, row),
        xytext=(2, 7),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=8,
        color=INK if good else BAD,
        fontweight="normal" if good else "bold",
    )


def _draw_leg(axes: Axes, row: int, leg: LegResult, divisor: float, room: int) -> None:
    good = leg.status is LegStatus.PASSED
    colour = SERIES[0].colour if good else BAD
    values = [leg.copied_bytes / sample.total_s / divisor for sample in leg.samples]
    dots = values[thinned(len(values), room)]
    axes.plot(dots, [row + _DOTS_BELOW] * len(dots), ls="", marker=".", ms=5, color=colour, alpha=0.6, mew=0)
    if leg.ceiling_bytes_per_s is not None:
        axes.plot([leg.ceiling_bytes_per_s / divisor], [row], ls="", marker="|", ms=13, mew=2.2, color=MUTED)
    if leg.bandwidth_bytes_per_s is None or leg.ci_low_s is None or leg.ci_high_s is None:
        return
    ends = [leg.copied_bytes / seconds / divisor for seconds in (leg.ci_high_s, leg.ci_low_s)]
    axes.plot(ends, [row, row], color=colour, lw=1.6)
    marker = SERIES[0].marker if good else "X"
    axes.plot([leg.bandwidth_bytes_per_s / divisor], [row], ls="", marker=marker, ms=6, color=colour)


def _add_legend(axes: Axes) -> None:
    colour = SERIES[0].colour
    handles = [
        Line2D([], [], ls="", marker=".", ms=5, color=colour, alpha=0.6, mew=0, label="round"),
        Line2D([], [], marker="o", ms=6, color=colour, lw=1.6, label="median, 95% interval"),
        Line2D([], [], ls="", marker="|", ms=11, mew=2.2, color=MUTED, label="ceiling"),
    ]
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=3)
