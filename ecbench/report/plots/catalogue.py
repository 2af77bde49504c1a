"""Which result gets which plots. A new plot is a file beside this one and a line in `PLOTS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecbench.report.plots import legs
from ecbench.report.plots.heat_map import draw_heat_map
from ecbench.report.plots.legs import draw_legs
from ecbench.report.plots.power_curve import draw_power_curve
from ecbench.report.plots.ratios import draw_ratios
from ecbench.report.plots.saved_by_block_size import draw_saved_by_block_size
from ecbench.report.plots.size_curve import draw_size_curve
from ecbench.report.plots.stored_chunks import draw_stored_chunks
from ecbench.report.plots.style import marked
from ecbench.report.plots.time_split import draw_time_split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ecbench.core.records import CaseResult, Environment, RunResult
    from ecbench.report.kinds import AnyResult
    from ecbench.report.plots.style import Drawing
    from ecbench.report.side_by_side import SideBySide


def _draw_few_legs(result: RunResult[CaseResult]) -> Drawing | None:
    """A grid of many cells has better plots than a line for each of them."""
    return draw_legs(result) if sum(len(case.legs) for case in result.cases) <= legs.MAX_ROWS else None


PLOTS: dict[str, tuple[Callable[[Any], Drawing | None], ...]] = {
    "roundtrip": (draw_legs, draw_time_split),
    "dsv4-swa-savings": (draw_stored_chunks, draw_saved_by_block_size),
    "selftest": (draw_power_curve,),
    "sweep": (draw_size_curve, draw_heat_map, draw_time_split, _draw_few_legs),
}
"""Plots by kind of result, in reading order; a kind that is not here has none."""


def draw(result: AnyResult) -> list[Drawing]:
    """Draws all plots of a result; those of no real transfer say so."""
    drawings = [drawing for make in PLOTS.get(result.kind, ()) if (drawing := make(result)) is not None]
    return [_marked(drawing, [result.environment]) for drawing in drawings]


def draw_side_by_side(sides: SideBySide, results: Sequence[AnyResult]) -> list[Drawing]:
    """Draws what several results have in common."""
    return [_marked(draw_ratios(sides), [result.environment for result in results])]


def _marked(drawing: Drawing, environments: Sequence[Environment]) -> Drawing:
    if any(environment.emulation for environment in environments):
        return marked(drawing, "EMULATED")
    if any(environment.device == "cpu" for environment in environments):
        return marked(drawing, "host to host")
    return drawing
