"""Where the time of a round goes: filling descriptors, submitting, copying, and the rest."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from ecbench.core.records import LegStatus
from ecbench.core.units import format_seconds
from ecbench.report.axes import AXIS_WORDS, axis_value, fullest_line, numeric_axes, varying_axes
from ecbench.report.plots.style import (
    HATCHES,
    PAPER,
    SERIES,
    Drawing,
    in_words,
    new_figure,
    plot_style,
    shortened,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ecbench.core.records import CaseResult, LegResult, RunResult

NAME = "time-split"
TITLE = "Where the time of a round goes"
MAX_ROWS = 24
"""Bars that one figure can hold legibly."""
PARTS = ("fill", "submit", "copy", "rest")
_ROW_IN = 0.42
_LEGEND = {
    "fill": "fill descriptors",
    "submit": "submit",
    "copy": "copy",
    "rest": "rest (waiting, bookkeeping)",
}


def draw_time_split(result: RunResult[CaseResult]) -> Drawing:
    """A stacked bar per leg that passed, as shares of the total."""
    cases = _one_line_of_cells(result)
    rows = [(case, leg) for case in cases for leg in case.legs if leg.samples and leg.status is LegStatus.PASSED]
    if not rows:
        return in_words(NAME, TITLE, "no leg passed with samples.")
    shown = rows[:MAX_ROWS]
    with plot_style():
        figure, (axes,) = new_figure(TITLE, height_in=1.4 + _ROW_IN * len(shown))
        _draw_bars(axes, shown)
    return Drawing(NAME, TITLE, _caption(result, cases, rows), figure)


def _one_line_of_cells(result: RunResult[CaseResult]) -> list[CaseResult]:
    """Of a grid, the cells along its first numeric axis."""
    axes = varying_axes(result)
    numeric = numeric_axes(result.cases, axes)
    if result.kind != "sweep" or not numeric:
        return list(result.cases)
    line = fullest_line(result.cases, [axis for axis in axes if axis != numeric[0]])
    return sorted(line, key=lambda case: float(str(case.params[numeric[0]])))


def _caption(
    result: RunResult[CaseResult], cases: Sequence[CaseResult], rows: Sequence[tuple[CaseResult, LegResult]]
) -> str:
    parts = ["Medians of the stages, as shares of the median total, which stands after the name."]
    if len(cases) < len(result.cases):
        fixed = [axis for axis in varying_axes(result) if len({repr(case.params.get(axis)) for case in cases}) == 1]
        values = ", ".join(f"{AXIS_WORDS.get(axis, axis)} {axis_value(cases[0], axis)}" for axis in fixed)
        parts.append(f"One line of the grid: {values}.")
    if len(rows) > MAX_ROWS:
        parts.append(f"The first {MAX_ROWS} of {len(rows)} legs are drawn.")
    return " ".join(parts)


def time_parts(leg: LegResult) -> dict[str, float]:
    """Median seconds of each of `PARTS`; the rest is what the stages leave of the median total."""
    stages = {name: median(getattr(sample, f"{name}_s") for sample in leg.samples) for name in PARTS[:-1]}
    total = median(sample.total_s for sample in leg.samples)
    return {**stages, "rest": max(0.0, total - sum(stages.values()))}


def _draw_bars(axes: Axes, rows: Sequence[tuple[CaseResult, LegResult]]) -> None:
    splits = [time_parts(leg) for _, leg in rows]
    starts = [0.0] * len(rows)
    for number, part in enumerate(PARTS):
        widths = [split[part] / sum(split.values()) * 100 for split in splits]
        axes.barh(
            range(len(rows)),
            widths,
            left=starts,
            height=0.36,
            label=_LEGEND[part],
            color=SERIES[(1, 3, 0, 4)[number]].colour,
            hatch=HATCHES[number],
            edgecolor=PAPER,
            linewidth=0.4,
        )
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    for row, (case, leg) in enumerate(rows):
        total = format_seconds(leg.median_s or 0.0)
        label = f"{shortened(f'{case.case_id} {leg.direction}', 42)}: {total}"
        axes.annotate(label, (0, row), xytext=(2, 9), textcoords="offset points", fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.8)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the round's total time (%)")
    axes.figure.legend(loc="outside lower center", ncols=2)
