"""The worker side of the reference connector: saves encoder outputs to the region and loads them back.

A step is: `begin_step`, `save` for each new output, `flush`, `load`, `poll`. Modelled on ``ec_connector/cpu`` of vLLM
0.33.0; where that misbehaves (zero-length entries, mixed dtypes, saves that never run) this one has a defined answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError
from ecbench.encoder_cache.blocks import BlockCopies, BlockIds
from ecbench.transfer.addresses import address_of
from ecbench.transfer.queue import CompletedTransfer, TransferQueue

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ecbench.core.protocols import CopyEngine, DescriptorWriter, Device
    from ecbench.transfer.descriptor_arrays import DescriptorArrays
    from ecbench.transfer.shared_region import SharedRegion

Layout = Callable[[BlockIds, int, int], BlockCopies]
"""`ecbench.encoder_cache.blocks.coalesced_copies` or `split_copies`."""
Keys = tuple[str, ...]


@dataclass(frozen=True)
class Rank:
    """A worker's place among its peers.

    Args:
        tensor_parallel: Rank in the tensor-parallel group.
        prefill_context_parallel: Rank in the prefill-context-parallel group.
    """

    tensor_parallel: int = 0
    prefill_context_parallel: int = 0

    @property
    def saves(self) -> bool:
        """Every rank holds the same encoder output, so one saves."""
        return self.tensor_parallel == 0 and self.prefill_context_parallel == 0


@dataclass(frozen=True)
class LoadSpec:
    """An entry to load.

    Args:
        block_ids: Its blocks in order.
        shape: Shape of the encoder output.
        dtype: Its dtype.
    """

    block_ids: BlockIds
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Finished:
    """What ended since the last poll.

    Args:
        saved: Entries whose bytes are in the region.
        loaded: Entries whose bytes are on the device.
        abandoned: Entries that were to be saved and whose output never came; their blocks can be discarded.
        saves: The batches behind ``saved``.
        loads: The batches behind ``loaded``.
    """

    saved: Keys = ()
    loaded: Keys = ()
    abandoned: Keys = ()
    saves: tuple[CompletedTransfer[Keys], ...] = ()
    loads: tuple[CompletedTransfer[Keys], ...] = ()


@dataclass
class _PendingBatch:
    """Saves of a step that were announced or described but not submitted."""

    awaited: dict[str, BlockIds]
    arrays: DescriptorArrays | None = None
    descriptors: int = 0
    keys: list[str] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    fill_s: float = 0.0


class EncoderCacheWorker:
    """Moves encoder outputs between a device and a shared region.

    Args:
        region: The region; closed by `shutdown`.
        device: Holds the encoder outputs.
        engine: Moves bytes.
        writer: Writes descriptors.
        layout: Turns blocks into copies: joined runs, or block by block.
        dtype: dtype of the model's embeddings; outputs of another are refused, since a load would misread them.
        rank: This worker's place; decides whether it saves.
        allocate: Gives uint8 device memory for loads; by default the device's pool.
    """

    def __init__(
        self,
        region: SharedRegion,
        device: Device,
        engine: CopyEngine,
        writer: DescriptorWriter,
        *,
        layout: Layout,
        dtype: torch.dtype,
        rank: Rank = Rank(),
        allocate: Callable[[int], Tensor] | None = None,
    ) -> None:
        self._region = region
        self._blocks = region.blocks.view(-1)
        self._device = device
        self._writer = writer
        self._layout = layout
        self._dtype = dtype
        self._rank = rank
        self._allocate = allocate or device.empty
        self._saves: TransferQueue[Keys] = TransferQueue(device, engine, Direction.TO_HOST)
        self._loads: TransferQueue[Keys] = TransferQueue(device, engine, Direction.TO_DEVICE)
        self._pending = _PendingBatch({})
        self._done_without_copy: list[str] = []
        self._loaded_without_copy: list[str] = []
        self._abandoned: list[str] = []

    def begin_step(self, saves: Mapping[str, BlockIds]) -> None:
        """Announces which entries this step saves, and where. Saves of an earlier step that never came are given up."""
        self._give_up_pending()
        self._pending = _PendingBatch(dict(saves) if self._rank.saves else {})

    def save(self, key: str, output: Tensor) -> None:
        """Adds an encoder output to the step's batch. Does nothing where the entry is not this rank's to save.

        Args:
            key: The entry.
            output: Contiguous, of the model's dtype, at most as many bytes as its blocks; held until the copy is done.

        Raises:
            EcbenchError: An output of another dtype, a non-contiguous one, or one larger than its blocks.
            CopyRefusedError: The writer cannot write this address.
        """
        block_ids = self._pending.awaited.get(key)
        if block_ids is None:
            return
        self._refuse_unsupported(key, output)
        began = time.perf_counter()
        block_bytes = self._region.block_size_bytes
        copies = self._layout(block_ids, block_bytes, output.nbytes)
        if len(copies.sizes):
            self._add_copies(_save_plan(copies, block_bytes, output.nbytes, self._blocks.nbytes), output)
        self._pending.fill_s += time.perf_counter() - began
        del self._pending.awaited[key]
        self._pending.keys.append(key)

    def flush(self) -> None:
        """Submits the step's saves as one batch, and gives up those whose output did not come.

        Raises:
            CopyRefusedError: The engine cannot take the batch.
        """
        pending, self._pending = self._pending, _PendingBatch({})
        self._abandoned += pending.awaited
        if pending.arrays is None:
            self._done_without_copy += pending.keys
            return
        self._saves.submit(
            tuple(pending.keys),
            pending.arrays,
            pending.descriptors,
            sources=tuple(pending.outputs),
            destinations=(self._blocks,),
            fill_s=pending.fill_s,
        )

    def load(self, loads: Mapping[str, LoadSpec]) -> dict[str, Tensor]:
        """Loads entries in one batch; the compute stream waits for it.

        Whole blocks are copied, in the order of the entries' first blocks, so that neighbours share a descriptor.

        Args:
            loads: What to load; an entry that is on the device already is loaded again.

        Returns:
            A view per entry, of its shape and dtype, into one buffer.

        Raises:
            EcbenchError: A dtype other than the model's, or a shape larger than its blocks.
            CopyRefusedError: The writer or the engine refuses the batch.
        """
        for key, spec in loads.items():
            self._refuse_dtype(key, spec.dtype)
        began = time.perf_counter()
        ordered = sorted(loads.items(), key=lambda item: _first_block(item[1].block_ids))
        blocks = BlockIds.concatenate([spec.block_ids for _, spec in ordered])
        total = len(blocks) * self._region.block_size_bytes
        buffer = self._allocate(total)
        views = self._views(ordered, buffer)
        if not total:
            self._loaded_without_copy += views
            return views
        copies = self._layout(blocks, self._region.block_size_bytes, total)
        plan = _load_plan(copies, self._region.block_size_bytes, self._blocks.nbytes, total)
        arrays = self._loads.arrays.acquire(len(plan))
        try:
            self._writer.write(arrays, 0, plan, address_of(self._blocks), address_of(buffer))
        except BaseException:
            self._loads.arrays.release(arrays)
            raise
        fill_s = time.perf_counter() - began
        stream = self._loads.submit(
            tuple(views), arrays, len(plan), sources=(self._blocks,), destinations=(buffer,), fill_s=fill_s
        )
        self._device.current_stream().wait_stream(stream)
        return views

    def poll(self) -> Finished:
        """Reports what ended since the last call; never waits."""
        return self._report(self._saves.poll(), self._loads.poll())

    def wait(self) -> Finished:
        """Reports everything that was in flight, when it is done."""
        return self._report(self._saves.wait(), self._loads.wait())

    def shutdown(self) -> None:
        """Waits for copies in flight and closes the region, also where waiting fails. May be called twice."""
        try:
            self._give_up_pending()
            self._saves.wait()
            self._loads.wait()
        finally:
            self._region.close()

    def _refuse_unsupported(self, key: str, output: Tensor) -> None:
        self._refuse_dtype(key, output.dtype)
        if not output.is_contiguous():
            raise EcbenchError(
                f"entry {key!r}: output of shape {tuple(output.shape)} has strides {tuple(output.stride())}: "
                "call .contiguous() before saving it"
            )

    def _refuse_dtype(self, key: str, dtype: torch.dtype) -> None:
        if dtype is not self._dtype:
            raise EcbenchError(
                f"entry {key!r} is {dtype}, the model's embeddings are {self._dtype}: cast the encoder's output first"
            )

    def _add_copies(self, plan: CopyPlan, output: Tensor) -> None:
        pending = self._pending
        wanted = pending.descriptors + len(plan)
        if pending.arrays is None:
            pending.arrays = self._saves.arrays.acquire(wanted)
        elif wanted > pending.arrays.capacity:
            pending.arrays = self._saves.arrays.grow(pending.arrays, pending.descriptors, wanted)
        self._writer.write(pending.arrays, pending.descriptors, plan, address_of(output), address_of(self._blocks))
        pending.descriptors = wanted
        pending.outputs.append(output)

    def _views(self, ordered: list[tuple[str, LoadSpec]], buffer: Tensor) -> dict[str, Tensor]:
        views = {}
        start = 0
        for key, spec in ordered:
            length = spec.dtype.itemsize * _product(spec.shape)
            capacity = len(spec.block_ids) * self._region.block_size_bytes
            if length > capacity:
                raise EcbenchError(
                    f"entry {key!r} of shape {spec.shape} is {length} bytes but its {len(spec.block_ids)} blocks hold "
                    f"{capacity}: load it with the shape it was saved with"
                )
            views[key] = buffer[start : start + length].view(spec.dtype).view(spec.shape)
            start += capacity
        return views

    def _give_up_pending(self) -> None:
        self._abandoned += [*self._pending.awaited, *self._pending.keys]
        if self._pending.arrays is not None:
            self._saves.arrays.release(self._pending.arrays)
        self._pending = _PendingBatch({})

    def _report(self, saves: list[CompletedTransfer[Keys]], loads: list[CompletedTransfer[Keys]]) -> Finished:
        saved = [key for transfer in saves for key in transfer.label] + self._done_without_copy
        loaded = [key for transfer in loads for key in transfer.label] + self._loaded_without_copy
        abandoned = self._abandoned
        self._done_without_copy, self._loaded_without_copy, self._abandoned = [], [], []
        return Finished(tuple(saved), tuple(loaded), tuple(abandoned), tuple(saves), tuple(loads))


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for length in shape:
        result *= length
    return result


def _first_block(block_ids: BlockIds) -> int:
    return int(block_ids.firsts[0]) if len(block_ids) else -1


def _save_plan(copies: BlockCopies, block_bytes: int, output_bytes: int, region_bytes: int) -> CopyPlan:
    slots, first_blocks, sizes = copies
    return CopyPlan(slots * block_bytes, first_blocks * block_bytes, sizes, output_bytes, region_bytes)


def _load_plan(copies: BlockCopies, block_bytes: int, region_bytes: int, total_bytes: int) -> CopyPlan:
    slots, first_blocks, sizes = copies
    return CopyPlan(first_blocks * block_bytes, slots * block_bytes, sizes, region_bytes, total_bytes)
