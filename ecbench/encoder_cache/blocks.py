"""Block ids as runs of neighbours, and the copies that follow from them.

Ids are kept as runs because an entry of 4096 neighbouring blocks is one descriptor: handling it must cost what one run
costs, not what 4096 ids cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


class Run(NamedTuple):
    """Neighbouring blocks: ids ``first`` to ``first + length - 1``."""

    first: int
    length: int

    @property
    def end(self) -> int:
        """The id after the last."""
        return self.first + self.length


class BlockIds(Sequence[int]):
    """Block ids in order, stored as runs. Compares equal to any sequence of the same ids.

    Args:
        firsts: First id of each run, int64, shape ``(runs,)``.
        counts: Ids in each run, int64, shape ``(runs,)``, none zero. Runs that continue each other are joined.

    Attributes:
        slots: Position of each run's first id among all ids, int64, shape ``(runs,)``.
    """

    __slots__ = ("_length", "counts", "firsts", "slots")

    def __init__(self, firsts: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        if len(firsts) > 1:
            breaks = firsts[1:] != (firsts + counts)[:-1]
            if not breaks.all():
                starts = np.append(0, np.flatnonzero(breaks) + 1)
                firsts, counts = firsts[starts], np.add.reduceat(counts, starts)
        self.firsts = firsts
        self.counts = counts
        ends = counts.cumsum()
        self._length = int(ends[-1]) if len(ends) else 0
        self.slots = ends - counts

    @classmethod
    def of_runs(cls, runs: Sequence[tuple[int, int]]) -> BlockIds:
        """Takes runs, or pairs of first id and length, in order."""
        table = np.array(runs, dtype=np.int64).reshape(len(runs), 2)
        return cls(table[:, 0], table[:, 1])

    @classmethod
    def of(cls, ids: Iterable[int]) -> BlockIds:
        """Takes ids in their order."""
        if isinstance(ids, BlockIds):
            return ids
        firsts = np.fromiter(ids, dtype=np.int64)
        return cls(firsts, np.ones_like(firsts))

    @classmethod
    def concatenate(cls, parts: Sequence[BlockIds]) -> BlockIds:
        """Puts ids one after the other; runs that meet are joined."""
        if not parts:
            return cls.of_runs(())
        if len(parts) == 1:
            return parts[0]
        return cls(np.concatenate([part.firsts for part in parts]), np.concatenate([part.counts for part in parts]))

    @property
    def runs(self) -> list[Run]:
        """The runs in order."""
        return list(map(Run, self.firsts.tolist(), self.counts.tolist()))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            selected: list[int] = self.to_array()[index].tolist()
            return selected
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"index {index} of {self._length} block ids")
        slots = self.slots
        run = int(slots.searchsorted(position, side="right")) - 1
        return int(self.firsts[run] + position - slots[run])

    def __iter__(self) -> Iterator[int]:
        for run in self.runs:
            yield from range(run.first, run.end)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return self._length == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self.runs))

    def __repr__(self) -> str:
        return f"BlockIds({', '.join(f'{run.first}..{run.end - 1}' for run in self.runs)})"

    def to_array(self) -> NDArray[np.int64]:
        """The ids, int64, shape ``(len(self),)``."""
        return np.repeat(self.firsts - self.slots, self.counts) + np.arange(self._length)


class BlockCopy(NamedTuple):
    """One copy of an entry into the region: ``slot`` counts the entry's blocks from 0."""

    slot: int
    first_block: int
    size_bytes: int


class BlockCopies(NamedTuple):
    """Many copies of an entry, as columns: int64, shape ``(copies,)``."""

    slots: NDArray[np.int64]
    first_blocks: NDArray[np.int64]
    sizes: NDArray[np.int64]


def coalesce(block_ids: Iterable[int], block_size_bytes: int, total_bytes: int) -> list[BlockCopy]:
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
    copies = coalesced_copies(BlockIds.of(block_ids), block_size_bytes, total_bytes)
    return list(map(BlockCopy, *(column.tolist() for column in copies)))


def coalesced_copies(block_ids: BlockIds, block_size_bytes: int, total_bytes: int) -> BlockCopies:
    """`coalesce` as columns: one copy per run."""
    blocks = len(block_ids)
    _refuse_oversized(blocks, block_size_bytes, total_bytes)
    slots = block_ids.slots
    if total_bytes == blocks * block_size_bytes:
        return BlockCopies(slots, block_ids.firsts, block_ids.counts * block_size_bytes)
    needed = int(slots.searchsorted(-(-total_bytes // block_size_bytes)))
    sizes = block_ids.counts[:needed] * block_size_bytes
    if needed:
        sizes[-1] = min(int(sizes[-1]), total_bytes - int(slots[needed - 1]) * block_size_bytes)
    return BlockCopies(slots[:needed], block_ids.firsts[:needed], sizes)


def split_copies(block_ids: BlockIds, block_size_bytes: int, total_bytes: int) -> BlockCopies:
    """Turns an entry's blocks into one copy each; arguments, order, cutting and errors as in `coalesce`."""
    _refuse_oversized(len(block_ids), block_size_bytes, total_bytes)
    needed = -(-total_bytes // block_size_bytes)
    sizes = np.full(needed, block_size_bytes, dtype=np.int64)
    if needed:
        sizes[-1] = total_bytes - (needed - 1) * block_size_bytes
    return BlockCopies(np.arange(needed, dtype=np.int64), block_ids.to_array()[:needed], sizes)


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
