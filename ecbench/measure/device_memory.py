"""The verifier's access to device memory: content is made and compared where the bytes are.

Only ``upload`` and torch operations on tensors of the device are used, so that no device is named here. Words are
int64: torch adds them modulo 2**64, as the content's definition does with unsigned words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ecbench.core.copy_plan import merge_adjacent
from ecbench.measure.content import MULTIPLIER, POISON_BYTE, WORD_BYTES, word_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.core.copy_plan import CopyPlan

CHUNK_BYTES = 16 << 20
"""Bytes compared per step: temporary memory stays below four times this, and a step is long beside its launch."""


class DeviceMemory:
    """A contiguous device buffer.

    Args:
        tensor: uint8, shape ``(nbytes,)``, contiguous; not copied.
        upload: Copies a small host tensor to the same device, in the order of the current stream.
        synchronize: Blocks until everything on the device is done.
        chunk_bytes: Bytes per step; a multiple of a word.
    """

    def __init__(
        self,
        tensor: Tensor,
        *,
        upload: Callable[[Tensor], Tensor],
        synchronize: Callable[[], None],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._bytes = tensor
        self._upload = upload
        self._synchronize = synchronize
        self._chunk_bytes = chunk_bytes
        # Two words more than a step takes: its range may begin inside one word and end inside another.
        self._ramp = upload(torch.from_numpy(_ramp(min(chunk_bytes, self.nbytes) // WORD_BYTES + 2)))

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return int(self._bytes.numel())

    def write_content(self, key: int) -> None:
        """Fills the buffer with a round's content; returns when it is there, so that no timer meets it."""
        for start, end in _steps(0, self.nbytes, self._chunk_bytes):
            self._bytes[start:end].copy_(self._content(key, start, end - start))
        self._synchronize()

    def poison(self) -> None:
        """Fills the buffer with the poison byte; returns when it is there."""
        self._bytes.fill_(POISON_BYTE)
        self._synchronize()

    def holds_content(self, key: int) -> bool:
        """Tells whether the whole buffer holds a round's content."""
        return _none_of(self._content_faults(key, 0, 0, self.nbytes))

    def holds_copies(self, plan: CopyPlan, key: int) -> bool:
        """Tells whether each destination holds its source's content and everything else is poison."""
        blocks = _EqualBlocks.of(plan)
        if blocks is None or blocks.size > self._chunk_bytes // 2:
            return _none_of(self._any_plan_faults(plan, key))
        return _none_of(self._equal_block_faults(blocks, key))

    def to_host(self) -> NDArray[np.uint8]:
        """A copy of the bytes in host memory."""
        return self._bytes.cpu().numpy()

    def _content(self, key: int, offset: int, size: int) -> Tensor:
        """The content of a byte range of at most one chunk: uint8, shape ``(size,)``."""
        first = offset // WORD_BYTES
        words = -(-(offset + size) // WORD_BYTES) - first
        lead = offset - first * WORD_BYTES
        return (self._ramp[:words] + _signed(word_key(key, first))).view(torch.uint8)[lead : lead + size]

    def _content_faults(self, key: int, source: int, destination: int, size: int) -> Iterator[Tensor]:
        for start, end in _steps(0, size, self._chunk_bytes):
            found = self._bytes[destination + start : destination + end]
            yield (found != self._content(key, source + start, end - start)).any()

    def _poison_faults(self, first: int, last: int) -> Iterator[Tensor]:
        for start, end in _steps(first, last, self._chunk_bytes):
            yield (self._bytes[start:end] != POISON_BYTE).any()

    def _any_plan_faults(self, plan: CopyPlan, key: int) -> Iterator[Tensor]:
        """A few launches per copy: right for every plan."""
        merged = merge_adjacent(plan)
        columns = (merged.source_offsets, merged.destination_offsets, merged.sizes)
        for source, destination, size in zip(*(column.tolist() for column in columns), strict=True):
            yield from self._content_faults(key, source, destination, size)
        for start, end in merged.destination_gaps().tolist():
            yield from self._poison_faults(start, end)

    def _equal_block_faults(self, blocks: _EqualBlocks, key: int) -> Iterator[Tensor]:
        """A few launches per chunk, however many blocks."""
        table = self._bytes[blocks.first : blocks.end].view(-1, blocks.size)
        rows_per_step = max(1, self._chunk_bytes // (blocks.size + 2 * WORD_BYTES))
        for start, end in _steps(0, len(blocks.rows), rows_per_step):
            found = table.index_select(0, self._upload(torch.from_numpy(blocks.rows[start:end])))
            yield (found != self._block_content(blocks, key, start, end)).any()
        for start, end in _steps(0, len(blocks.other_rows), rows_per_step):
            found = table.index_select(0, self._upload(torch.from_numpy(blocks.other_rows[start:end])))
            yield (found != POISON_BYTE).any()
        yield from self._poison_faults(0, blocks.first)
        yield from self._poison_faults(blocks.end, self.nbytes)

    def _block_content(self, blocks: _EqualBlocks, key: int, start: int, end: int) -> Tensor:
        """Content of blocks ``start`` to ``end``: uint8, shape ``(blocks, size)``."""
        words = -(-(blocks.lead + blocks.size) // WORD_BYTES)
        first_words = blocks.first_words[start:end].view(np.uint64) * np.uint64(MULTIPLIER) + np.uint64(key)
        starts = self._upload(torch.from_numpy(first_words.view(np.int64)))
        table = (starts.view(-1, 1) + self._ramp[:words].view(1, -1)).view(torch.uint8)
        return table[:, blocks.lead : blocks.lead + blocks.size]


@dataclass(frozen=True, eq=False)
class _EqualBlocks:
    """A plan of equal blocks whose destinations are rows of one table.

    Args:
        size: Bytes of a block.
        first: Where the table begins in the destination.
        end: Where it ends.
        rows: Row of each copy, int64, shape ``(n,)``.
        other_rows: Rows that no copy writes, int64.
        lead: Bytes by which each source begins after a word's start; the same for all.
        first_words: The word each source begins in, int64, shape ``(n,)``.
    """

    size: int
    first: int
    end: int
    rows: NDArray[np.int64]
    other_rows: NDArray[np.int64]
    lead: int
    first_words: NDArray[np.int64]

    @classmethod
    def of(cls, plan: CopyPlan) -> _EqualBlocks | None:
        """None where the plan is not of this form."""
        if not len(plan) or plan.sizes[0] == 0 or (plan.sizes != plan.sizes[0]).any():
            return None
        size, first = int(plan.sizes[0]), int(plan.destination_offsets.min())
        offsets = plan.destination_offsets - first
        leads = plan.source_offsets % WORD_BYTES
        if (offsets % size).any() or (leads != leads[0]).any():
            return None
        rows = offsets // size
        unwritten = np.ones(int(rows.max()) + 1, dtype=bool)
        unwritten[rows] = False
        return cls(
            size=size,
            first=first,
            end=first + len(unwritten) * size,
            rows=rows,
            other_rows=np.flatnonzero(unwritten),
            lead=int(leads[0]),
            first_words=plan.source_offsets // WORD_BYTES,
        )


def _ramp(words: int) -> NDArray[np.int64]:
    return (np.arange(words, dtype=np.uint64) * np.uint64(MULTIPLIER)).view(np.int64)


def _signed(word: np.uint64) -> int:
    return int(word.astype(np.int64))


def _steps(start: int, end: int, step: int) -> Iterator[tuple[int, int]]:
    for first in range(start, end, step):
        yield first, min(first + step, end)


def _none_of(faults: Iterator[Tensor]) -> bool:
    """Launches every comparison, then waits once."""
    found: Tensor | None = None
    for fault in faults:
        found = fault if found is None else found | fault
    return found is None or not bool(found.item())
