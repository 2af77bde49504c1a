"""Scattered pieces as rows of a table over their memory, so that one kernel moves them all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.engine.copy_engines.pieces import Located

MIN_ROW_BYTES = 64
"""Below, the row numbers (8 bytes each) would weigh as much as an eighth of the data they move."""
_WORDS = (torch.int64, torch.int32, torch.int16, torch.uint8)


@dataclass(frozen=True, eq=False)
class RowTable:
    """Pieces of one tensor as equal rows.

    Args:
        table: Words as wide as the layout allows, shape ``(rows, words)``; a view.
        index: Rows of the pieces in order, int64, shape ``(n,)``, in host memory.
        start: First byte of these pieces in the packed buffer.
        nbytes: Bytes of these pieces.
    """

    table: Tensor
    index: Tensor
    start: int
    nbytes: int

    def packed(self, buffer: Tensor) -> Tensor:
        """This table's part of a packed buffer, in the table's shape.

        Args:
            buffer: uint8, one dimension, on the table's device.
        """
        part = buffer[self.start : self.start + self.nbytes]
        return part.view(self.table.dtype).view(-1, self.table.shape[1])


def row_tables(located: Located) -> list[RowTable] | None:
    """Describes pieces as rows, a table for each run of pieces in the same tensor.

    Args:
        located: The scattered side of a batch.

    Returns:
        None where the pieces share no row of `MIN_ROW_BYTES` or more.
    """
    bounds = [0, *(np.flatnonzero(np.diff(located.owners)) + 1).tolist(), len(located.owners)]
    starts = np.cumsum([0, *located.sizes])
    tables = []
    for first, last in pairwise(bounds):
        table = _table(located, slice(first, last), int(starts[first]))
        if table is None:
            return None
        tables.append(table)
    return tables


def _table(located: Located, part: slice, start: int) -> RowTable | None:
    offsets, sizes = located.offsets[part], located.sizes[part]
    base = int(offsets.min())
    row_bytes = int(np.gcd.reduce(np.concatenate([sizes, offsets - base])))
    if row_bytes < MIN_ROW_BYTES:
        return None
    rows = int((offsets + sizes).max() - base) // row_bytes
    flat = located.flat[int(located.owners[part.start])][base : base + rows * row_bytes]
    word = next(word for word in _WORDS if not (row_bytes | flat.data_ptr() | start) % word.itemsize)
    table = flat.view(word).view(rows, row_bytes // word.itemsize)
    return RowTable(
        table, torch.from_numpy(_rows((offsets - base) // row_bytes, sizes // row_bytes)), start, int(sizes.sum())
    )


def _rows(firsts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``firsts[i]``, ``firsts[i] + 1``, ... for ``counts[i]`` rows, one piece after the other."""
    ends = np.cumsum(counts)
    rows: NDArray[np.int64] = np.arange(int(ends[-1]), dtype=np.int64) + np.repeat(firsts - (ends - counts), counts)
    return rows
