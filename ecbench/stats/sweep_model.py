"""What the times of a sweep say: a fit per group, what coalescing gives, and where engines cross."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ecbench.core.sweep_records import Coalescing, CostFit, Departure, Estimate, Step, SweepResult
from ecbench.core.units import format_bytes
from ecbench.stats.cell_groups import group_cells
from ecbench.stats.cost_model import MAX_RELATIVE_ERROR, UnfitError, fit_model, held_out_error, relative_errors
from ecbench.stats.crossovers import FittedGroup, find_crossovers
from ecbench.stats.summary import recompute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecbench.core.sweep_records import CellGroup
    from ecbench.stats.cell_groups import MeasuredCell, Work
    from ecbench.stats.cost_model import Cut, Model

DEPARTURE = 1.25
"""A cell whose time is off by more than this factor is listed: the model's aim is 20%, and noise takes some."""
CACHE_SLACK = 2.0
"""A step this factor away from a cache's size may still be that cache: other data and gaps between runs use it too."""


def with_model(result: SweepResult) -> SweepResult:
    """Computes the cost model of a result from its samples.

    Args:
        result: A sweep, complete or not.

    Returns:
        The same result with every figure that follows from the samples.

    Raises:
        DataError: A sample with an impossible time.
    """
    cases = recompute(result).cases
    cache = result.environment.last_level_cache_bytes
    fitted: list[FittedGroup] = []
    notes: list[str] = []
    for group, cells in group_cells(cases).items():
        try:
            fitted.append(_fit_group(group, cells))
        except UnfitError as error:
            notes.append(f"{group_name(group)}: no model: {error}")
    return msgspec.structs.replace(
        result,
        cases=cases,
        fits=[_cost_fit(one, cache) for one in fitted],
        coalescing=[gain for one in fitted for gain in _coalescing(one)],
        crossovers=find_crossovers(fitted),
        model_notes=notes,
    )


def predict_s(fit: CostFit, descriptors: int, copied_bytes: int) -> float:
    """Seconds that a batch takes by a fit.

    Args:
        fit: Any fit of a sweep.
        descriptors: Copies in the batch.
        copied_bytes: Bytes of the batch.
    """
    bandwidth, step = fit.bandwidth_bytes_per_s.value, fit.step
    if step is not None:
        size = copied_bytes if step.axis == "copied_bytes" else copied_bytes / descriptors
        if size <= math.sqrt(step.below_bytes * step.above_bytes):
            bandwidth = step.bandwidth_below_bytes_per_s
    return fit.fixed_s.value + descriptors * fit.descriptor_s.value + copied_bytes / bandwidth


def group_name(group: CellGroup) -> str:
    """A group in words."""
    return f"{group.engine} {group.direction} ({group.writer}, {group.host_memory})"


def _fit_group(group: CellGroup, cells: Sequence[MeasuredCell]) -> FittedGroup:
    observations = [cell.observation for cell in cells]
    model = fit_model(observations)
    per_byte, error = model.constants[2], model.errors[2]
    if not per_byte > 0 or error > MAX_RELATIVE_ERROR * per_byte:
        raise UnfitError("the cells are too small for their bandwidth to show: give larger blocks or more of them")
    return FittedGroup(group, cells, model, float(np.median(relative_errors(model, observations))))


def _cost_fit(fitted: FittedGroup, cache_bytes: int | None) -> CostFit:
    model = fitted.model
    per_descriptor, per_byte = model.constants[1], model.constants[2]
    return CostFit(
        group=fitted.group,
        cells=len(fitted.cells),
        fixed_s=_estimate(model, 0),
        descriptor_s=_estimate(model, 1),
        bandwidth_bytes_per_s=_bandwidth(model),
        step=_step(model, cache_bytes) if model.cut is not None else None,
        half_bandwidth_bytes=float(per_descriptor / per_byte),
        median_error=fitted.median_error,
        held_out_error=held_out_error([cell.observation for cell in fitted.cells]),
        departures=_departures(fitted),
    )


def _estimate(model: Model, index: int) -> Estimate:
    value, width = float(model.constants[index]), model.half_width * float(model.errors[index])
    return Estimate(value=value, low=max(0.0, value - width), high=value + width)


def _bandwidth(model: Model) -> Estimate:
    """The interval of the logarithm, so that its ends are positive and finite."""
    value = 1 / float(model.constants[2])
    factor = math.exp(model.half_width * float(model.errors[2]) * value)
    return Estimate(value=value, low=value / factor, high=value * factor)


def _step(model: Model, cache_bytes: int | None) -> Step:
    cut = model.cut
    assert cut is not None
    return Step(
        axis=cut.axis,
        below_bytes=round(cut.below_bytes),
        above_bytes=round(cut.above_bytes),
        bandwidth_below_bytes_per_s=1 / float(model.constants[3]),
        likely_cause=_likely_cause(cut, cache_bytes),
    )


def _likely_cause(cut: Cut, cache_bytes: int | None) -> str | None:
    if cache_bytes is None or cut.axis != "copied_bytes":
        return None
    # A copy touches its source and its destination.
    if 2 * cut.below_bytes / CACHE_SLACK <= cache_bytes <= 2 * cut.above_bytes * CACHE_SLACK:
        return f"the last-level cache of {format_bytes(cache_bytes)}"
    return None


def _departures(fitted: FittedGroup) -> list[Departure]:
    found = []
    for cell in fitted.cells:
        predicted_s = _predict(fitted.model, cell.descriptors, cell.copied_bytes)
        if max(cell.seconds / predicted_s, predicted_s / cell.seconds) > DEPARTURE:
            found.append(Departure(case_id=cell.case_id, measured_s=cell.seconds, predicted_s=predicted_s))
    return sorted(found, key=lambda departure: -abs(math.log(departure.ratio)))


def _predict(model: Model, descriptors: int, copied_bytes: int) -> float:
    return float(model.predict(np.array([float(descriptors)]), np.array([float(copied_bytes)]))[0])


def _coalescing(fitted: FittedGroup) -> Iterator[Coalescing]:
    """One entry per work whose blocks have neighbours."""
    by_work: dict[Work, dict[int, MeasuredCell]] = {}
    for cell in fitted.cells:
        if cell.run_length > 1:
            by_work.setdefault(cell.work, {})[cell.descriptors] = cell
    for measured in by_work.values():
        cell = next(iter(measured.values()))
        apart, joined = cell.blocks, -(-cell.blocks // cell.run_length)
        predicted = [_predict(fitted.model, count, cell.copied_bytes) for count in (apart, joined)]
        both = apart in measured and joined in measured
        yield Coalescing(
            group=fitted.group,
            block_size_bytes=cell.block_size_bytes,
            blocks=cell.blocks,
            run_length=cell.run_length,
            byte_offset=cell.byte_offset,
            descriptors_apart=apart,
            descriptors_joined=joined,
            predicted_speedup=predicted[0] / predicted[1],
            measured_speedup=measured[apart].seconds / measured[joined].seconds if both else None,
        )
