"""Which engine a batch gets on an accelerator: one table, and where each of its lines comes from."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.errors import CopyRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.descriptors import DescriptorBatch, PreparedCopy
    from ecbench.core.protocols import CopyEngine

FALLBACK = "per-copy"
"""Runs wherever torch does, and takes any batch."""
KIB = 1024


@dataclass(frozen=True)
class Choice:
    """One line of the table: what is tried, in order, for batches of one form.

    Args:
        kind: Kind of accelerator.
        min_descriptors: Fewest copies.
        max_block_bytes: Largest median size; None for any.
        engines: What to try; one that is not here or refuses the batch makes room for the next.
        source: Where the line comes from.
    """

    kind: str
    min_descriptors: int
    max_block_bytes: int | None
    engines: tuple[str, ...]
    source: str

    def fits(self, descriptors: int, block_bytes: int) -> bool:
        """Tells whether a batch is of this line's form."""
        return descriptors >= self.min_descriptors and (
            self.max_block_bytes is None or block_bytes <= self.max_block_bytes
        )


CHOICES: tuple[Choice, ...] = (
    Choice(
        "cuda",
        16,
        28 * KIB - 1,
        ("triton", "cuda-batch", "vllm-op", "staged"),
        "published for an H100: a kernel wins below 28 KiB, from 16 descriptors (vLLM #42212); not measured here",
    ),
    Choice(
        "cuda", 2, None, ("cuda-batch", "vllm-op"), "published for an H100: above, the DMA engines win (vLLM #42212)"
    ),
    Choice("rocm", 16, 28 * KIB - 1, ("triton", "staged", "vllm-op"), "taken over from the H100; not measured here"),
    Choice("rocm", 2, None, ("vllm-op",), "by construction: one call for many copies; not measured here"),
    Choice("xpu", 16, 64 * KIB, ("staged", "vllm-op"), "by construction: one transfer for many; not measured here"),
    Choice("xpu", 2, None, ("vllm-op",), "by construction: one call for many copies; not measured here"),
)
"""The first line that fits decides; where none does, or all of its engines pass, `FALLBACK` runs."""


def choose(kind: str, descriptors: int, block_bytes: int) -> tuple[str, ...]:
    """Engines to try for a batch, best first.

    Args:
        kind: Kind of accelerator.
        descriptors: Copies in the batch.
        block_bytes: Their median size.
    """
    lines = (line for line in CHOICES if line.kind == kind and line.fits(descriptors, block_bytes))
    line = next(lines, None)
    return (*line.engines, FALLBACK) if line else (FALLBACK,)


class AutoAcceleratorEngine:
    """The table's choice for each batch; the prepared copy names it.

    Args:
        kind: Kind of accelerator.
        find: Makes an engine by name; None where it cannot run here. Asked once per name and only when a batch wants
            it: looking for some engines imports large packages.
    """

    name = "auto"

    def __init__(self, kind: str, find: Callable[[str], CopyEngine | None]) -> None:
        self._kind = kind
        self._find = functools.cache(find)

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Prepares the batch with the first engine that is here and takes it.

        Raises:
            CopyRefusedError: Not even the fallback takes it.
        """
        sizes = batch.sizes.numpy().view(np.uint64)
        refusal: CopyRefusedError | None = None
        for name in choose(self._kind, len(sizes), int(np.median(sizes))):
            engine = self._find(name)
            try:
                if engine is not None:
                    return engine.prepare(batch)
            except CopyRefusedError as error:
                refusal = error
        raise refusal or CopyRefusedError(f"engine auto: not even {FALLBACK} runs on {self._kind}: name another engine")
