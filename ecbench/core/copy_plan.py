"""What is to be copied where, as offsets: the one thing that layouts and the code that moves bytes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def _frozen(values: Sequence[int] | NDArray[np.int64], name: str) -> NDArray[np.int64]:
    array = np.array(values, dtype=np.int64, ndmin=1)
    if array.ndim != 1:
        raise EcbenchError(f"copy plan: {name} has shape {array.shape}: give one dimension")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class CopyPlan:
    """Copies between one source and one destination buffer.

    Every field but the two capacities is int64, shape ``(n,)``, in bytes, and read-only. Sources may overlap or repeat;
    destinations may not, because then the result would depend on the order of the copies.

    Args:
        source_offsets: First byte of each copy in the source buffer.
        destination_offsets: First byte of each copy in the destination buffer.
        sizes: Bytes of each copy; zero is allowed and copies nothing.
        source_bytes: Length of the source buffer.
        destination_bytes: Length of the destination buffer.

    Raises:
        EcbenchError: Lengths that differ, a negative size, a copy outside a buffer, or overlapping destinations; the
            first offending copy is named.
    """

    source_offsets: NDArray[np.int64]
    destination_offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    source_bytes: int
    destination_bytes: int

    def __post_init__(self) -> None:
        for name in ("source_offsets", "destination_offsets", "sizes"):
            object.__setattr__(self, name, _frozen(getattr(self, name), name))
        if not len(self.source_offsets) == len(self.destination_offsets) == len(self.sizes):
            lengths = [len(self.source_offsets), len(self.destination_offsets), len(self.sizes)]
            raise EcbenchError(f"copy plan: arrays of different lengths {lengths}: give one entry per copy")
        self._refuse_out_of_range()
        self._refuse_overlap()

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def total_bytes(self) -> int:
        """Bytes copied in all."""
        return int(self.sizes.sum())

    def _refuse_out_of_range(self) -> None:
        if len(self) == 1 and self._first_fits():
            return
        # `capacity - offset` cannot wrap where the offset is not negative, `offset + size` could.
        room = np.minimum(self.source_bytes - self.source_offsets, self.destination_bytes - self.destination_offsets)
        # Negative where anything is: an offset, a size, the room, or what a copy leaves of it.
        signs = self.source_offsets | self.destination_offsets | self.sizes | room | (room - self.sizes)
        if len(signs) and np.minimum.reduce(signs) < 0:
            index = int((signs < 0).argmax())
            raise EcbenchError(
                f"copy plan: copy {index} of {self.sizes[index]} bytes from offset {self.source_offsets[index]} "
                f"to offset {self.destination_offsets[index]} does not fit buffers of {self.source_bytes} and "
                f"{self.destination_bytes} bytes"
            )

    def _first_fits(self) -> bool:
        """The check of a plan of one copy, which is most of what an unfragmented region asks for, without arrays."""
        source, destination, size = (
            self.source_offsets.item(),
            self.destination_offsets.item(),
            self.sizes.item(),
        )
        ends_inside = source + size <= self.source_bytes and destination + size <= self.destination_bytes
        return min(source, destination, size) >= 0 and ends_inside

    def _refuse_overlap(self) -> None:
        starts, sizes = self.destination_offsets, self.sizes
        if _in_order(starts, sizes):
            return
        written = np.flatnonzero(sizes)
        order = written[np.argsort(starts[written], kind="stable")]
        clash = starts[order][1:] < (starts[order] + sizes[order])[:-1]
        if clash.any():
            first = int(clash.argmax())
            raise EcbenchError(
                f"copy plan: copies {order[first]} and {order[first + 1]} overlap at destination offset "
                f"{starts[order[first + 1]]}: give every destination byte one source"
            )

    def destination_gaps(self) -> NDArray[np.int64]:
        """Finds the parts of the destination buffer that no copy writes.

        Returns:
            int64, shape ``(gaps, 2)``: first byte and end of each gap, ascending, none empty.
        """
        written = np.flatnonzero(self.sizes)
        order = written[np.argsort(self.destination_offsets[written], kind="stable")]
        starts = self.destination_offsets[order]
        ends = starts + self.sizes[order]
        gaps = np.stack([np.append(0, ends), np.append(starts, self.destination_bytes)], axis=1)
        return gaps[gaps[:, 0] < gaps[:, 1]]


def _in_order(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> bool:
    """Tells in one pass what sorting would tell for the usual plan, whose destinations ascend."""
    return len(starts) <= 1 or bool((starts[1:] >= (starts + sizes)[:-1]).all())


def merge_adjacent(plan: CopyPlan) -> CopyPlan:
    """Joins neighbouring copies that continue each other in both buffers.

    Args:
        plan: Copies in any order; only copies that follow each other in the plan are joined.

    Returns:
        A plan that moves the same bytes with as few copies as that order allows.
    """
    if len(plan) < 2:  # noqa: PLR2004 - one copy has no neighbour
        return plan
    source_ends = plan.source_offsets + plan.sizes
    destination_ends = plan.destination_offsets + plan.sizes
    breaks = (plan.source_offsets[1:] != source_ends[:-1]) | (plan.destination_offsets[1:] != destination_ends[:-1])
    if breaks.all():
        return plan
    first = np.append(0, np.flatnonzero(breaks) + 1)
    return CopyPlan(
        plan.source_offsets[first],
        plan.destination_offsets[first],
        np.add.reduceat(plan.sizes, first),
        plan.source_bytes,
        plan.destination_bytes,
    )
