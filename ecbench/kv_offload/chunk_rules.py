"""Rules that tell which chunks of a group are stored; a policy picks one for each group, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import numpy as np

from ecbench.kv_offload.reachability import TailRule, reachable_blocks, segment_tails

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Prompt(msgspec.Struct, frozen=True):
    """A request's prompt; only prompts are offloaded."""

    tokens: int
    shared_prefixes: tuple[int, ...] = ()
    """Tokens of prefixes that other requests are known to share."""

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Tokens up to which a later request may want the prompt.

        The last prompt token is computed again, so the first boundary lies before it; then come the shared prefixes.
        """
        return (self.tokens - 1, *self.shared_prefixes)


class ChunkRule(Protocol):
    """Which chunks of one group are stored."""

    def stored_chunks(self, start_chunk: int, end_chunk: int, prompt: Prompt) -> NDArray[np.bool_]:
        """Asks about some chunks of a prompt: bool, shape ``(end_chunk - start_chunk,)``.

        The answer for a chunk does not depend on which others are asked about, so a prompt can be stored in steps.
        """
        ...


class EveryChunk(NamedTuple):
    """Nothing is skipped."""

    def stored_chunks(self, start_chunk: int, end_chunk: int, prompt: Prompt) -> NDArray[np.bool_]:
        """All True."""
        del prompt
        return np.ones(end_chunk - start_chunk, dtype=np.bool_)


class SegmentTails(NamedTuple):
    """The last chunks of every whole segment."""

    per_segment: int
    need: int

    def stored_chunks(self, start_chunk: int, end_chunk: int, prompt: Prompt) -> NDArray[np.bool_]:
        """A last, cut segment keeps only what reaches into its tail."""
        del prompt
        return segment_tails(start_chunk, end_chunk, self.per_segment, self.need)


class ReachableChunks(NamedTuple):
    """Chunks any block of which is reachable."""

    tails: TailRule
    blocks_per_chunk: int
    tokens_per_chunk: int

    def stored_chunks(self, start_chunk: int, end_chunk: int, prompt: Prompt) -> NDArray[np.bool_]:
        """Applies `ecbench.kv_offload.reachability` to the blocks of the chunks."""
        per_chunk = self.blocks_per_chunk
        # With a retention interval the scheduler names boundaries and leaves the last segment to them.
        cut = self.tails.retention_interval is None
        blocks = reachable_blocks(
            self.tails,
            start_chunk * per_chunk,
            end_chunk * per_chunk,
            prompt.boundaries,
            prompt.tokens // self.tokens_per_chunk * per_chunk if cut else None,
        )
        chunks: NDArray[np.bool_] = np.logical_or.reduce(blocks.reshape(-1, per_chunk), axis=1)
        return chunks
