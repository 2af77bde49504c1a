"""One synthetic copy of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.descriptors import Direction
from ecbench.workflows.machine_axes import cell_name, machine_params

if TYPE_CHECKING:
    from ecbench.core.host_memory import HostMemoryKind
    from ecbench.core.records import Param
    from ecbench.targets.protocol import Target
    from ecbench.workflows.copy_geometry import CopyGeometry

DIRECTIONS: dict[str, Direction] = {"save": Direction.TO_HOST, "load": Direction.TO_DEVICE}
"""Names of the legs."""
KIB = 1024
DIRECTION_S = 1e-3
"""One direction of an empty round on one core of an AMD EPYC (Zen 3): Python, a plan to check, a journal line."""
_DESCRIPTOR_S = {"setitem": 8e-6, "setitem-twos": 8e-6, "numpy-item": 2e-6, "numpy-batch": 1e-6, "vllm": 1e-6}
"""Writing and copying a descriptor, measured there with `benchmarks/overhead.py writers`; for estimates only."""


@dataclass(frozen=True)
class CopyCell:
    """A synthetic copy.

    Args:
        scenario: Name of the sweep.
        geometry: Where its blocks lie.
        coalesce: Neighbouring blocks share a descriptor.
        host_memory: How the host's side is held.
        writer: Registered name.
        engine: Registered name.
        directions: ``save``, ``load`` or both.
        skipped: Why it cannot run here; None where it can.
        target: Whose worker copies; None where writer and engine do.
    """

    scenario: str
    geometry: CopyGeometry
    coalesce: bool
    host_memory: HostMemoryKind
    writer: str
    engine: str
    directions: tuple[str, ...]
    skipped: str | None
    target: Target | None = None

    @property
    def case_id(self) -> str:
        """Sizes, then whatever is not usual, then the engine or the target."""
        geometry = self.geometry
        parts = [f"{short_size(geometry.block_size_bytes)}x{geometry.blocks}"]
        parts += [f"run={geometry.run_length}"] if geometry.run_length > 1 else []
        parts += [f"offset={geometry.byte_offset}"] if geometry.byte_offset else []
        parts += [] if self.coalesce else ["apart"]
        return cell_name(self.scenario, parts, self)

    @property
    def params(self) -> dict[str, Param]:
        """A value per axis; directions are legs."""
        return {
            "block_size_bytes": self.geometry.block_size_bytes,
            "count": self.geometry.blocks,
            "run_length": self.geometry.run_length,
            "byte_offset": self.geometry.byte_offset,
            "coalesce": self.coalesce,
            **machine_params(self),
        }

    @property
    def copied_bytes(self) -> int:
        """Bytes of one direction."""
        return self.geometry.copied_bytes

    @property
    def descriptors(self) -> int:
        """Descriptors of one direction."""
        return self.geometry.runs if self.coalesce else self.geometry.blocks

    @property
    def buffer_bytes(self) -> int:
        """Both buffers: one is filled, the other poisoned, and both are checked."""
        return self.geometry.arena_bytes + self.geometry.region_bytes

    @property
    def extra_s(self) -> float:
        """Rough seconds for descriptors and for what a round costs however small; a dry run's estimate, no result."""
        return round_overhead_s(self.writer, self.descriptors, len(self.directions))


def round_overhead_s(writer: str, descriptors: int, directions: int) -> float:
    """Rough seconds that a round takes beside its bytes; for estimates only.

    Args:
        writer: Registered name.
        descriptors: Of one direction.
        directions: Legs of the cell.
    """
    return directions * (DIRECTION_S + descriptors * _DESCRIPTOR_S[writer])


def short_size(nbytes: int) -> str:
    """A size as it stands in the names of cells."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if nbytes % KIB**power == 0:
            return f"{nbytes // KIB**power}{unit}"
    return f"{nbytes}B"
