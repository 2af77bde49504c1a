"""The proof: every boundary that a policy means to keep is looked up in exactly what is stored.

Three things can be wrong with a plan. *Not loadable*: a request that shares the prompt up to an advertised boundary
hits less. *Lost*: the replay of the prompt (the same and one token more) hits less than the longest boundary it could.
*Not used by replays*: stored chunks that no request sharing a prefix of this prompt alone has a use for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ecbench.kv_offload.group_search import NO_GROUP, chunks_at_edge, edge_window_tokens
from ecbench.kv_offload.loading import chunks_needed
from ecbench.kv_offload.lookup import Hits, Lookup
from ecbench.kv_offload.policies import find_policy
from ecbench.kv_offload.replays import ReplayRequests, replay_requests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload.planning import GroupPlan, OffloadPlan


class NotLoadable(msgspec.Struct, frozen=True, kw_only=True):
    """An advertised boundary that a request sharing it does not reach."""

    boundary_tokens: int
    hit_tokens: int
    group: str
    """The group that shortened the hit last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was found out about a plan."""

    boundaries_checked: int
    not_loadable: tuple[NotLoadable, ...]
    """In ascending order of the boundary."""
    replay_hit_tokens: int
    lost_tokens: int
    not_used_by_replays_by_group: tuple[int, ...]
    """Chunks, in the model's order."""

    @property
    def ok(self) -> bool:
        """Every advertised boundary loads; what is lost or not used is a finding, no failure."""
        return not self.not_loadable

    @property
    def not_used_by_replays(self) -> int:
        """Chunks of all groups."""
        return sum(self.not_used_by_replays_by_group)


def prove(plan: OffloadPlan) -> Proof:
    """Proves a plan, or says which prefix cannot be loaded.

    Args:
        plan: From `ecbench.kv_offload.plan_store`.

    Returns:
        The findings. Cost grows with the number of chunks.
    """
    lookup = Lookup(plan.groups)
    boundaries = advertised_boundaries(plan)
    # A draft group drops the chunk behind the hit, so a request must share that one too for the boundary to be hit.
    sharing = boundaries + plan.layout.eagle_chunk_tokens
    replays = replay_requests(plan)
    hits = lookup.hits(np.concatenate([sharing + 1, replays.lengths]), np.concatenate([sharing, replays.shared]))
    cut = len(boundaries)
    replay_hit_tokens = int(hits.tokens[cut + replays.whole_prompt])
    return Proof(
        boundaries_checked=cut,
        not_loadable=_not_loadable(plan, lookup, boundaries, Hits(*(column[:cut] for column in hits))),
        replay_hit_tokens=replay_hit_tokens,
        lost_tokens=max(longest_boundary(plan) - replay_hit_tokens, 0),
        not_used_by_replays_by_group=_not_used(plan, replays, hits.tokens[cut:]),
    )


def advertised_boundaries(plan: OffloadPlan) -> NDArray[np.int64]:
    """Boundaries that the plan's policy means to serve.

    Args:
        plan: From `ecbench.kv_offload.plan_store`.

    Returns:
        int64 tokens, ascending. Where a group is an EAGLE group only those with its chunk behind them in the prompt.
    """
    layout = plan.layout
    kept = find_policy(layout.settings.policy).kept_boundaries(layout, plan.prompt)
    return kept[kept + layout.eagle_chunk_tokens <= plan.prompt.tokens]


def longest_boundary(plan: OffloadPlan) -> int:
    """The last boundary within the prompt; full-attention chunks are always stored, so a replay could reach it."""
    step = plan.alignment_tokens or plan.layout.common_chunk_tokens
    return plan.prompt.tokens // step * step


def _not_loadable(
    plan: OffloadPlan, lookup: Lookup, boundaries: NDArray[np.int64], hits: Hits
) -> tuple[NotLoadable, ...]:
    broken = _groups_that_break(plan, lookup, hits.tokens)
    short = hits.tokens < boundaries
    blamed = np.where(short, hits.limiting_groups, broken)
    return tuple(
        NotLoadable(
            boundary_tokens=int(boundaries[row]),
            hit_tokens=int(hits.tokens[row]),
            group=plan.groups[int(blamed[row])].name,
        )
        for row in np.flatnonzero(short | (broken != NO_GROUP))
    )


def _groups_that_break(plan: OffloadPlan, lookup: Lookup, hit_tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index of a group that has not stored all that a hit loads, `NO_GROUP` for none; int64, shape ``(requests,)``."""
    broken = np.full(len(hit_tokens), NO_GROUP, dtype=np.int64)
    for index, group in enumerate(plan.groups):
        first, end = chunks_needed(group.layout, hit_tokens)
        runs = lookup.runs_of(index).lengths[np.minimum(end, group.full_chunks)]
        broken[(end > group.full_chunks) | (runs < end - first)] = index
    return broken


def _not_used(plan: OffloadPlan, replays: ReplayRequests, hit_tokens: NDArray[np.int64]) -> tuple[int, ...]:
    hit = hit_tokens > 0
    shared = replays.shared[hit]
    return tuple(int(np.count_nonzero(group.stored & ~_used(group, hit_tokens[hit], shared))) for group in plan.groups)


def _used(group: GroupPlan, hit_tokens: NDArray[np.int64], shared: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Chunks that hits load, or that the lookup had to find for them; bool, shape ``(full_chunks,)``."""
    layout = group.layout
    chunk = layout.tokens_per_chunk
    ends = -(-hit_tokens // chunk)
    firsts = np.zeros_like(ends)
    if layout.window_chunks is not None:
        edge = chunks_at_edge(edge_window_tokens(layout), chunk, hit_tokens)
        firsts = np.maximum(ends - np.maximum(layout.window_chunks, edge), 0)
        ends = ends + int(layout.group.eagle)
    ends = np.minimum(ends, shared // chunk)
    size = group.full_chunks + 1
    opened = np.bincount(np.minimum(firsts, ends), minlength=size) - np.bincount(ends, minlength=size)
    return np.cumsum(opened)[:-1] > 0
