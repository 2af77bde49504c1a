"""Block ids as runs of neighbours, and the copies that follow from them.

Ids are kept as runs because an entry of 4096 neighbouring blocks is one descriptor: handling it must cost what one run
costs, not what 4096 ids cost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


class Run(NamedTuple):
    """Neighbouring blocks: ids ``first`` to ``first + count - 1``."""

    first: int
    count: int

    @property
    def end(self) -> int:
        """The id after the last."""
        return self.first + self.count


class BlockIds(Sequence[int]):
    """Block ids in order, stored as runs. Compares equal to any sequence of the same ids.

    Args:
        runs: Runs in order, none empty; neighbours that continue each other are joined.
    """

    __slots__ = ("_ends", "runs")

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs: tuple[Run, ...] = tuple(_join_neighbours(runs))
        self._ends = list(accumulate(run.count for run in self.runs))

    @classmethod
    def of(cls, ids: Iterable[int]) -> BlockIds:
        """Takes ids as they come: `BlockIds` as they are, anything else in its order."""
        return ids if isinstance(ids, BlockIds) else cls(Run(int(block), 1) for block in ids)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"index {index} of {len(self)} block ids")
        which = bisect_right(self._ends, position)
        run = self.runs[which]
        return run.first + position - (self._ends[which] - run.count)

    def __iter__(self) -> Iterator[int]:
        for run in self.runs:
            yield from range(run.first, run.end)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BlockIds):
            return self.runs == other.runs
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.runs)

    def __repr__(self) -> str:
        return f"BlockIds({', '.join(f'{run.first}..{run.end - 1}' for run in self.runs)})"

    def to_array(self) -> NDArray[np.int64]:
        """The ids, int64, shape ``(len(self),)``."""
        if not self.runs:
            return np.empty(0, dtype=np.int64)
        return np.concatenate([np.arange(run.first, run.end, dtype=np.int64) for run in self.runs])


def _join_neighbours(runs: Iterable[Run]) -> Iterator[Run]:
    current: Run | None = None
    for run in runs:
        if current is not None and current.end == run.first:
            current = Run(current.first, current.count + run.count)
            continue
        if current is not None:
            yield current
        current = run
    if current is not None:
        yield current


class SaveDescriptor(NamedTuple):
    """One copy of an entry into the region: ``slot`` counts the entry's blocks from 0."""

    slot: int
    first_block: int
    size_bytes: int


def coalesce(block_ids: Iterable[int], block_size_bytes: int, total_bytes: int) -> list[SaveDescriptor]:
    """Turns an entry's blocks into as few copies as their neighbourhood allows.

    Args:
        block_ids: The entry's blocks in order.
        block_size_bytes: Bytes of one block.
        total_bytes: Bytes of the entry; the last copy is cut there, and blocks beyond are left out.

    Returns:
        ``(slot, first_block, bytes)`` for each run, in order; nothing for an entry of no bytes.

    Raises:
        EcbenchError: The entry needs more blocks than it has, or a size is out of range.
    """
    ids = BlockIds.of(block_ids)
    _refuse_oversized(len(ids), block_size_bytes, total_bytes)
    descriptors = []
    slot = 0
    for run in ids.runs:
        remaining = total_bytes - slot * block_size_bytes
        if remaining <= 0:
            break
        descriptors.append(SaveDescriptor(slot, run.first, min(run.count * block_size_bytes, remaining)))
        slot += run.count
    return descriptors


def split_blocks(block_ids: Iterable[int], block_size_bytes: int, total_bytes: int) -> list[SaveDescriptor]:
    """Turns an entry's blocks into one copy each: `coalesce` without the joining; same arguments, result and errors."""
    ids = BlockIds.of(block_ids)
    _refuse_oversized(len(ids), block_size_bytes, total_bytes)
    needed = -(-total_bytes // block_size_bytes)
    return [
        SaveDescriptor(slot, block, min(block_size_bytes, total_bytes - slot * block_size_bytes))
        for slot, block in zip(range(needed), ids, strict=False)
    ]


def _refuse_oversized(blocks: int, block_size_bytes: int, total_bytes: int) -> None:
    if block_size_bytes < 1 or total_bytes < 0:
        raise EcbenchError(
            f"block size of {block_size_bytes} and output of {total_bytes} bytes: give at least 1 and at least 0"
        )
    if total_bytes > blocks * block_size_bytes:
        raise EcbenchError(
            f"output of {total_bytes} bytes does not fit its {blocks} blocks of {block_size_bytes} bytes "
            f"({blocks * block_size_bytes} bytes): allocate {-(-total_bytes // block_size_bytes)} blocks"
        )
