"""Axes that every family of cells has: how host memory is held, what writes descriptors, what moves bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ecbench.core.errors import EcbenchError
from ecbench.core.host_memory import HostMemoryKind
from ecbench.engine.registry import AUTO, ENGINE_NAMES, ENGINES, why_unavailable
from ecbench.targets.registry import REFERENCE, TARGETS, names_of
from ecbench.transfer.writers import DEFAULT_WRITER, WRITERS
from ecbench.workflows.sweep_axes import Axis, one_of, yes_or_no

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.protocols import Device
    from ecbench.core.records import Param
    from ecbench.targets.protocol import Target
    from ecbench.workflows.sweep_axes import AxisValue, AxisValues

ALL_ENGINES = "all"
"""Stands for every engine that runs on the device."""
BY_DEVICE = "by-device"
"""Stands for the usual host memory: pinned where there is a driver, pageable where host copies to host."""

MACHINE_AXES: tuple[Axis, ...] = (
    Axis("coalesce", "coalesce", yes_or_no, (True,), "whether neighbours share a descriptor"),
    Axis(
        "host_memory",
        "host_memory",
        one_of("host memory", (*HostMemoryKind, BY_DEVICE)),
        (BY_DEVICE,),
        "how the host's side is held",
    ),
    Axis("writer", "writer", one_of("writer", tuple(WRITERS)), (DEFAULT_WRITER,), "what writes descriptors"),
    Axis("engine", "engine", one_of("engine", (*ENGINE_NAMES, ALL_ENGINES)), (AUTO,), "what moves bytes"),
)


def complete_machine_axes(values: AxisValues, device: Device) -> AxisValues:
    """Replaces ``all`` by the engines that run here, and the usual host memory by what it is.

    Args:
        values: Every axis of a family.
        device: Where the cells will run.
    """
    usual = HostMemoryKind.PAGEABLE if device.copies_inside_submit else HostMemoryKind.PINNED
    engines = [name for name in ENGINES if why_unavailable(name, device) is None]
    return {
        **values,
        "host_memory": _replaced(values["host_memory"], BY_DEVICE, [usual.value]),
        "engine": _replaced(values["engine"], ALL_ENGINES, engines),
    }


def _replaced(values: tuple[AxisValue, ...], word: str, names: Sequence[str]) -> tuple[AxisValue, ...]:
    """Puts names in the place of the word that stands for them, each once."""
    return tuple(dict.fromkeys(name for value in values for name in (names if value == word else [value])))


def with_targets(values: AxisValues, target: str) -> AxisValues:
    """Puts targets beside the reference into a grid: as engines, because no engine is theirs to choose.

    Args:
        values: Every axis of a family, completed.
        target: As a user names it.

    Raises:
        EcbenchError: An unknown target, or a grid that varies what the target decides.
    """
    others = [name for name in names_of(target) if name != REFERENCE]
    if not others:
        return values
    where = f"target {' and '.join(others)}"
    fixed = {"writer": (DEFAULT_WRITER,), "coalesce": (True,)}
    if REFERENCE not in names_of(target):
        fixed["engine"] = (AUTO,)
    for axis, usual in fixed.items():
        if values[axis] != usual:
            raise EcbenchError(
                f"{where} decides itself what axis {axis} varies ({', '.join(map(str, values[axis]))}): sweep the "
                f"reference, or give {axis}={', '.join(str(value).lower() for value in usual)}"
            )
    own = values["engine"] if REFERENCE in names_of(target) else ()
    return {**values, "engine": (*own, *others)}


def why_not_here(host_memory: HostMemoryKind, engine: str, device: Device) -> str | None:
    """Why a device cannot run a cell; None where it can.

    Args:
        host_memory: How its host side is held.
        engine: Registered engine, or the target that copies in its place.
        device: Where it would run.
    """
    if host_memory is HostMemoryKind.PINNED and device.copies_inside_submit:
        return f"device {device.name} has no driver that pins host memory"
    if engine in TARGETS:
        pageable = host_memory is HostMemoryKind.PAGEABLE and not device.copies_inside_submit
        return f"target {engine} pins its region itself: there are no pageable copies" if pageable else None
    reason = why_unavailable(engine, device)
    return f"engine {engine} is not available: {reason}" if reason else None


class MachineCell(Protocol):
    """A cell's values on these axes."""

    @property
    def host_memory(self) -> HostMemoryKind:
        """How its host side is held."""

    @property
    def writer(self) -> str:
        """Registered writer, or the target's own."""

    @property
    def engine(self) -> str:
        """Registered engine, or the target's name."""

    @property
    def target(self) -> Target | None:
        """Whose worker copies; None where writer and engine do."""


def cell_name(sweep: str, parts: Sequence[str], cell: MachineCell) -> str:
    """The name of a cell: what it copies, whatever of these axes is not usual, then the engine or the target.

    Args:
        sweep: Name of the sweep.
        parts: What it copies; empty ones are left out.
        cell: Its values.
    """
    named = [*filter(None, parts), *([cell.host_memory.value] if cell.host_memory is HostMemoryKind.PINNED else [])]
    if cell.target is not None:
        return f"{sweep}/{','.join(named)}@{cell.target.name}"
    named += [cell.writer] if cell.writer != DEFAULT_WRITER else []
    return f"{sweep}/{','.join([*named, cell.engine])}"


def machine_params(cell: MachineCell) -> dict[str, Param]:
    """A cell's values by parameter name."""
    return {
        "host_memory": cell.host_memory.value,
        "writer": cell.writer,
        "engine": cell.engine,
        **({} if cell.target is None else {"target": cell.target.name}),
    }
