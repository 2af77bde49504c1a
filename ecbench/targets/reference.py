"""ecbench's own encoder-cache connector as a target."""

from __future__ import annotations

import mmap
import time
from typing import TYPE_CHECKING

import torch

from ecbench.encoder_cache.blocks import coalesced_copies, split_copies
from ecbench.encoder_cache.worker import EncoderCacheWorker, LoadSpec
from ecbench.encoder_cache.workloads.placement import place_entries, region_blocks_of
from ecbench.transfer.shared_region import create_region

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import CopyEngine, DescriptorWriter, Device
    from ecbench.encoder_cache.blocks import BlockIds
    from ecbench.encoder_cache.workloads.scenario import EncoderCacheCase

REGION_GUARD_BYTES = mmap.PAGESIZE
DTYPE = torch.bfloat16


class ReferenceSession:
    """The reference connector, opened for one case.

    Args:
        case: Entries and how they lie in the region.
        device: Holds the encoder outputs.
        engine: Moves bytes.
        writer: Writes descriptors.
        allocate: Gives the memory that loads go to.

    Raises:
        DoesNotFitError: The region does not fit /dev/shm.
    """

    def __init__(
        self,
        case: EncoderCacheCase,
        *,
        device: Device,
        engine: CopyEngine,
        writer: DescriptorWriter,
        allocate: Callable[[int], Tensor],
    ) -> None:
        self._block_ids = place_entries(case)
        self._region = create_region(region_blocks_of(case), case.model.block_size_bytes, REGION_GUARD_BYTES)
        self._registration = device.register_host(self._region.whole)
        self._worker = EncoderCacheWorker(
            self._region,
            device,
            engine,
            writer,
            layout=coalesced_copies if case.scenario.coalesce else split_copies,
            dtype=DTYPE,
            allocate=allocate,
        )

    @property
    def region(self) -> Tensor:
        """Guard, blocks, guard."""
        return self._region.whole

    @property
    def notes(self) -> tuple[str, ...]:
        """Why the region is not pinned, where that was asked for."""
        return (self._registration.note,) if self._registration.note else ()

    @property
    def blocks_offset(self) -> int:
        """Where block 0 begins."""
        return self._region.guard_bytes

    def block_ids(self, key: str) -> BlockIds:
        """Blocks of an entry."""
        return self._block_ids[key]

    def save(self, outputs: Mapping[str, Tensor]) -> CopyTimes:
        """One step that saves all outputs."""
        began = time.perf_counter()
        self._worker.begin_step({key: self._block_ids[key] for key in outputs})
        for key, output in outputs.items():
            self._worker.save(key, output)
        self._worker.flush()
        (transfer,) = self._worker.wait().saves
        return transfer.copy_times(time.perf_counter() - began)

    def load(self, shapes: Mapping[str, tuple[int, ...]]) -> CopyTimes:
        """One step that loads all entries."""
        began = time.perf_counter()
        self._worker.load({key: LoadSpec(self._block_ids[key], shape, DTYPE) for key, shape in shapes.items()})
        (transfer,) = self._worker.wait().loads
        return transfer.copy_times(time.perf_counter() - began)

    def close(self) -> None:
        """Shuts the worker down, and the region with it; the driver lets go only when no copy is in flight."""
        try:
            self._worker.shutdown()
        finally:
            self._registration.release()
