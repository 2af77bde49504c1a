"""Two axes of a grid at once: the share of the ceiling that each cell reaches."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.records import LegStatus
from ecbench.report.axes import AXIS_WORDS, BYTES_AXES, SIZE_AXIS, axis_value, fullest_line, numeric_axes, varying_axes
from ecbench.report.figures import verdict
from ecbench.report.plots.style import Drawing, in_words, new_figure, plot_style, size_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

    from ecbench.core.records import CaseResult, LegResult, RunResult

NAME = "heat-map"
TITLE = "Share of the ceiling over two axes"
_CELL_IN = 0.34
_LIGHT_FROM = 0.55
"""Share of the ceiling above which cells are light and need dark letters."""
_NEEDED_AXES = 2


def draw_heat_map(result: RunResult[CaseResult]) -> Drawing:
    """A panel per direction; further axes are held at one value."""
    axes_names = varying_axes(result)
    numeric = sorted(numeric_axes(result.cases, axes_names), key=lambda axis: axis != SIZE_AXIS)
    if len(numeric) < _NEEDED_AXES:
        return in_words(NAME, TITLE, "it needs two axes of numbers with several values each.")
    x_axis, y_axis = numeric[:2]
    others = [axis for axis in axes_names if axis not in (x_axis, y_axis)]
    line = fullest_line(result.cases, others)
    cells = _cells(line, x_axis, y_axis)
    if not any(leg.samples for panel in cells.values() for leg in panel.values()):
        return in_words(NAME, TITLE, "no cell has a sample.")
    with plot_style():
        rows = len({y for panel in cells.values() for _, y in panel})
        figure, panels = new_figure(TITLE, 1.0 + (1.0 + _CELL_IN * rows) * len(cells), len(cells))
        for axes, (direction, panel) in zip(panels, cells.items(), strict=True):
            mesh = _draw_panel(axes, panel, x_axis, y_axis)
            axes.set_title(direction)
            bar = figure.colorbar(mesh, ax=axes, pad=0.02)
            bar.set_label("of ceiling")
            bar.outline.set_visible(False)
    return Drawing(NAME, TITLE, _caption(line[0], others), figure)


def _caption(case: CaseResult, others: Sequence[str]) -> str:
    text = "1.00 is one contiguous copy; lighter is nearer to it, or above. Empty cells were not measured."
    if not others:
        return text
    held = ", ".join(f"{AXIS_WORDS.get(axis, axis)} {axis_value(case, axis)}" for axis in others)
    return f"{text} Held: {held}."


def _cells(cases: Sequence[CaseResult], x_axis: str, y_axis: str) -> dict[str, dict[tuple[float, float], LegResult]]:
    panels: defaultdict[str, dict[tuple[float, float], LegResult]] = defaultdict(dict)
    for case in cases:
        place = (float(str(case.params[x_axis])), float(str(case.params[y_axis])))
        for leg in case.legs:
            panels[leg.direction][place] = leg
    return dict(panels)


def _draw_panel(axes: Axes, panel: dict[tuple[float, float], LegResult], x_axis: str, y_axis: str) -> QuadMesh:
    columns, rows = (sorted({place[index] for place in panel}) for index in (0, 1))
    shares = np.full((len(rows), len(columns)), np.nan)
    for (x, y), leg in panel.items():
        if leg.status is LegStatus.PASSED and leg.ceiling_ratio is not None:
            shares[rows.index(y), columns.index(x)] = leg.ceiling_ratio
    mesh = axes.pcolormesh(np.ma.masked_invalid(shares), cmap="cividis", vmin=0.0, vmax=1.0, edgecolors="none")
    for (x, y), leg in panel.items():
        _write(axes, (columns.index(x) + 0.5, rows.index(y) + 0.5), leg)
    axes.grid(visible=False)
    for set_ticks, values, axis in ((axes.set_xticks, columns, x_axis), (axes.set_yticks, rows, y_axis)):
        set_ticks([number + 0.5 for number in range(len(values))], [_tick(value, axis) for value in values])
    axes.set_xlabel(AXIS_WORDS.get(x_axis, x_axis))
    axes.set_ylabel(AXIS_WORDS.get(y_axis, y_axis))
    axes.tick_params(axis="x", rotation=45 if len(columns) > 6 else 0)  # noqa: PLR2004 - labels that fit side by side
    return mesh


def _tick(value: float, axis: str) -> str:
    return size_label(value) if axis in BYTES_AXES else f"{value:g}"


def _write(axes: Axes, place: tuple[float, float], leg: LegResult) -> None:
    if leg.status is not LegStatus.PASSED or leg.ceiling_ratio is None:
        axes.text(*place, verdict(leg).partition(":")[0], ha="center", va="center", fontsize=7, fontweight="bold")
        return
    dark_letters = leg.ceiling_ratio > _LIGHT_FROM
    axes.text(
        *place,
        f"{leg.ceiling_ratio:.2f}",
        ha="center",
        va="center",
        fontsize=7.5,
        color="#000000" if dark_letters else "#fffffe",
    )
