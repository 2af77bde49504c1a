"""A sweep before it runs: options -> scenario -> grid -> memory and time, with nothing taken yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError, UnavailableError
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.units import format_bytes, format_seconds
from ecbench.engine.registry import open_device
from ecbench.measure.rounds import WARM_UP_ROUNDS
from ecbench.targets.registry import REFERENCE, names_of, open_target
from ecbench.transfer.shared_region import shm_free_bytes
from ecbench.workflows.machine_axes import with_targets
from ecbench.workflows.memory import refuse_what_does_not_fit
from ecbench.workflows.scenarios import SWEEP, read_scenario, refuse_unknown
from ecbench.workflows.sweep_scenario import CONFIRMED_CELLS, SweepPlan, make_cells, plan_sweep
from ecbench.workflows.sweep_schedule import expected_round_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecbench.core.protocols import Device
    from ecbench.targets.protocol import Target
    from ecbench.workflows.memory import MemoryNeed
    from ecbench.workflows.sweep_axes import AxisValues
    from ecbench.workflows.sweep_family import Cell, Devices


@dataclass(frozen=True)
class SweepOptions:
    """What a user can ask of a sweep; None leaves it to the scenario.

    Args:
        scenario: Shipped name or path.
        axes: Values by axis name; each replaces the scenario's.
        device: Registered device name.
        max_batch_bytes: Largest batch of the grid.
        rounds: Rounds per cell.
        budget: Time for all rounds, like ``60s``.
        seed: Decides content, layout and order.
        memory_limit_bytes: Most host memory the sweep may take, this process included.
        target: Whose connectors copy: a registered name, or ``both``.
    """

    scenario: str
    axes: Mapping[str, object] = field(default_factory=dict)
    device: str = "auto"
    max_batch_bytes: int | None = None
    rounds: int | None = None
    budget: str | None = None
    seed: int = 0
    memory_limit_bytes: int | None = None
    target: str = REFERENCE


@dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep whose every name was resolved and whose memory fits; nothing is allocated yet.

    Args:
        options: What was asked for.
        plan: Scenario and options together.
        axes: The grid.
        devices: The device by kind of host memory.
        cells: Every cell, also those that cannot run.
        need: Memory of the whole sweep.
        expected_s: Rough seconds of one round, by cell.
        targets: Those beside the reference.
    """

    options: SweepOptions
    plan: SweepPlan
    axes: AxisValues
    devices: Devices
    cells: list[Cell]
    need: MemoryNeed
    expected_s: list[float]
    targets: list[Target]

    @property
    def device(self) -> Device:
        """The device; where it was opened for several kinds of host memory, the first."""
        return next(iter(self.devices.values()))

    @property
    def needs_confirmation(self) -> bool:
        """Tells whether the grid is so large that a user must say it is meant."""
        return len(self.cells) >= CONFIRMED_CELLS

    @property
    def expected_total_s(self) -> float:
        """Rough seconds of all rounds, warm-ups included."""
        if self.plan.budget_s is not None:
            return self.plan.budget_s
        return sum(self.expected_s) * (self.plan.rounds + WARM_UP_ROUNDS)


def prepare_sweep(options: SweepOptions) -> Sweep:
    """Resolves names, makes the grid and states memory.

    Raises:
        EcbenchError: A bad name, axis, scenario or size (exit 2), or nothing in the grid can run here (exit 3).
    """
    refuse_unknown([options.scenario], [SWEEP])
    plan = plan_sweep(
        read_scenario(options.scenario),
        options.axes,
        max_batch_bytes=options.max_batch_bytes,
        rounds=options.rounds,
        budget=options.budget,
    )
    axes = plan.family.complete(plan.axes, open_device(options.device))
    axes = with_targets(axes, options.target)
    kinds = [kind for kind in HostMemoryKind if kind.value in axes.get("host_memory", (HostMemoryKind.PINNED.value,))]
    devices = {kind: open_device(options.device, kind) for kind in kinds}
    targets = {name: open_target(name, devices[kinds[0]]) for name in names_of(options.target) if name != REFERENCE}
    cells = make_cells(plan, axes, devices, targets)
    reasons = {cell.skipped for cell in cells}
    if None not in reasons:
        raise UnavailableError(f"no cell of sweep {plan.name} can run here: {'; '.join(map(str, reasons))}")
    need = plan.family.memory_need(plan.name, cells, devices)
    refuse_what_does_not_fit(
        [need], options.memory_limit_bytes, shm_free_bytes(), next(iter(devices.values())).free_bytes()
    )
    return Sweep(options, plan, axes, devices, cells, need, expected_round_s(cells), [*targets.values()])


def refuse_unconfirmed(sweep: Sweep) -> None:
    """Refuses a large grid that nobody confirmed.

    Raises:
        EcbenchError: The grid is that large.
    """
    if sweep.needs_confirmation:
        raise EcbenchError(f"the grid has {len(sweep.cells)} cells: add --yes if they are meant, or give fewer values")


def describe_cells(sweep: Sweep) -> list[tuple[str, str, str, str]]:
    """Rows of a table: cell, descriptors, bytes, expected time of all its rounds or why it cannot run."""
    rounds = sweep.plan.rounds + WARM_UP_ROUNDS
    return [
        (
            cell.case_id,
            f"{cell.descriptors}",
            format_bytes(cell.copied_bytes),
            f"skipped: {cell.skipped}" if cell.skipped else format_seconds(expected_s * rounds),
        )
        for cell, expected_s in zip(sweep.cells, sweep.expected_s, strict=True)
    ]


def describe_totals(sweep: Sweep) -> str:
    """Cells, bytes, memory and time of the whole sweep, in one line."""
    running = [cell for cell in sweep.cells if cell.skipped is None]
    moved = sum(cell.copied_bytes * len(cell.directions) for cell in running) * (sweep.plan.rounds + WARM_UP_ROUNDS)
    skipped = len(sweep.cells) - len(running)
    budget = sweep.plan.budget_s is not None
    parts = [
        f"{len(sweep.cells)} cells" + (f" ({skipped} skipped)" if skipped else ""),
        "rounds as the budget allows" if budget else f"{sweep.plan.rounds} rounds and a warm-up",
        "" if budget else f"{format_bytes(moved)} to copy",
        f"peak host memory {format_bytes(sweep.need.peak_host_bytes)}",
        f"host region {format_bytes(sweep.need.host_region_bytes)}",
        f"device buffers {format_bytes(sweep.need.device_bytes)}",
        f"about {format_seconds(sweep.expected_total_s)}",
    ]
    return ", ".join(filter(None, parts))
