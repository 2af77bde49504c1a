"""A planned prompt as a case of ``dsv4-swa-savings``: what is stored, proved and fits, as records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from ecbench.core.errors import EcbenchError
from ecbench.core.savings_records import (
    BlockSizeSavings,
    HostMemory,
    LoadProof,
    NotLoadableBoundary,
    SavedGroup,
    SavingsCase,
    SavingsTotals,
    StoredRuns,
)
from ecbench.kv_offload import host_capacity, plan_store, prove
from ecbench.kv_offload.differential import replay_hit
from ecbench.kv_offload.real_scheduler import SchedulerRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ecbench.core.records import Param
    from ecbench.kv_offload import GroupPlan, HybridModel, OffloadPlan, OffloadSettings, RegisteredCache

T = TypeVar("T")
WORKLOAD = "dsv4"
BLOCK_SIZES = (16, 32, 64, 128, 256, 512, 1024)
"""Block sizes of the full-attention groups that savings are shown for, beside the one that was asked for."""


@dataclass(frozen=True)
class SavingsPlan:
    """A case that is planned.

    Args:
        model: As asked for.
        model_with: Makes the same model with another block size of its full-attention groups.
        tokens: Tokens of the prompt.
        settings: Policy, retention and the rest.
        params: What was chosen, as it is kept.
        caches: Lists the caches of the model's layers; None where the model is described by its groups.
        shared_prefix: Tokens of a prefix that another request is known to share.
        step_tokens: Tokens that a real scheduler computes in one step; None computes the prompt at once.
    """

    model: HybridModel
    model_with: Callable[[int], HybridModel]
    tokens: int
    settings: OffloadSettings
    params: dict[str, Param]
    caches: Callable[[], tuple[RegisteredCache, ...] | None]
    shared_prefix: int | None = None
    step_tokens: int | None = None

    @property
    def case_id(self) -> str:
        """Model, tokens, policy and, where the policy knows it, the retention interval."""
        retention = self.params["retention_interval"]
        parts = [self.model.name, str(self.tokens), self.settings.policy]
        if self.settings.policy != "pr":
            parts.append(f"retention-{'none' if retention is None else retention}")
        return "/".join(parts)

    def plan(self) -> OffloadPlan:
        """What is stored."""
        return self.plan_of(self.model)

    def plan_of(self, model: HybridModel) -> OffloadPlan:
        """What is stored of the same prompt by another model."""
        prefixes = () if self.shared_prefix is None else (self.shared_prefix,)
        return plan_store(model, self.tokens, self.settings, shared_prefixes=prefixes)

    def request(self) -> SchedulerRequest:
        """The same as a real scheduler is asked."""
        return SchedulerRequest(
            model=self.model,
            tokens=self.tokens,
            settings=self.settings,
            caches=self.caches(),
            step_tokens=self.step_tokens,
            shared_prefix=self.shared_prefix,
        )


def describe_plan(wanted: SavingsPlan, plan: OffloadPlan, memory_bytes: int, *, proved: bool) -> SavingsCase:
    """Makes a case, without anything measured.

    Args:
        wanted: What was asked for.
        plan: What that stores.
        memory_bytes: Host memory to count tokens in.
        proved: Whether every advertised boundary is to be tried.

    Raises:
        DoesNotFitError: The host memory is below one slot.
    """
    layout = plan.layout
    return SavingsCase(
        case_id=wanted.case_id,
        workload=WORKLOAD,
        params=wanted.params,
        legs=[],
        copies=layout.copies,
        alignment_tokens=plan.alignment_tokens,
        scheduler_block_size=layout.scheduler_block_size,
        hash_block_size=layout.hash_block_size,
        block_stride_bytes=layout.block_stride_bytes,
        host_slot_bytes=layout.host_slot_bytes,
        groups=[_saved_group(group) for group in plan.groups],
        totals=_same_fields(plan.totals, SavingsTotals),
        replay_hit_tokens=replay_hit(plan),
        proof=_load_proof(plan) if proved else None,
        host_memory=_same_fields(host_capacity(plan, memory_bytes), HostMemory),
        by_block_size=_by_block_size(wanted),
    )


def without_skip(plan: OffloadPlan) -> OffloadPlan:
    """The same prompt where every chunk is stored."""
    groups = tuple(replace(group, stored=_all_true(group.full_chunks)) for group in plan.groups)
    return replace(plan, groups=groups)


def _all_true(chunks: int) -> NDArray[np.bool_]:
    stored = np.ones(chunks, dtype=np.bool_)
    stored.flags.writeable = False
    return stored


def _same_fields(source: object, record: type[T]) -> T:
    return msgspec.convert(source, record, from_attributes=True)


def _saved_group(plan: GroupPlan) -> SavedGroup:
    layout, group = plan.layout, plan.layout.group
    return SavedGroup(
        name=plan.name,
        kind=layout.kind.value,
        layers=group.layers,
        eagle=group.eagle,
        tokens_per_block=layout.tokens_per_block,
        tokens_per_chunk=layout.tokens_per_chunk,
        window_tokens=group.window_tokens,
        full_chunks=plan.full_chunks,
        stored_chunks=plan.stored_chunks,
        stored_blocks=plan.stored_blocks,
        saved_fraction=plan.saved_fraction,
        page_size_bytes=group.page_size_bytes,
        real_page_size_bytes=group.real_page_size_bytes,
        stored_runs=stored_runs(plan.stored),
    )


def stored_runs(stored: NDArray[np.bool_]) -> list[StoredRuns]:
    """Writes a mask as runs that repeat.

    Args:
        stored: bool, shape ``(chunks,)``.

    Returns:
        Runs in ascending order. Work grows with the number of these, not with that of chunks, but for NumPy's passes.
    """
    edges = np.flatnonzero(np.diff(stored, prepend=False, append=False)).reshape(-1, 2)
    firsts, lengths = edges[:, 0], edges[:, 1] - edges[:, 0]
    steps = np.diff(firsts)
    alike = lengths[1:] == lengths[:-1]
    breaks = np.flatnonzero(~alike[1:] | (steps[1:] != steps[:-1])) + 1
    found: list[StoredRuns] = []
    start = 0
    while start < len(firsts):
        end = start + 1
        if start < len(steps) and alike[start]:
            later = breaks[np.searchsorted(breaks, start + 1) :]
            end = int(later[0]) + 1 if len(later) else len(firsts)
        first, length = int(firsts[start]), int(lengths[start])
        step = int(steps[start]) if end - start > 1 else length
        found.append(StoredRuns(first_chunk=first, chunks=length, step_chunks=step, runs=end - start))
        start = end
    return found


def _load_proof(plan: OffloadPlan) -> LoadProof:
    proof = prove(plan)
    return LoadProof(
        ok=proof.ok,
        boundaries_checked=proof.boundaries_checked,
        not_loadable=[_same_fields(found, NotLoadableBoundary) for found in proof.not_loadable],
        lost_tokens=proof.lost_tokens,
        not_used_by_replays=proof.not_used_by_replays,
    )


def _by_block_size(wanted: SavingsPlan) -> list[BlockSizeSavings]:
    """Plans the same with other block sizes; those that do not fit the model or a setting are left out."""
    own = {group.tokens_per_block for group in wanted.model.groups if group.kind == "full"}
    if not own:
        return []
    tried = [_savings_with(wanted, size) for size in sorted({*BLOCK_SIZES, *own})]
    return [savings for savings in tried if savings is not None]


def _savings_with(wanted: SavingsPlan, block_size: int) -> BlockSizeSavings | None:
    try:
        totals = wanted.plan_of(wanted.model_with(block_size)).totals
    except EcbenchError:
        return None
    return BlockSizeSavings(
        block_size=block_size,
        sliding_saved_fraction=totals.sliding_saved_fraction,
        all_saved_fraction=totals.all_saved_fraction,
    )
