"""Which chunks of a plan are copied: all, or an even share of every group where they would take too much memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.errors import DoesNotFitError, EcbenchError
from ecbench.core.units import format_bytes
from ecbench.kv_offload.device_blocks import KvLayout, lay_out_blocks
from ecbench.kv_offload.host_slots import HostSlots
from ecbench.kv_offload.transfers import KvMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ecbench.kv_offload.layout import OffloadLayout
    from ecbench.kv_offload.loading import GroupLoad
    from ecbench.kv_offload.planning import OffloadPlan

SPARE_SHARE = 8
"""One block or slot beside every so many that are used: nobody may write there, which the verifier sees."""
_BISECTIONS = 40
"""Halvings of the interval from nothing to everything: finer than any number of chunks."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupSample:
    """Chunks of one group that are copied.

    Args:
        load: What the hit loads of the group.
        stored: Chunks that are stored; int64, ascending.
        loaded: Those of them that are loaded; int64, ascending.
        planned_chunks: Chunks that the plan stores.
    """

    load: GroupLoad
    stored: NDArray[np.int64]
    loaded: NDArray[np.int64]
    planned_chunks: int

    @property
    def skip(self) -> int:
        """Blocks of the first loaded chunk that are not loaded."""
        per_chunk = self.load.layout.blocks_per_chunk
        return max(self.load.first_block - int(self.loaded[0]) * per_chunk, 0) if len(self.loaded) else 0

    @property
    def loaded_blocks(self) -> int:
        """Blocks that are loaded."""
        per_chunk = self.load.layout.blocks_per_chunk
        if not len(self.loaded):
            return 0
        missing_at_end = max((int(self.loaded[-1]) + 1) * per_chunk - self.load.end_block, 0)
        return len(self.loaded) * per_chunk - self.skip - missing_at_end

    @property
    def stored_blocks(self) -> int:
        """Blocks that are stored."""
        return len(self.stored) * self.load.layout.blocks_per_chunk


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSample:
    """Chunks that are copied, and the memory they take.

    Args:
        memory: Both sides.
        groups: One sample per group, in the model's order.
    """

    memory: KvMemory
    groups: tuple[GroupSample, ...]

    @property
    def stored_fraction(self) -> float:
        """Share of the plan's stored bytes that is copied; 1.0 where nothing is stored."""
        return self._share([(len(group.stored), group.planned_chunks) for group in self.groups])

    @property
    def loaded_fraction(self) -> float:
        """Share of the hit's bytes that is copied; 1.0 where nothing is loaded."""
        return self._share([(group.loaded_blocks, group.load.blocks) for group in self.groups])

    def _share(self, counts: Sequence[tuple[int, int]]) -> float:
        weights = [self.memory.block_bytes(group) for group in range(len(self.groups))]
        taken = sum(weight * count for weight, (count, _) in zip(weights, counts, strict=True))
        planned = sum(weight * count for weight, (_, count) in zip(weights, counts, strict=True))
        return taken / planned if planned else 1.0


def lay_out_memory(layout: OffloadLayout, kind: KvLayout, chunks: Sequence[int]) -> KvMemory:
    """Works out both sides for a number of chunks.

    Args:
        layout: Model and settings.
        kind: How caches lie on the device.
        chunks: Chunks of each group.
    """
    blocks = [_with_spare(count * layout.blocks_per_chunk) for count in chunks]
    return KvMemory(layout, lay_out_blocks(layout, kind, blocks), HostSlots.of(layout, _with_spare(sum(chunks))))


def memory_of_everything(plan: OffloadPlan, kind: KvLayout) -> KvMemory:
    """Both sides for all that a plan stores."""
    return lay_out_memory(plan.layout, kind, [group.stored_chunks for group in plan.groups])


def sample_chunks(plan: OffloadPlan, loads: Sequence[GroupLoad], kind: KvLayout, max_bytes: int | None) -> ChunkSample:
    """Takes all chunks of a plan, or as large a share of every group as fits.

    Args:
        plan: What is stored.
        loads: What a hit loads, from `plan_load`.
        kind: How caches lie on the device.
        max_bytes: Most bytes that host slots and device memory may take together; None for any number.

    Returns:
        The chunks, spread evenly over each group; at least one of every group that stores any, and as large a share of
        those that are loaded.

    Raises:
        EcbenchError: A load of a chunk that the plan does not store.
        DoesNotFitError: Not even one chunk per group fits.
    """
    for group, load in zip(plan.groups, loads, strict=True):
        _refuse_missing(group.stored, load)
    planned = [group.stored_chunks for group in plan.groups]
    share = _largest_share(plan.layout, kind, planned, max_bytes)
    counts = _counts(planned, share)
    groups = tuple(
        _sample_group(group.chunk_ids(), load, count, share)
        for group, load, count in zip(plan.groups, loads, counts, strict=True)
    )
    return ChunkSample(lay_out_memory(plan.layout, kind, counts), groups)


def _refuse_missing(stored: NDArray[np.bool_], load: GroupLoad) -> None:
    needed = load.end_chunk - load.first_chunk
    if int(stored[load.first_chunk : load.end_chunk].sum()) < needed:
        raise EcbenchError(
            f"group {load.layout.name}: the load needs chunks {load.first_chunk} to {load.end_chunk - 1}, and the plan "
            "does not store all of them: load what look_up finds"
        )


def _largest_share(layout: OffloadLayout, kind: KvLayout, planned: Sequence[int], max_bytes: int | None) -> float:
    if max_bytes is None or lay_out_memory(layout, kind, planned).nbytes <= max_bytes:
        return 1.0
    least = lay_out_memory(layout, kind, _counts(planned, 0.0)).nbytes
    if least > max_bytes:
        raise DoesNotFitError(
            f"one chunk of every group takes {format_bytes(least)}, more than the {format_bytes(max_bytes)} given: "
            "give more, or fewer blocks per chunk or ranks"
        )
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        fits = lay_out_memory(layout, kind, _counts(planned, middle)).nbytes <= max_bytes
        low, high = (middle, high) if fits else (low, middle)
    return low


def _counts(planned: Sequence[int], share: float) -> list[int]:
    return [min(max(int(count * share), 1), count) for count in planned]


def _sample_group(chunks: NDArray[np.int64], load: GroupLoad, count: int, share: float) -> GroupSample:
    wanted = np.arange(load.first_chunk, load.end_chunk, dtype=np.int64)
    loaded = _spread(wanted, min(count, _counts([len(wanted)], share)[0]))
    others = np.setdiff1d(chunks, loaded, assume_unique=True)
    stored = np.union1d(loaded, _spread(others, count - len(loaded)))
    return GroupSample(load, stored, loaded, len(chunks))


def _spread(ids: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """So many of the ids, evenly apart, the first and the last among them."""
    return ids[np.arange(count) * (len(ids) - 1) // max(count - 1, 1)]


def _with_spare(count: int) -> int:
    return count + max(count // SPARE_SHARE, 1)
