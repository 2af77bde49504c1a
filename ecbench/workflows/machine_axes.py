"""Axes that every family of cells has: how host memory is held, what writes descriptors, what moves bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.host_memory import HostMemoryKind
from ecbench.engine.registry import AUTO, ENGINE_NAMES, ENGINES, why_unavailable
from ecbench.transfer.writers import DEFAULT_WRITER, WRITERS
from ecbench.workflows.sweep_axes import Axis, one_of, yes_or_no

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.protocols import Device
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


def why_not_here(host_memory: HostMemoryKind, engine: str, device: Device) -> str | None:
    """Why a device cannot run a cell; None where it can."""
    if host_memory is HostMemoryKind.PINNED and device.copies_inside_submit:
        return f"device {device.name} has no driver that pins host memory"
    reason = why_unavailable(engine, device)
    return f"engine {engine} is not available: {reason}" if reason else None
