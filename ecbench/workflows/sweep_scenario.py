"""The sweep scenario: what a TOML file with ``workload = "sweep"`` may say, and the grid that follows from it."""

from __future__ import annotations

import itertools
import math
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ecbench.core.durations import parse_duration
from ecbench.core.errors import EcbenchError, ScenarioError
from ecbench.core.toml import convert_table, line_of_key
from ecbench.core.units import format_bytes, parse_size
from ecbench.workflows.scenarios import SWEEP
from ecbench.workflows.sweep_axes import LEG_AXIS, read_axes
from ecbench.workflows.sweep_family import DEFAULT_FAMILY, find_family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ecbench.targets.protocol import Target
    from ecbench.workflows.scenarios import ScenarioFile
    from ecbench.workflows.sweep_axes import AxisValues
    from ecbench.workflows.sweep_family import Cell, CellFamily, Devices

MAX_ROUNDS = 10_000
DEFAULT_ROUNDS = 7
"""As in a round trip: the least odd number whose interval of the median reaches 95% without its extremes."""
MAX_CELLS = 1_000_000
"""A grid above is a mistake: its cells alone would take a gigabyte."""
CONFIRMED_CELLS = 10_000
"""From this many cells on, a user must say that they are meant."""

_AXIS = re.compile(r"axis '?(\w+)")


class SweepScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A scenario file."""

    workload: Literal["sweep"]
    title: str
    axes: dict[str, object]
    cells: str = DEFAULT_FAMILY
    rounds: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROUNDS)] = DEFAULT_ROUNDS
    max_batch: int | str | None = None
    """Largest batch of the grid, like "64MiB": points of more bytes are none of its cells."""
    budget: str | None = None
    """Time for all rounds, like "60s"; rounds then go where the interval is widest."""


@dataclass(frozen=True)
class SweepPlan:
    """A scenario with what the command line says.

    Args:
        name: The scenario's name.
        family: Kind of its cells.
        axes: Every axis with its values; not yet completed by the device.
        max_batch_bytes: Points of more bytes are no cells; None where there is no limit.
        rounds: Rounds per cell.
        budget_s: Time for all rounds; None where rounds decide.
    """

    name: str
    family: CellFamily
    axes: AxisValues
    max_batch_bytes: int | None
    rounds: int
    budget_s: float | None


def plan_sweep(
    file: ScenarioFile,
    given: Mapping[str, object],
    *,
    max_batch_bytes: int | None = None,
    rounds: int | None = None,
    budget: str | None = None,
) -> SweepPlan:
    """Checks a scenario file and applies what the command line says.

    Args:
        file: The scenario.
        given: Axes from the command line; each replaces the file's.
        max_batch_bytes: Largest batch, where the command line says so.
        rounds: Rounds per cell, where the command line says so.
        budget: Time for all rounds, likewise.

    Raises:
        ScenarioError: A bad key, axis or value in the file.
        EcbenchError: A bad axis or value on the command line.
    """
    if file.workload != SWEEP:
        raise ScenarioError(
            f"{file.where}: workload {file.workload!r} is no sweep: run it with ecbench roundtrip {file.name}, "
            f'or write workload = "{SWEEP}"'
        )
    scenario = convert_table(file.table, file.text, file.where, SweepScenario)
    with _naming(file, "cells"):
        family = find_family(scenario.cells)
    with _naming(file, "axes"):
        axes = dict(read_axes(family.axes, scenario.axes))
    overrides = read_axes(family.axes, given)
    axes.update({name: overrides[name] for name in given})
    # A user who says how many rounds wants that many, not the file's budget.
    wanted = budget if budget is not None else None if rounds is not None else scenario.budget
    return SweepPlan(
        name=file.name,
        family=family,
        axes=axes,
        max_batch_bytes=_max_batch_bytes(scenario, file) if max_batch_bytes is None else max_batch_bytes,
        rounds=scenario.rounds if rounds is None else rounds,
        budget_s=None if wanted is None else _budget_s(wanted, file, given=budget),
    )


def _max_batch_bytes(scenario: SweepScenario, file: ScenarioFile) -> int | None:
    with _naming(file, "max_batch"):
        return None if scenario.max_batch is None else parse_size(scenario.max_batch)


def _budget_s(text: str, file: ScenarioFile, *, given: str | None) -> float:
    if given is not None:
        return parse_duration(text)
    with _naming(file, "budget"):
        return parse_duration(text)


@contextmanager
def _naming(file: ScenarioFile, key: str) -> Iterator[None]:
    """Adds the file and the line to an error."""
    try:
        yield
    except EcbenchError as error:
        axis = _AXIS.search(str(error))
        keys = [axis[1], key] if axis else [key]
        line = next((line for word in keys if (line := line_of_key(file.text, word))), None)
        place = f", line {line}" if line else ""
        raise ScenarioError(f"{file.where}{place}: {error}") from error


def count_cells(axes: AxisValues) -> int:
    """Cells of a grid, without making them."""
    return math.prod(len(values) for name, values in axes.items() if name != LEG_AXIS)


def make_cells(plan: SweepPlan, axes: AxisValues, devices: Devices, targets: Mapping[str, Target]) -> list[Cell]:
    """Makes every cell of a grid; the last axis varies fastest.

    Args:
        plan: The sweep.
        axes: Completed by the device.
        devices: Tell which cells can run.
        targets: Those beside the reference, by name.

    Raises:
        EcbenchError: More cells than any sweep can run, or none.
    """
    count = count_cells(axes)
    if count > MAX_CELLS:
        raise EcbenchError(f"sweep {plan.name} has {count} cells: give fewer values, for at most {MAX_CELLS} cells")
    varied = {name: values for name, values in axes.items() if name != LEG_AXIS}
    directions = tuple(map(str, axes[LEG_AXIS]))
    points = (dict(zip(varied, point, strict=True)) for point in itertools.product(*varied.values()))
    cells = [plan.family.cell(plan.name, point, directions, devices, targets) for point in points]
    largest = plan.max_batch_bytes
    fitting = [cell for cell in cells if largest is None or cell.copied_bytes <= largest]
    if not fitting:
        raise EcbenchError(
            f"sweep {plan.name} has no cell: every batch is above max_batch, {format_bytes(largest or 0)}: "
            "give smaller blocks, fewer of them, or raise --max-batch"
        )
    return fitting
