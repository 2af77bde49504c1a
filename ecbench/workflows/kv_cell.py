"""One KV round trip of a sweep: a planned prompt, and the share of it that a cell's memory has room for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ecbench.core.copy_plan import merge_adjacent
from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.device_blocks import KvLayout
from ecbench.kv_offload.layout import DEFAULT_POLICY, ENGINE_RETENTION_INTERVAL
from ecbench.kv_offload.models.layer_caches import DEFAULT_BLOCK_SIZE
from ecbench.kv_offload.placement import BlockOrder, place_transfers
from ecbench.kv_offload.sampling import sample_chunks
from ecbench.kv_offload.scenario import KvScenario, make_case
from ecbench.kv_offload.transfers import CopyPlanner
from ecbench.targets.reference_kv import REGION_GUARD_BYTES
from ecbench.workflows.copy_cell import round_overhead_s, short_size
from ecbench.workflows.machine_axes import cell_name, machine_params

if TYPE_CHECKING:
    from ecbench.core.host_memory import HostMemoryKind
    from ecbench.core.records import Param
    from ecbench.kv_offload.sampling import ChunkSample
    from ecbench.kv_offload.scenario import KvCase
    from ecbench.targets.protocol import Target

DIRECTIONS: dict[str, Direction] = {"store": Direction.TO_HOST, "load": Direction.TO_DEVICE}
"""Names of the legs."""
DEFAULT_MODEL = "deepseek-v4-flash"
DEFAULT_ALIGNMENT = "default"
"""Stands for the chunk of the full-attention groups."""
DEFAULT_MEMORY_BYTES = 512 << 20
_PLAN_BYTES_PER_COPY = 3 * 8
"""Three int64."""
_CASES_KEPT = 4096
"""Plans that cells share which differ in engine, writer or host memory alone."""


@dataclass(frozen=True, eq=False)
class KvWork:
    """What a cell copies.

    Args:
        case: The whole round trip, planned.
        sample: Those of its chunks that are copied.
        pieces: Copies of the store, none of them joined.
        descriptors: Copies of the store; where blocks are shuffled, of one shuffle.
        copied_bytes: Bytes of the store.
    """

    case: KvCase
    sample: ChunkSample
    pieces: int
    descriptors: int
    copied_bytes: int

    @property
    def device_bytes(self) -> int:
        """Caches on the device."""
        return self.sample.memory.device.nbytes

    @property
    def region_bytes(self) -> int:
        """The reference's host slots, guards included."""
        return self.sample.memory.host.nbytes + 2 * REGION_GUARD_BYTES


@lru_cache(maxsize=_CASES_KEPT)
def plan_work(scenario: KvScenario, memory_bytes: int) -> KvWork:
    """Plans a round trip and takes what a memory has room for.

    Args:
        scenario: What the axes of a cell say.
        memory_bytes: Most bytes that host slots and device memory may take together.

    Raises:
        EcbenchError: Settings that do not fit together, a prompt that stores or hits nothing, or too little memory.
    """
    case = make_case("", scenario, 0, Path())
    sample = sample_chunks(case.plan, case.loads, scenario.layout, memory_bytes)
    placed = place_transfers(sample, scenario.block_order, 0)
    copies = CopyPlanner(placed.memory).plan(placed.stores, Direction.TO_HOST)
    return KvWork(
        case=case,
        sample=sample,
        pieces=len(copies),
        descriptors=len(merge_adjacent(copies) if scenario.coalesce else copies),
        copied_bytes=copies.total_bytes,
    )


