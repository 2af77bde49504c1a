"""The words and numbers that every format of a sweep shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.units import format_bandwidth, format_bytes, format_seconds
from ecbench.report.figures import ABSENT, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ecbench.core.records import CaseResult, LegResult
    from ecbench.core.sweep_records import Coalescing, CostFit, Crossover, CrossPoint, Estimate, SweepResult

CELL_COLUMNS = ("cell", "leg", "descr.", "rounds", "time", "95% interval", "bandwidth", "of ceiling", "bytes")
FIT_COLUMNS = ("engine", "leg", "cells", "fixed", "per descriptor", "bandwidth", "half of it at", "error", "held out")
COALESCING_COLUMNS = ("engine", "leg", "blocks", "runs of", "descriptors", "predicted", "measured")
MODEL_EXPLAINED = "seconds = fixed + descriptors * per descriptor + bytes / bandwidth, with 95% intervals"
_ALIKE_NOTES = {
    "working set of": "working sets that fit the last-level cache",
    "sample: ": "plans larger than the memory of a cell: a sample is copied, and the cell's parameters say what share",
}
"""Notes that differ in numbers alone, by how they begin."""
SHOWN_DEPARTURES = 3
"""Cells that a line about a fit names; the result holds all."""


def cell_row(case: CaseResult, leg: LegResult) -> tuple[str, ...]:
    """One direction of a cell as text, in the order of `CELL_COLUMNS`."""
    timed = leg.median_s is not None and leg.ci_low_s is not None and leg.ci_high_s is not None
    return (
        case.case_id,
        leg.direction,
        f"{leg.descriptors}" if leg.descriptors else ABSENT,
        f"{len(leg.samples)}",
        format_seconds(leg.median_s) if leg.median_s is not None else ABSENT,
        f"{format_seconds(leg.ci_low_s or 0)} to {format_seconds(leg.ci_high_s or 0)}" if timed else ABSENT,
        format_bandwidth(leg.bandwidth_bytes_per_s) if leg.bandwidth_bytes_per_s is not None else ABSENT,
        f"{leg.ceiling_ratio:.2f}" if leg.ceiling_ratio is not None else ABSENT,
        verdict(leg),
    )


def fit_row(fit: CostFit) -> tuple[str, ...]:
    """One fit as text, in the order of `FIT_COLUMNS`."""
    return (
        _engine(fit.group.engine, fit.group.writer, fit.group.host_memory),
        fit.group.direction,
        f"{fit.cells}",
        _with_interval(fit.fixed_s, format_seconds),
        _with_interval(fit.descriptor_s, format_seconds),
        _with_interval(fit.bandwidth_bytes_per_s, format_bandwidth),
        format_bytes(fit.half_bandwidth_bytes),
        f"{fit.median_error:.0%}",
        f"{fit.held_out_error:.0%}" if fit.held_out_error is not None else ABSENT,
    )


def _engine(engine: str, writer: str, host_memory: str) -> str:
    return f"{engine} ({writer}, {host_memory})"


def _with_interval(estimate: Estimate, show: Callable[[float], str]) -> str:
    return f"{show(estimate.value)} ({show(estimate.low)} to {show(estimate.high)})"


def fit_remarks(result: SweepResult) -> list[str]:
    """Where the models do not hold, and which groups have none."""
    several = len({(fit.group.writer, fit.group.host_memory) for fit in result.fits}) > 1
    lines = [line for fit in result.fits for line in _remarks(fit, _fit_name(fit, several=several))]
    return lines + result.model_notes


def _fit_name(fit: CostFit, *, several: bool) -> str:
    group = fit.group
    name = f"{group.engine} {group.direction}"
    return f"{name} ({group.writer}, {group.host_memory})" if several else name


def _remarks(fit: CostFit, name: str) -> Iterator[str]:
    if fit.step is not None:
        step = fit.step
        what = "batches" if step.axis == "copied_bytes" else "descriptors"
        cause = f", near {step.likely_cause}" if step.likely_cause else ""
        yield (
            f"{name}: one bandwidth does not hold: {format_bandwidth(step.bandwidth_below_bytes_per_s)} for {what} "
            f"of up to {format_bytes(step.below_bytes)}, {format_bandwidth(fit.bandwidth_bytes_per_s.value)} from "
            f"{format_bytes(step.above_bytes)} on{cause}"
        )
    if fit.departures:
        shown = [f"{one.case_id} {one.ratio:.2f} times" for one in fit.departures[:SHOWN_DEPARTURES]]
        more = "" if len(fit.departures) <= SHOWN_DEPARTURES else ", ..."
        yield (
            f"{name}: {len(fit.departures)} of {fit.cells} cells are off the model by more than a quarter, measured "
            f"over predicted: {', '.join(shown)}{more}"
        )


def crossover_lines(result: SweepResult) -> list[str]:
    """Which engine is faster where, in words."""
    several = len({(one.writer, one.host_memory) for one in result.crossovers}) > 1
    return [line for one in result.crossovers if one.cells for line in _crossover(one, several=several)]


def _crossover(one: Crossover, *, several: bool) -> Iterator[str]:
    where = f"{one.direction} ({one.writer}, {one.host_memory})" if several else one.direction
    proof = f"{one.agreeing} of {one.cells} measured cells agree"
    if one.never_slower is not None:
        other = one.engines[one.never_slower == one.engines[0]]
        yield f"{where}: {one.never_slower} is ahead of {other} or level with it everywhere ({proof})"
    elif not (one.by_size or one.by_count):
        yield f"{where}: {one.engines[0]} and {one.engines[1]} differ by less than their models' errors ({proof})"
    for points, crossed, fixed in (
        (one.by_count, _count_span, _size_span),
        (one.by_size, _size_span, _count_span),
    ):
        for (below, above), alike in _alike(points).items():
            yield f"{where}: {below} below {crossed(alike)}, {above} above, at {fixed(alike)} ({proof})"


def _alike(points: Sequence[CrossPoint]) -> dict[tuple[str, str], list[CrossPoint]]:
    found: dict[tuple[str, str], list[CrossPoint]] = {}
    for point in points:
        found.setdefault((point.faster_below, point.faster_above), []).append(point)
    return found


def _count_span(points: Sequence[CrossPoint]) -> str:
    counts = [round(point.descriptors) for point in points]
    return f"{_span(min(counts), max(counts), str)} descriptors"


def _size_span(points: Sequence[CrossPoint]) -> str:
    sizes = [point.descriptor_bytes for point in points]
    return f"descriptors of {_span(min(sizes), max(sizes), format_bytes)}"


def _span(low: float, high: float, show: Callable[[float], str]) -> str:
    return show(low) if show(low) == show(high) else f"{show(low)} to {show(high)}"


def coalescing_row(gain: Coalescing) -> tuple[str, ...]:
    """What joining blocks gives in one cell as text, in the order of `COALESCING_COLUMNS`."""
    offset = f" at offset {gain.byte_offset}" if gain.byte_offset else ""
    return (
        _engine(gain.group.engine, gain.group.writer, gain.group.host_memory),
        gain.group.direction,
        f"{gain.blocks} of {format_bytes(gain.block_size_bytes)}{offset}",
        f"{gain.run_length}",
        f"{gain.descriptors_apart} to {gain.descriptors_joined}",
        f"{gain.predicted_speedup:.2f} times",
        f"{gain.measured_speedup:.2f} times" if gain.measured_speedup is not None else ABSENT,
    )


def sweep_notes(result: SweepResult) -> list[str]:
    """Notes of the cells, each once with the number of legs it is true of; reasons are in the cells' own rows."""
    counts: dict[str, int] = {}
    for case in result.cases:
        for leg in case.legs:
            for note in leg.notes:
                kind = next((words for start, words in _ALIKE_NOTES.items() if note.startswith(start)), note)
                counts[kind] = counts.get(kind, 0) + 1
            if leg.reason:
                reason = f"{leg.status.value}: {leg.reason}"
                counts[reason] = counts.get(reason, 0) + 1
    return [
        f"{note} ({count} legs)" if count > 1 else note
        for note, count in counts.items()
        if note != result.environment.emulation
    ]
