"""Families of cells: what a grid can be made of.

To add one: a module with a `CellFamily`, and a line in `FAMILIES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ecbench.core.registry import load_registered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from ecbench.core.host_memory import HostMemoryKind
    from ecbench.core.protocols import Device
    from ecbench.core.records import Param
    from ecbench.measure.rounds import MeasuredCopy
    from ecbench.measure.stages import StageClock
    from ecbench.targets.protocol import Target
    from ecbench.workflows.memory import MemoryNeed
    from ecbench.workflows.sweep_axes import Axis, AxisValue, AxisValues

    Devices = Mapping[HostMemoryKind, Device]
    """The device, once per way to hold host memory that the grid asks for."""

DEFAULT_FAMILY = "copies"
FAMILIES: dict[str, str] = {
    "copies": "ecbench.workflows.copy_family:CopyFamily",
    "kv": "ecbench.workflows.kv_family:KvFamily",
}


class Cell(Protocol):
    """One point of a grid."""

    @property
    def case_id(self) -> str:
        """Its name, which the values of its axes decide."""

    @property
    def params(self) -> dict[str, Param]:
        """Its values, by parameter name."""

    @property
    def skipped(self) -> str | None:
        """Why it cannot run here; None where it can."""

    @property
    def directions(self) -> tuple[str, ...]:
        """Its legs."""

    @property
    def copied_bytes(self) -> int:
        """Bytes of one direction."""

    @property
    def descriptors(self) -> int:
        """Descriptors of one direction."""

    @property
    def buffer_bytes(self) -> int:
        """Bytes that one direction fills and checks."""

    @property
    def extra_s(self) -> float:
        """Rough seconds that a round takes beside filling and checking its buffers."""


class CellSession(Protocol):
    """Memory that the cells of a sweep share."""

    def copies(self, cell: Cell) -> list[MeasuredCopy]:
        """The directions of a cell, ready to be measured; the content of the memory is anybody's.

        Raises:
            CopyRefusedError: What copies refuses the cell.
        """


class CellFamily(Protocol):
    """A kind of cell."""

    @property
    def workload(self) -> str:
        """Its name in results."""

    @property
    def axes(self) -> Mapping[str, Axis]:
        """What a grid of such cells can vary."""

    def complete(self, values: AxisValues, device: Device) -> AxisValues:
        """Decides what depends on the device: defaults, and names that stand for several.

        Args:
            values: From the scenario and the command line.
            device: Where the cells will run.
        """

    def cell(
        self,
        scenario: str,
        values: Mapping[str, AxisValue],
        directions: tuple[str, ...],
        devices: Devices,
        targets: Mapping[str, Target],
    ) -> Cell:
        """Makes the cell of one point of the grid.

        Args:
            scenario: The scenario's name.
            values: One value per axis, but for directions.
            directions: The cell's legs.
            devices: Tell whether the cell can run.
            targets: Those beside the reference, by the value of the engine axis that stands for them.
        """

    def memory_need(self, name: str, cells: Sequence[Cell], devices: Devices) -> MemoryNeed:
        """What all cells together take, without taking it."""

    def open(
        self, cells: Sequence[Cell], devices: Devices, seed: int, clock: StageClock
    ) -> AbstractContextManager[CellSession]:
        """Takes the memory; gives it back at the end."""


def find_family(name: str) -> CellFamily:
    """Finds a family by its registered name.

    Raises:
        EcbenchError: No such family; the message lists the choices.
    """
    family: CellFamily = load_registered("cells", name, FAMILIES)()
    return family