@dataclass(frozen=True)
class KvCell:
    """A KV round trip with its values.

    Args:
        sweep: Name of the sweep.
        scenario: What is planned.
        memory_bytes: Most bytes of the cell's buffers, with the reference's slots; a target copies the same sample.
        work: What follows from both; why nothing does, where the values do not fit together.
        host_memory: How the host's side is held.
        writer: Registered name.
        engine: Registered name.
        directions: ``store``, ``load`` or both.
        not_here: Why the device cannot run it; None where it can.
        target: Whose worker copies; None where the reference's does, with writer and engine.
    """

    sweep: str
    scenario: KvScenario
    memory_bytes: int
    work: KvWork | EcbenchError
    host_memory: HostMemoryKind
    writer: str
    engine: str
    directions: tuple[str, ...]
    not_here: str | None
    target: Target | None = None

    @property
    def skipped(self) -> str | None:
        """Why it cannot run; None where it can."""
        return str(self.work) if isinstance(self.work, EcbenchError) else self.not_here

    @property
    def planned(self) -> KvWork:
        """What it copies; asked only of cells that can run."""
        assert isinstance(self.work, KvWork)
        return self.work

    @property
    def case_id(self) -> str:
        """Prompt and block size, then whatever is not usual, then the engine or the target."""
        scenario, retention = self.scenario, self.scenario.retention_interval
        parts = [
            f"{scenario.tokens}tok",
            f"block={scenario.block_size}",
            f"align={scenario.alignment_tokens}" if scenario.alignment_tokens is not None else "",
            f"chunk={scenario.blocks_per_chunk}" if scenario.blocks_per_chunk > 1 else "",
            f"retain={retention}" if retention != ENGINE_RETENTION_INTERVAL else "",
            scenario.layout.value if scenario.layout is not KvLayout.PACKED else "",
            scenario.block_order.value if scenario.block_order is not BlockOrder.SHUFFLED else "",
            scenario.model if scenario.model != DEFAULT_MODEL else "",
            f"policy={scenario.policy}" if scenario.policy != DEFAULT_POLICY else "",
            f"memory={short_size(self.memory_bytes)}" if self.memory_bytes != DEFAULT_MEMORY_BYTES else "",
            "" if scenario.coalesce else "apart",
        ]
        return cell_name(self.sweep, parts, self)

    @property
    def params(self) -> dict[str, Param]:
        """A value per axis, then the exact figures of the plan; directions are legs."""
        scenario = self.scenario
        values: dict[str, Param] = {
            "model": scenario.model,
            "tokens": scenario.tokens,
            "block_size_tokens": scenario.block_size or DEFAULT_BLOCK_SIZE,
            "alignment_tokens": scenario.alignment_tokens or DEFAULT_ALIGNMENT,
            "blocks_per_chunk": scenario.blocks_per_chunk,
            "retention_interval": scenario.retention_interval,
            "policy": scenario.policy,
            "layout": scenario.layout.value,
            "block_order": scenario.block_order.value,
            "memory_bytes": self.memory_bytes,
            "coalesce": scenario.coalesce,
            **machine_params(self),
        }
        return values if isinstance(self.work, EcbenchError) else {**values, **_plan_params(self.work)}

    @property
    def copied_bytes(self) -> int:
        """Bytes of the store, the larger direction."""
        return 0 if isinstance(self.work, EcbenchError) else self.work.copied_bytes

    @property
    def descriptors(self) -> int:
        """Descriptors of the store; a target's worker joins none."""
        if isinstance(self.work, EcbenchError):
            return 0
        return self.work.descriptors if self.target is None else self.work.pieces

    @property
    def buffer_bytes(self) -> int:
        """Both buffers: one is filled, the other poisoned, and both are checked."""
        return 0 if isinstance(self.work, EcbenchError) else self.work.device_bytes + self.region_bytes

    @property
    def region_bytes(self) -> int:
        """Host slots; a target lays them out its own way."""
        if isinstance(self.work, EcbenchError):
            return 0
        return self.work.region_bytes if self.target is None else self.target.kv_region_bytes(self.work.sample.memory)

    @property
    def plan_bytes(self) -> int:
        """Memory of the plans of both directions."""
        return 2 * _PLAN_BYTES_PER_COPY * self.descriptors

    @property
    def extra_s(self) -> float:
        """Rough seconds for descriptors and for what a round costs however small; a dry run's estimate, no result."""
        return round_overhead_s(self.writer, self.descriptors, len(self.directions))


def _plan_params(work: KvWork) -> dict[str, Param]:
    """Exact figures of the whole plan, and what share of it is copied."""
    plan, case = work.case.plan, work.case
    totals = plan.totals
    return {
        "hits_end_on_tokens": plan.alignment_tokens,
        "replay_hit_tokens": case.hit_tokens,
        "full_chunks": totals.all_full_chunks,
        "stored_chunks": totals.all_stored_chunks,
        "stored_chunks_by_group": [group.stored_chunks for group in plan.groups],
        "stored_blocks": sum(group.stored_blocks for group in plan.groups),
        "loaded_blocks": sum(load.blocks for load in case.loads),
        "block_stride_bytes": plan.layout.block_stride_bytes,
        "host_slot_bytes": plan.layout.host_slot_bytes,
        "groups": [f"{group.name}: {group.layout.tokens_per_block} tokens per block" for group in plan.groups],
        "stored_share_copied": work.sample.stored_fraction,
        "loaded_share_copied": work.sample.loaded_fraction,
    }
