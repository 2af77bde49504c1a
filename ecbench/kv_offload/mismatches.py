"""Looks for what is wrong with a policy on a model, and for the smallest prompt that shows it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from ecbench.kv_offload.layout import OffloadLayout, OffloadSettings, lay_out
from ecbench.kv_offload.planning import plan_store
from ecbench.kv_offload.policies import find_policy
from ecbench.kv_offload.proof import Proof, prove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecbench.kv_offload.groups import HybridModel

SEGMENTS_TRIED = 3
"""Policies repeat themselves from segment to segment; a third one shows what only happens between two others."""


MAX_FINE_LENGTHS = 4096
"""Above it the first segment, too, is tried at its ends only."""
MAX_LENGTH_TOKENS = 1 << 20
"""As far as a command proves without being asked to."""


class MismatchKind(StrEnum):
    """What a proof can find."""

    NOT_LOADABLE = "not_loadable"
    LOST = "lost"
    NOT_USED_BY_REPLAYS = "not_used_by_replays"


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, with the smallest prompt that shows it."""

    kind: MismatchKind
    prompt_tokens: int
    boundary_tokens: int
    """The first boundary that does not load, or the one a replay could have reached; 0 for unused chunks."""
    hit_tokens: int
    """What is hit instead."""
    chunks: int
    """Chunks that no replay uses."""


def find_mismatches(model: HybridModel, settings: OffloadSettings) -> tuple[Mismatch, ...]:
    """Plans and proves prompts of growing length.

    Args:
        model: From `ecbench.kv_offload.load_model`.
        settings: Policy, retention and chunk size to try.

    Returns:
        One finding of each kind that there is, each with the smallest prompt that shows it. Tried are the lengths of
        `prompt_lengths`: every chunk of the first segment, and the ends of `SEGMENTS_TRIED` segments.

    Raises:
        EcbenchError: A setting does not fit the model.
    """
    found: dict[MismatchKind, Mismatch] = {}
    for tokens in prompt_lengths(model, settings):
        for mismatch in _mismatches(tokens, prove(plan_store(model, tokens, settings))):
            found.setdefault(mismatch.kind, mismatch)
        if len(found) == len(MismatchKind):
            break
    return tuple(found[kind] for kind in MismatchKind if kind in found)


def prompt_lengths(model: HybridModel, settings: OffloadSettings) -> list[int]:
    """Lengths at which something can change, ascending: a chunk ends, or the last token leaves a boundary behind."""
    layout = lay_out(model, settings)
    alignment = find_policy(settings.policy).alignment_tokens(layout) or layout.common_chunk_tokens
    step = layout.chunk_step_tokens
    fine = range(step, alignment + 1, step) if alignment // step <= MAX_FINE_LENGTHS else ()
    edges = (edge for end in _segment_ends(alignment, settings.retention_interval) for edge in _edges(end, layout))
    return sorted({length for length in (*fine, *edges) if 0 < length <= MAX_LENGTH_TOKENS})


def _segment_ends(alignment: int, retention_interval: int | None) -> Iterator[int]:
    for number in range(1, SEGMENTS_TRIED + 1):
        yield number * alignment
        if retention_interval:
            yield from (number * retention_interval + beside for beside in (-alignment, 0, alignment))


def _edges(end: int, layout: OffloadLayout) -> Iterator[int]:
    """Lengths around the end of a segment."""
    yield from (end - layout.chunk_step_tokens, end, end + 1)
    yield from (end + group.tokens_per_chunk for group in layout.groups)


def _mismatches(tokens: int, proof: Proof) -> Iterator[Mismatch]:
    if proof.not_loadable:
        first = proof.not_loadable[0]
        yield Mismatch(
            kind=MismatchKind.NOT_LOADABLE,
            prompt_tokens=tokens,
            boundary_tokens=first.boundary_tokens,
            hit_tokens=first.hit_tokens,
            chunks=0,
        )
    if proof.lost_tokens:
        yield Mismatch(
            kind=MismatchKind.LOST,
            prompt_tokens=tokens,
            boundary_tokens=proof.replay_hit_tokens + proof.lost_tokens,
            hit_tokens=proof.replay_hit_tokens,
            chunks=0,
        )
    if proof.not_used_by_replays:
        yield Mismatch(
            kind=MismatchKind.NOT_USED_BY_REPLAYS,
            prompt_tokens=tokens,
            boundary_tokens=0,
            hit_tokens=proof.replay_hit_tokens,
            chunks=proof.not_used_by_replays,
        )
