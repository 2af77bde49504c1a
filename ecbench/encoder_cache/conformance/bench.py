"""What a check works with: parts of the target, encoder outputs with known bytes, and processes of its own."""

from __future__ import annotations

import gc
import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ecbench.core.conformance_protocols import ConnectorSpec
from ecbench.encoder_cache.conformance.definitions import CheckFailedError, require
from ecbench.encoder_cache.conformance.forks import run_forked
from ecbench.encoder_cache.conformance.outputs import (
    BLOCK_BYTES,
    MODEL_DTYPE,
    PAD,
    REGION_BLOCKS,
    ROW_ELEMENTS,
    as_output,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from torch import Tensor

    from ecbench.core.conformance_protocols import (
        ConformanceAllocator,
        ConformanceRegion,
        ConformanceScheduler,
        ConformanceTarget,
        ConformanceWorker,
    )


class Bench:
    """One use of a target.

    Args:
        target: The target.
        names: Names that connectors and regions of this check may have; the target's files follow from them.
        seed: Decides the content of encoder outputs and whatever else is drawn.
    """

    def __init__(self, target: ConformanceTarget, names: Iterator[str], seed: int) -> None:
        self.target = target
        self.random = random.Random(seed)  # noqa: S311 - content, not secrets
        self._names = names
        self._closers: list[Callable[[], object]] = []

    def new_name(self) -> str:
        """A name that no connector or region of this run has."""
        return next(self._names)

    def spec(
        self,
        name: str | None = None,
        *,
        blocks: int = REGION_BLOCKS,
        capacity: int | str | None = None,
        dtype: torch.dtype = MODEL_DTYPE,
        participants: int = 1,
        ranks: tuple[int, int] = (0, 0),
        holds_copies: bool = False,
        unsigned_addresses: bool = False,
    ) -> ConnectorSpec:
        """How a small connector is made; its blocks have `ROW_ELEMENTS` elements."""
        return ConnectorSpec(
            name=name or self.new_name(),
            capacity=blocks * ROW_ELEMENTS * dtype.itemsize if capacity is None else capacity,
            row_elements=ROW_ELEMENTS,
            dtype=dtype,
            participants=participants,
            tensor_rank=ranks[0],
            context_rank=ranks[1],
            holds_copies=holds_copies,
            unsigned_addresses=unsigned_addresses,
        )

    def allocator(self, num_blocks: int) -> ConformanceAllocator:
        """A fresh allocator."""
        return self.target.allocator(num_blocks)

    def worker(self, spec: ConnectorSpec | None = None) -> ConformanceWorker:
        """A worker over a region full of `PAD`; it is shut down after the check."""
        worker = self.target.worker(spec or self.spec())
        self._closers.append(worker.shutdown)
        worker.blocks.fill_(PAD)
        return worker

    def another_worker(self, spec: ConnectorSpec) -> ConformanceWorker:
        """A worker over the region of an earlier one, whose bytes stay."""
        worker = self.target.worker(spec)
        self._closers.append(worker.shutdown)
        return worker

    def scheduler(self, spec: ConnectorSpec | None = None) -> ConformanceScheduler:
        """A scheduler; it is shut down after the check."""
        scheduler = self.target.scheduler(spec or self.spec())
        self._closers.append(scheduler.shutdown)
        return scheduler

    def create_region(self, name: str, num_blocks: int, block_size_bytes: int = BLOCK_BYTES) -> ConformanceRegion:
        """A new region; it is cleaned up after the check."""
        region = self.target.create_region(name, num_blocks, block_size_bytes)
        self._closers.append(region.cleanup)
        return region

    def open_region(self, name: str, num_blocks: int, block_size_bytes: int = BLOCK_BYTES) -> ConformanceRegion:
        """A region once more; it is cleaned up after the check."""
        region = self.target.open_region(name, num_blocks, block_size_bytes)
        self._closers.append(region.cleanup)
        return region

    def content(self, nbytes: int) -> Tensor:
        """Random bytes on the host, as a `MODEL_DTYPE` output of one row: shape ``(1, nbytes // 2)``."""
        return as_output(self.random.randbytes(nbytes))

    def close(self) -> None:
        """Ends everything that was made, last first; what fails here was judged by a check or never will be."""
        while self._closers:
            with suppress(Exception):
                self._closers.pop()()
        gc.collect()

    def left_files(self, name: str) -> list[str]:
        """Files of a connector or region that exist now."""
        return [path for path in self.target.files(name) if Path(path).exists()]

    def run_in_process(self, work: Callable[[], object]) -> None:
        """Runs something in a forked process and waits for it.

        Args:
            work: Nothing of it is seen here but how it ended.

        Raises:
            CheckFailedError: It raised, or was ended by a signal.
        """
        status = run_forked(work)
        if status.error:
            raise CheckFailedError(f"in another process: {status.error}")
        require(status.signal is None, f"another process was ended by {status.signal}")
