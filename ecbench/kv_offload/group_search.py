"""One cache group's part of a lookup: how far a hit can reach by what the group has stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.kv_offload.groups import GroupKind
from ecbench.kv_offload.runs import StoredRuns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload.layout import GroupLayout
    from ecbench.kv_offload.planning import GroupPlan

NO_GROUP = -1
"""Index where no group stood in the way of a hit."""


@dataclass(slots=True)
class LookupState:
    """Requests during a lookup; all arrays are int64 or bool of shape ``(requests,)`` if not said otherwise."""

    lengths: NDArray[np.int64]
    shared: NDArray[np.int64]
    limits: NDArray[np.int64]
    """Tokens that the hit can cover by what is known so far; the computed ones alone once it has failed."""
    last_hits: NDArray[np.int64]
    limiting: NDArray[np.int64]
    verified: NDArray[np.bool_]
    """Whether a group has found its extra chunk behind the limit; shape ``(groups, requests)``."""
    open: NDArray[np.int64]
    """Indices of the requests that the next pass is about."""

    @classmethod
    def start(cls, lengths: NDArray[np.int64], shared: NDArray[np.int64], groups: int) -> LookupState:
        """Begins a lookup.

        Args:
            lengths: Tokens of each request.
            shared: Tokens that each shares with the prompt.
            groups: Groups in the plan.

        Returns:
            A state in which nothing has been found and every request is open.
        """
        count = len(lengths)
        return cls(
            lengths=lengths,
            shared=shared,
            limits=lengths.astype(np.int64),
            last_hits=np.zeros(count, dtype=np.int64),
            limiting=np.full(count, NO_GROUP, dtype=np.int64),
            verified=np.zeros((groups, count), dtype=np.bool_),
            open=np.arange(count),
        )


@dataclass(frozen=True, slots=True)
class GroupSearch:
    """One group's part of a lookup. Chunks are counted from the first one that is not wholly computed."""

    index: int
    tokens_per_chunk: int
    window_chunks: int | None
    window_tokens: int
    """What an end inside a chunk is measured with; 0 where every end needs the same number of chunks."""
    is_eagle: bool
    rounds_hits: bool
    first_chunk: int
    runs: StoredRuns

    @classmethod
    def of(cls, index: int, plan: GroupPlan, computed_tokens: int) -> GroupSearch:
        """Prepares the search of a group.

        Args:
            index: The group's place in the plan.
            plan: What is stored of it.
            computed_tokens: Tokens that the device holds of every request.
        """
        layout = plan.layout
        first_chunk = computed_tokens // layout.tokens_per_chunk
        return cls(
            index=index,
            tokens_per_chunk=layout.tokens_per_chunk,
            window_chunks=layout.window_chunks,
            window_tokens=edge_window_tokens(layout),
            is_eagle=layout.group.eagle,
            rounds_hits=layout.rounds_hits,
            first_chunk=first_chunk,
            runs=StoredRuns(plan.stored[first_chunk:]),
        )

    def limit(
        self, requests: LookupState, rows: NDArray[np.int64], limits: NDArray[np.int64], computed: int
    ) -> NDArray[np.int64]:
        """Tokens that a hit can still cover after this group was asked; `computed` where it fails."""
        chunk = self.tokens_per_chunk
        keys = requests.lengths[rows] // chunk
        limits = np.minimum(limits, keys * chunk)
        too_short = limits - computed < chunk
        unverified = ~requests.verified[self.index, rows] if self.is_eagle else np.zeros(len(rows), dtype=np.bool_)
        asked = np.where(unverified, np.minimum(limits + chunk, keys * chunk), limits)
        found = self._found(requests.shared[rows], limits, asked, unverified)
        too_short |= found == 0
        if self.is_eagle:
            found = found - unverified
            requests.verified[self.index, rows] = True
        limits = np.minimum(limits, (found + self.first_chunk) * chunk)
        too_short |= limits - computed < chunk
        limits[too_short] = computed
        return limits

    def _found(
        self,
        shared: NDArray[np.int64],
        limits: NDArray[np.int64],
        asked: NDArray[np.int64],
        unverified: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Chunks up to the end of what was found; 0 for nothing. `asked` is a draft chunk beyond `limits`."""
        chunk = self.tokens_per_chunk
        ends = -(-asked // chunk) - self.first_chunk
        present = np.clip(np.minimum(ends, shared // chunk - self.first_chunk), 0, self.runs.count)
        if self.window_chunks is None:
            found: NDArray[np.int64] = np.minimum(present, self.runs.prefix)
            return found
        hit_ends = np.minimum(limits, (ends + self.first_chunk - unverified) * chunk)
        at_edge = np.maximum(self.window_chunks, chunks_at_edge(self.window_tokens, chunk, hit_ends)) + unverified
        reaches_edge = (present == ends) & (self.runs.lengths[present] >= at_edge)
        return np.where(reaches_edge, ends, self._last_run(present, ends, self.window_chunks + unverified))

    def _last_run(
        self, present: NDArray[np.int64], ends: NDArray[np.int64], needed: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """End of the last full run before the edge, or of the run that begins at the start."""
        inside = np.minimum(present, np.maximum(ends - 1, 0))
        last = self.runs.last_end(self.window_chunks or 1)[inside]
        if self.is_eagle:
            longer = self.runs.last_end((self.window_chunks or 1) + 1)[inside]
            last = np.where(needed > (self.window_chunks or 1), longer, last)
        return np.where(last > 0, last, np.minimum(present, self.runs.prefix))


def edge_window_tokens(layout: GroupLayout) -> int:
    """The window and what is retained beyond it, where a hit that ends inside a chunk may need one chunk more.

    0 for other kinds than sliding.
    """
    return layout.group.retained_window_tokens if layout.kind == GroupKind.SLIDING else 0


def chunks_at_edge(window_tokens: int, tokens_per_chunk: int, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Chunks that hold the window of the token behind an end; 0 without a window.

    Args:
        window_tokens: From `edge_window_tokens`.
        tokens_per_chunk: Tokens of a chunk.
        ends: Tokens; int64, any shape.

    Returns:
        int64, the shape of `ends`.
    """
    if not window_tokens:
        return np.zeros_like(ends)
    return -(-(window_tokens - 1 + -ends % tokens_per_chunk) // tokens_per_chunk)
