"""Bandwidth over block size: raw samples, medians, the ceiling and the cost model's curve."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

from ecbench.core.records import LegStatus
from ecbench.core.sweep_records import SweepResult
from ecbench.report.axes import AXIS_WORDS, SIZE_AXIS, axis_value, numeric_axes, size_of, varying_axes
from ecbench.report.plots.style import (
    INK,
    MAX_DOTS,
    MUTED,
    SERIES,
    Drawing,
    bandwidth_scale,
    in_words,
    new_figure,
    plot_style,
    set_size_axis,
    shortened,
    thinned,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from ecbench.core.records import CaseResult, LegResult, RunResult
    from ecbench.core.sweep_records import CostFit
    from ecbench.report.plots.style import Scale, SeriesStyle

NAME = "bandwidth-over-block-size"
TITLE = "Bandwidth over block size"
_PANEL_IN = 2.7
_LOG_FROM = 30.0
"""From this ratio of largest to smallest bandwidth on, the small ones would lie on the axis of a linear plot."""
_DOTS_ASIDE = 1.05
"""Rounds are drawn this factor to the right of their median, which would hide them."""
_CURVE_STEPS = 8
"""Points of the fitted curve between two measured sizes."""


@dataclass(frozen=True)
class _Point:
    size: int
    case: CaseResult
    leg: LegResult


@dataclass(frozen=True)
class _Series:
    label: str
    points: tuple[_Point, ...]


def draw_size_curve(result: RunResult[CaseResult]) -> Drawing:
    """A panel per direction, a series per combination of the other axes."""
    series, total = _series_by_direction(result)
    sizes = sorted({point.size for lines in series.values() for line in lines for point in line.points})
    if not sizes:
        return in_words(NAME, TITLE, "no leg with a block size passed with samples.")
    if len(sizes) == 1:
        return in_words(NAME, TITLE, f"only one block size was measured ({sizes[0]} bytes), and one point is no curve.")
    fits = result.fits if isinstance(result, SweepResult) else []
    with plot_style():
        figure, panels = new_figure(TITLE, 1.1 + _PANEL_IN * len(series), len(series))
        scale = bandwidth_scale(max(_most(line) for lines in series.values() for line in lines))
        for axes, (direction, lines) in zip(panels, series.items(), strict=True):
            _draw_panel(axes, direction, lines, scale, fits)
            set_size_axis(axes, sizes, "block size")
        handles = {
            label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=2 if len(handles) > 1 else 1)
    return Drawing(NAME, TITLE, _caption(series, total, bool(fits)), figure)


def _caption(series: dict[str, list[_Series]], total: int, fitted: bool) -> str:
    parts = ["Marks are medians with their 95% intervals, dots beside them rounds; the dashed line is the ceiling."]
    if fitted:
        parts.append("Curves are the cost model; marks without one are joined.")
    drawn = max(len(lines) for lines in series.values())
    if drawn < total:
        parts.append(f"{drawn} of {total} combinations of the other axes are drawn, largest values first.")
    return " ".join(parts)


def _series_by_direction(result: RunResult[CaseResult]) -> tuple[dict[str, list[_Series]], int]:
    """The series to draw in each panel, and how many there are in the fullest."""
    others = [axis for axis in varying_axes(result) if axis != SIZE_AXIS]
    found: defaultdict[str, defaultdict[tuple[str, ...], list[_Point]]] = defaultdict(lambda: defaultdict(list))
    for case in _largest_first(result.cases, others):
        size = size_of(case)
        for leg in case.legs:
            if size is not None and leg.samples and leg.status is LegStatus.PASSED:
                found[leg.direction][tuple(_words(case, axis) for axis in others)].append(_Point(size, case, leg))
    drawn = {direction: _make_series(lines) for direction, lines in found.items()}
    return drawn, max((len(lines) for lines in found.values()), default=0)


def _largest_first(cases: Sequence[CaseResult], others: Sequence[str]) -> list[CaseResult]:
    """Where not all series fit, those with much to copy say most about bandwidth."""
    numeric = numeric_axes(cases, others)
    return sorted(cases, key=lambda case: [-float(str(case.params[axis])) for axis in numeric])


def _words(case: CaseResult, axis: str) -> str:
    return f"{AXIS_WORDS.get(axis, axis)} {axis_value(case, axis)}"


def _make_series(lines: dict[tuple[str, ...], list[_Point]]) -> list[_Series]:
    return [
        _Series(
            shortened(", ".join(key), 40) or "median, 95% interval", tuple(sorted(points, key=lambda point: point.size))
        )
        for key, points in list(lines.items())[: len(SERIES)]
    ]


def _most(line: _Series) -> float:
    return max(point.leg.bandwidth_bytes_per_s or 0.0 for point in line.points)


def _draw_panel(axes: Axes, direction: str, lines: Sequence[_Series], scale: Scale, fits: Sequence[CostFit]) -> None:
    room = MAX_DOTS // sum(len(line.points) for line in lines)
    for style, line in zip(SERIES, lines, strict=False):
        for point in line.points:
            values = [point.leg.copied_bytes / sample.total_s / scale.divisor for sample in point.leg.samples]
            dots = values[thinned(len(values), room)]
            axes.plot(
                [point.size * _DOTS_ASIDE] * len(dots),
                dots,
                ls="",
                marker=".",
                ms=3.5,
                color=style.colour,
                alpha=0.35,
                mew=0,
            )
        fit = _fit_of(line, fits)
        _draw_medians(axes, line, style, scale, "" if fit else "-")
        if fit:
            _draw_fit(axes, line, style.colour, scale, fit)
    _draw_ceiling(axes, lines, scale)
    lowest, highest = axes.dataLim.intervaly
    if lowest > 0 and highest / lowest > _LOG_FROM:
        axes.set_yscale("log")
        # The usual labels are formulas, which are switched off so that no name is taken for one.
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(direction, color=INK)
    axes.set_ylabel(f"bandwidth ({scale.unit})")


def _draw_medians(axes: Axes, line: _Series, style: SeriesStyle, scale: Scale, joined_by: str) -> None:
    medians = [(point.leg.bandwidth_bytes_per_s or 0.0) / scale.divisor for point in line.points]
    lows = [_bandwidth(point, point.leg.ci_high_s) / scale.divisor for point in line.points]
    highs = [_bandwidth(point, point.leg.ci_low_s) / scale.divisor for point in line.points]
    below = [max(0.0, middle - low) for middle, low in zip(medians, lows, strict=True)]
    above = [max(0.0, high - middle) for middle, high in zip(medians, highs, strict=True)]
    axes.errorbar(
        [point.size for point in line.points],
        medians,
        yerr=[below, above],
        color=style.colour,
        marker=style.marker,
        ms=5,
        lw=1.3,
        ls=joined_by,
        elinewidth=1.3,
        capsize=2,
        label=line.label,
    )


def _bandwidth(point: _Point, seconds: float | None) -> float:
    return point.leg.copied_bytes / seconds if seconds else point.leg.bandwidth_bytes_per_s or 0.0


def _draw_ceiling(axes: Axes, lines: Sequence[_Series], scale: Scale) -> None:
    ceilings: defaultdict[int, list[float]] = defaultdict(list)
    for line in lines:
        for point in line.points:
            if point.leg.ceiling_bytes_per_s is not None:
                ceilings[point.size].append(point.leg.ceiling_bytes_per_s / scale.divisor)
    sizes = sorted(ceilings)
    axes.plot(sizes, [median(ceilings[size]) for size in sizes], color=MUTED, ls="--", lw=1.4, label="ceiling")


def _fit_of(line: _Series, fits: Sequence[CostFit]) -> CostFit | None:
    """The model of a series; one point needs none."""
    if len({point.size for point in line.points}) == 1:
        return None
    return next((fit for fit in fits if _belongs(fit, line.points[0])), None)


def _draw_fit(axes: Axes, line: _Series, colour: str, scale: Scale, fit: CostFit) -> None:
    from ecbench.stats.sweep_model import predict_s  # noqa: PLC0415 - imports scipy

    sizes = [point.size for point in line.points]
    between = _geometric_between(sizes)
    descriptors = between([float(point.leg.descriptors) for point in line.points])
    copied = between([float(point.leg.copied_bytes) for point in line.points])
    predicted = [
        volume / predict_s(fit, max(1, round(count)), round(volume)) / scale.divisor
        for count, volume in zip(descriptors, copied, strict=True)
    ]
    axes.plot(between([float(size) for size in sizes]), predicted, color=colour, lw=1.3)


def _belongs(fit: CostFit, point: _Point) -> bool:
    group, leg = fit.group, point.leg
    return (group.engine, group.direction, group.writer, group.host_memory) == (
        leg.engine,
        leg.direction,
        leg.writer,
        str(point.case.params.get("host_memory")),
    )


def _geometric_between(sizes: Sequence[int]) -> Callable[[Sequence[float]], list[float]]:
    """Gives what was so many at each size at sizes between them, on doubling scales."""
    known = np.log2(sizes)
    wanted = np.concatenate([np.linspace(a, b, _CURVE_STEPS, endpoint=False) for a, b in pairwise(known)])
    wanted = np.append(wanted, known[-1])

    def between(values: Sequence[float]) -> list[float]:
        logarithms = np.log2(np.maximum(values, 1.0))
        return [float(value) for value in np.exp2(np.interp(wanted, known, logarithms))]

    return between
