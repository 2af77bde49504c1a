"""Results of ``dsv4-swa-savings`` as they are kept."""

from __future__ import annotations

import msgspec

from ecbench.core.differential_records import FuzzTally, SchedulerComparison  # noqa: TC001 - msgspec reads annotations
from ecbench.core.records import CaseResult, LegResult, Record, RunResult


class StoredRuns(Record, frozen=True, kw_only=True):
    """Equally long runs of stored chunks at equal distances; a few of these are a whole mask."""

    first_chunk: int
    chunks: int
    """Chunks of each run."""
    step_chunks: int
    """From the start of one run to that of the next; as long as the run where there is only one."""
    runs: int


class SavedGroup(Record, frozen=True, kw_only=True):
    """What is stored of one cache group."""

    name: str
    kind: str
    """``full``, ``sliding``, ``chunked`` or ``mamba``."""
    layers: int
    """Caches in the group; a layer with an indexer counts twice."""
    eagle: bool
    tokens_per_block: int
    tokens_per_chunk: int
    window_tokens: int | None
    """Null where a group has no window."""
    full_chunks: int
    """Whole chunks of the prompt."""
    stored_chunks: int
    stored_blocks: int
    saved_fraction: float
    """Share of the chunks that is not stored."""
    page_size_bytes: int
    """One block of all layers, padding included."""
    real_page_size_bytes: int
    """What transfers move of one block of all layers."""
    stored_runs: list[StoredRuns] = msgspec.field(default_factory=list)
    """Which chunks those are, in ascending order."""


class SavingsTotals(Record, frozen=True, kw_only=True):
    """Sums over the groups. *Sliding* counts every group but full attention.

    Real and padded bytes are those of one rank; host bytes are whole slots, with all the copies they hold.
    """

    all_full_chunks: int
    all_stored_chunks: int
    sliding_full_chunks: int
    sliding_stored_chunks: int
    sliding_saved_fraction: float
    all_saved_fraction: float
    stored_real_bytes: int
    stored_padded_bytes: int
    stored_host_bytes: int
    full_real_bytes: int
    """Without any skip."""
    full_host_bytes: int
    """Without any skip."""


class NotLoadableBoundary(Record, frozen=True, kw_only=True):
    """A boundary that a policy advertises and a request that shares it does not reach."""

    boundary_tokens: int
    hit_tokens: int
    group: str
    """The group that shortened the hit last."""


class LoadProof(Record, frozen=True, kw_only=True):
    """Whether every hit that is advertised can be loaded."""

    ok: bool
    """Nothing is not loadable; what is lost or not used is a finding, no failure."""
    boundaries_checked: int
    not_loadable: list[NotLoadableBoundary]
    """In ascending order of the boundary."""
    lost_tokens: int
    """By how much the replay's hit is shorter than the longest boundary."""
    not_used_by_replays: int
    """Stored chunks that no request sharing a prefix of this prompt alone has a use for."""


class Fit(Record, frozen=True, kw_only=True):
    """How much a host memory holds; null where a request takes nothing of it."""

    requests: int | None
    """Whole prompts that share nothing."""
    tokens: int | None
    """Tokens in such prompts, the last of them cut."""


class HostMemory(Record, frozen=True, kw_only=True):
    """Host memory as tokens: by slot is what the engine does, by real bytes what transfers move."""

    memory_bytes: int
    slot_bytes: int
    slots: int
    with_skip_by_slot: Fit
    with_skip_by_real_bytes: Fit
    without_skip_by_slot: Fit
    without_skip_by_real_bytes: Fit


class BlockSizeSavings(Record, frozen=True, kw_only=True):
    """What the same policy saves with another block size of the full-attention groups."""

    block_size: int
    sliding_saved_fraction: float
    all_saved_fraction: float


class MeasuredSample(Record, frozen=True, kw_only=True):
    """How much of the copies was measured; seconds of the whole are those of the sample, scaled by bytes."""

    store_fraction: float
    """Of the bytes that are stored; 1.0 is all of them."""
    load_fraction: float
    """Of the bytes that a replay loads."""
    store_fraction_without_skip: float
    """Of the bytes of every chunk."""
    notes: list[str] = msgspec.field(default_factory=list)
    """What was chosen, where it was not everything."""


class SavingsCase(CaseResult, frozen=True, kw_only=True):
    """One model, prompt length, policy and retention interval.

    `params` has ``model``, ``tokens``, ``policy``, ``retention_interval`` (null for none) and what else was chosen.
    `legs` are the store and the load with the skip.
    """

    copies: int
    """Copies of a block in a host slot: every rank's, or 1 where the layout is replicated."""
    alignment_tokens: int | None
    """What hits are taken to end on; null where nothing is skipped."""
    scheduler_block_size: int
    hash_block_size: int
    block_stride_bytes: int
    host_slot_bytes: int
    groups: list[SavedGroup]
    totals: SavingsTotals
    replay_hit_tokens: int
    """What the same prompt and one token more hits."""
    proof: LoadProof | None = None
    """Null where nothing was proved."""
    host_memory: HostMemory | None = None
    by_block_size: list[BlockSizeSavings] = msgspec.field(default_factory=list)
    legs_without_skip: list[LegResult] = msgspec.field(default_factory=list)
    """The store of every chunk, measured in turn with `legs`."""
    sample: MeasuredSample | None = None
    """Null where nothing was measured."""
    against: SchedulerComparison | None = None
    """What a real scheduler did with the same request; null where none was asked."""


class SavingsResult(RunResult[SavingsCase], frozen=True, kw_only=True):
    """All that one run found."""

    fuzz: FuzzTally | None = None
    """Null where no requests were drawn."""
