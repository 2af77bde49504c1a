"""Which blocks of a window can ever serve a hit.

A hit ends on the full-attention group's alignment, so of a sliding window only the blocks just before such an end are
needed: the *tail* of a segment. Everything here is a few NumPy slices, whatever the number of blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class TailRule(NamedTuple):
    """How a group's tails lie, in blocks."""

    tokens_per_block: int
    """Tokens of one block over all decode-context-parallel ranks."""
    need: int
    """Blocks of a tail."""
    shift: int
    """Blocks by which tails end behind their boundary: 1 for an EAGLE group, else 0."""
    alignment_tokens: int
    retention_interval: int | None
    """None: a tail at every alignment boundary; 0: only at the request's boundaries; N: every N tokens as well."""

    @property
    def segment_blocks(self) -> int:
        """Blocks from one regular tail to the next; 0 where there are none."""
        segment = self.alignment_tokens if self.retention_interval is None else self.retention_interval
        return segment // self.tokens_per_block

    @property
    def keeps_everything(self) -> bool:
        """A tail is as long as its segment."""
        return self.retention_interval != 0 and self.need >= self.segment_blocks

    def boundary_tail(self, boundary_tokens: int) -> tuple[int, int]:
        """Blocks ``[first, end)`` kept for a boundary of the request, rounded down to the alignment."""
        aligned = boundary_tokens // self.alignment_tokens * self.alignment_tokens
        end = aligned // self.tokens_per_block + self.shift
        return end - self.need, end

    def final_tail(self, end_block: int) -> tuple[int, int]:
        """Blocks ``[first, end)`` kept of a request's last segment, which may be cut short."""
        segment_start = end_block // self.segment_blocks * self.segment_blocks
        return max(end_block - self.need, segment_start), end_block


def stored_blocks(
    start_block: int,
    end_block: int,
    *,
    tokens_per_block: int,
    sliding_window: int,
    alignment_tokens: int | None,
    eagle: bool = False,
    retention_interval: int | None = None,
    reachable_boundaries: Sequence[int] = (),
    final_segment_end_block: int | None = None,
) -> NDArray[np.bool_]:
    """Tells which blocks of a sliding-window group vLLM 0.33.0 stores.

    Args:
        start_block: First block asked about.
        end_block: One behind the last block asked about.
        tokens_per_block: Tokens of a block, times the decode-context-parallel size.
        sliding_window: The window in tokens.
        alignment_tokens: What hits end on; None where the full-attention groups do not agree.
        eagle: The group holds a draft model's layers; its tails are one block longer and end one block later.
        retention_interval: None keeps a tail at every alignment boundary, 0 only those of `reachable_boundaries`, N
            also one every N tokens.
        reachable_boundaries: Token positions whose tails are kept where `retention_interval` is set: the last prompt
            token, and the ends of prefixes that other requests share.
        final_segment_end_block: Blocks of the whole request; keeps the tail of a last, cut segment, where there are
            segments and the group is no EAGLE group. The scheduler gives it only where `retention_interval` is None.

    Returns:
        bool, shape ``(end_block - start_block,)``; all True where everything is stored.

    Raises:
        EcbenchError: A number is out of range.
    """
    _check_range(start_block, end_block)
    _check_positive("tokens per block", tokens_per_block)
    _check_positive("sliding window", sliding_window)
    if retention_interval is not None and retention_interval < 0:
        raise EcbenchError(f"retention interval of {retention_interval} tokens is negative: give 0 or more, or none")
    if alignment_tokens is None or alignment_tokens % tokens_per_block:
        return np.ones(end_block - start_block, dtype=np.bool_)
    _check_positive("alignment in tokens", alignment_tokens)
    rule = tail_rule(tokens_per_block, sliding_window, alignment_tokens, retention_interval, eagle=eagle)
    return reachable_blocks(rule, start_block, end_block, reachable_boundaries, final_segment_end_block)


def tail_rule(
    tokens_per_block: int, sliding_window: int, alignment_tokens: int, retention_interval: int | None, *, eagle: bool
) -> TailRule:
    """The tails of a sliding window: the token that is computed next is part of the window, and not loaded."""
    shift = int(eagle)
    need = -(-(sliding_window - 1) // tokens_per_block) + shift
    return TailRule(tokens_per_block, need, shift, alignment_tokens, retention_interval)


def reachable_blocks(
    rule: TailRule,
    start_block: int,
    end_block: int,
    boundaries: Sequence[int] = (),
    final_end_block: int | None = None,
) -> NDArray[np.bool_]:
    """`stored_blocks` for a rule that is already worked out; nothing is checked."""
    if rule.keeps_everything:
        return np.ones(end_block - start_block, dtype=np.bool_)
    kept = segment_tails(start_block, end_block, rule.segment_blocks, rule.need, rule.shift)
    for first, end in _request_tails(rule, boundaries, final_end_block):
        kept[max(first - start_block, 0) : max(end - start_block, 0)] = True
    return kept


def segment_tails(start: int, end: int, per_segment: int, need: int, shift: int = 0) -> NDArray[np.bool_]:
    """Marks the last entries of every segment.

    Args:
        start: First index asked about.
        end: One behind the last.
        per_segment: Entries of a segment; 0 for no segments at all.
        need: Entries of a tail, fewer than `per_segment`.
        shift: Entries before the first segment; they are never marked.

    Returns:
        bool, shape ``(end - start,)``.
    """
    if not per_segment or end <= start:
        return np.zeros(max(end - start, 0), dtype=np.bool_)
    base = shift + (start - shift) // per_segment * per_segment
    if per_segment > end - start:
        kept = _few_tails(start, end, range(base + per_segment, end + per_segment, per_segment), need)
    else:
        segments = np.zeros((-(-(end - base) // per_segment), per_segment), dtype=np.bool_)
        segments[:, per_segment - need :] = True
        kept = segments.reshape(-1)[start - base : end - base]
    kept[: max(shift - start, 0)] = False
    return kept


def _few_tails(start: int, end: int, tail_ends: range, need: int) -> NDArray[np.bool_]:
    """Marks tails one by one: where a segment is longer than all that is asked about, no more than two are met."""
    kept = np.zeros(end - start, dtype=np.bool_)
    for tail_end in tail_ends:
        kept[max(tail_end - need - start, 0) : max(tail_end - start, 0)] = True
    return kept


def _request_tails(rule: TailRule, boundaries: Sequence[int], final_end_block: int | None) -> list[tuple[int, int]]:
    tails = []
    if rule.retention_interval is not None:
        tails = [rule.boundary_tail(boundary) for boundary in boundaries]
    if final_end_block is not None and rule.segment_blocks and not rule.shift:
        tails.append(rule.final_tail(final_end_block))
    return tails


def _check_range(start_block: int, end_block: int) -> None:
    if not 0 <= start_block <= end_block:
        raise EcbenchError(f"blocks {start_block} to {end_block}: give 0 <= start <= end")


def _check_positive(what: str, value: int) -> None:
    if value < 1:
        raise EcbenchError(f"{what} is {value}: give at least 1")
