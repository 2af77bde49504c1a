"""Store policies: one class each, and the table of their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from ecbench.core.errors import unknown_name
from ecbench.kv_offload.chunk_rules import ChunkRule, EveryChunk, ReachableChunks, SegmentTails
from ecbench.kv_offload.groups import GroupKind
from ecbench.kv_offload.reachability import TailRule, tail_rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload.chunk_rules import Prompt
    from ecbench.kv_offload.layout import GroupLayout, OffloadLayout


class StorePolicy(Protocol):
    """Decides which chunks of a prompt are stored."""

    def alignment_tokens(self, layout: OffloadLayout) -> int | None:
        """What hits are taken to end on; None where the groups do not agree, and nothing is skipped."""
        ...

    def chunk_rule(self, layout: OffloadLayout, group: GroupLayout) -> ChunkRule:
        """The rule for one of the layout's groups."""
        ...

    def kept_boundaries(self, layout: OffloadLayout, prompt: Prompt) -> NDArray[np.int64]:
        """Boundaries whose tails are meant to be kept: int64 tokens, ascending, each once, all within the prompt.

        Where nothing is skipped these are the ends that the chunks of all groups have in common.
        """
        ...


class AlignmentSkip:
    """The rule of vLLM PR #43142: of every alignment segment keep the last chunks that a window needs."""

    def alignment_tokens(self, layout: OffloadLayout) -> int | None:
        """The chunk of the full-attention groups, where there is exactly one size."""
        return layout.settings.alignment_tokens or _only(layout.full_chunk_sizes)

    def chunk_rule(self, layout: OffloadLayout, group: GroupLayout) -> ChunkRule:
        """Skips the head of every segment, where a window leaves any."""
        alignment = self.alignment_tokens(layout)
        if group.window_chunks is None or alignment is None or alignment <= group.tokens_per_chunk:
            return EveryChunk()
        per_segment = alignment // group.tokens_per_chunk
        if group.window_chunks >= per_segment:
            return EveryChunk()
        return SegmentTails(per_segment, group.window_chunks)

    def kept_boundaries(self, layout: OffloadLayout, prompt: Prompt) -> NDArray[np.int64]:
        """Every alignment boundary."""
        return _multiples(self.alignment_tokens(layout) or layout.common_chunk_tokens, prompt.tokens)


class ReachableBlocks:
    """The rule of vLLM 0.33.0: keep a chunk where any of its blocks is reachable."""

    def alignment_tokens(self, layout: OffloadLayout) -> int | None:
        """As in the PR; without full attention the largest chunk."""
        if layout.settings.alignment_tokens is None and not layout.full_chunk_sizes:
            return max(group.tokens_per_chunk for group in layout.groups)
        return layout.settings.alignment_tokens or _only(layout.full_chunk_sizes)

    def chunk_rule(self, layout: OffloadLayout, group: GroupLayout) -> ChunkRule:
        """Keeps everything of groups without a window; Mamba states are skipped only with a retention interval."""
        tails = self._tails(layout, group)
        if tails is None or tails.keeps_everything:
            return EveryChunk()
        return ReachableChunks(tails, group.blocks_per_chunk, group.tokens_per_chunk)

    def kept_boundaries(self, layout: OffloadLayout, prompt: Prompt) -> NDArray[np.int64]:
        """Every alignment boundary, or every retention interval and the boundaries of the request."""
        alignment = self.alignment_tokens(layout)
        retention = layout.settings.retention_interval
        if alignment is None:
            return _multiples(layout.common_chunk_tokens, prompt.tokens)
        if retention is None:
            return _multiples(alignment, prompt.tokens)
        ends = [boundary // alignment * alignment for boundary in prompt.boundaries]
        kept = np.union1d(_multiples(retention, prompt.tokens), np.array(ends, dtype=np.int64))
        return kept[kept > 0]

    def _tails(self, layout: OffloadLayout, group: GroupLayout) -> TailRule | None:
        alignment = self.alignment_tokens(layout)
        retention = layout.settings.retention_interval
        if alignment is None:
            return None
        if group.kind == GroupKind.SLIDING and alignment % group.tokens_per_block == 0:
            window = group.group.retained_window_tokens
            return tail_rule(group.tokens_per_block, window, alignment, retention, eagle=group.group.eagle)
        if group.kind == GroupKind.MAMBA and retention is not None:
            return TailRule(group.tokens_per_block, 1, 0, alignment, retention)
        return None


_POLICIES: dict[str, StorePolicy] = {"pr": AlignmentSkip(), "vllm-0.33": ReachableBlocks()}


def policy_names() -> tuple[str, ...]:
    """All policies."""
    return tuple(_POLICIES)


def find_policy(name: str) -> StorePolicy:
    """Finds a policy.

    Raises:
        EcbenchError: No such policy; the message lists the choices.
    """
    if name not in _POLICIES:
        raise unknown_name("policy", name, policy_names())
    return _POLICIES[name]


def _only(sizes: tuple[int, ...]) -> int | None:
    return sizes[0] if len(sizes) == 1 else None


def _multiples(step: int, tokens: int) -> NDArray[np.int64]:
    """Multiples of a step up to `tokens`; none of 0."""
    if not 0 < step <= tokens:
        return np.empty(0, dtype=np.int64)
    return np.arange(step, tokens + 1, step, dtype=np.int64)
