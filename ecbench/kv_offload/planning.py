"""`plan_store`: which chunks of a prompt are offloaded, group by group, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.chunk_rules import Prompt
from ecbench.kv_offload.layout import GroupLayout, OffloadLayout, OffloadSettings, lay_out
from ecbench.kv_offload.policies import find_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ecbench.kv_offload.chunk_rules import ChunkRule
    from ecbench.kv_offload.groups import HybridModel

MAX_PROMPT_TOKENS = 1 << 28
"""More than 250 million tokens; a plan holds one byte per chunk."""
_MODELS_KEPT = 256
"""Models under settings whose rules are kept, so that planning many requests works them out once."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What is stored of one group.

    Args:
        layout: The group in chunks.
        stored: Whether each whole chunk of the prompt is stored; bool, shape ``(full_chunks,)``, read-only.
    """

    layout: GroupLayout
    stored: NDArray[np.bool_]

    @property
    def name(self) -> str:
        """The group's name."""
        return self.layout.name

    @property
    def full_chunks(self) -> int:
        """Whole chunks of the prompt."""
        return len(self.stored)

    @property
    def stored_chunks(self) -> int:
        """Chunks that are stored."""
        return int(np.count_nonzero(self.stored))

    @property
    def stored_blocks(self) -> int:
        """Blocks of the stored chunks; a chunk is stored whole."""
        return self.stored_chunks * self.layout.blocks_per_chunk

    @property
    def saved_fraction(self) -> float:
        """Share of the chunks that is not stored; 0.0 where there are none."""
        return _saved(self.stored_chunks, self.full_chunks)

    @property
    def stored_real_bytes(self) -> int:
        """Bytes that one rank's transfers move."""
        return self.stored_blocks * self.layout.group.real_page_size_bytes

    @property
    def stored_padded_bytes(self) -> int:
        """The same blocks with the padding of their pages."""
        return self.stored_blocks * self.layout.group.page_size_bytes

    def chunk_ids(self) -> NDArray[np.int64]:
        """Indices of the stored chunks: int64, shape ``(stored_chunks,)``, ascending."""
        return np.flatnonzero(self.stored).astype(np.int64, copy=False)

    def block_ids(self) -> NDArray[np.int64]:
        """Indices of the stored blocks within the prompt: int64, shape ``(stored_blocks,)``, ascending."""
        per_chunk = self.layout.blocks_per_chunk
        return (self.chunk_ids()[:, None] * per_chunk + np.arange(per_chunk, dtype=np.int64)).reshape(-1)


@dataclass(frozen=True, slots=True)
class OffloadPlan:
    """What is stored of one prompt.

    Args:
        layout: Model and settings in chunks.
        prompt: The prompt.
        alignment_tokens: What hits are taken to end on; None where nothing is skipped.
        groups: One plan per group, in the model's order.
    """

    layout: OffloadLayout
    prompt: Prompt
    alignment_tokens: int | None
    groups: tuple[GroupPlan, ...]

    @property
    def totals(self) -> PlanTotals:
        """Sums over the groups."""
        windows = [group for group in self.groups if not group.layout.looks_back_at_all]
        stored = sum(group.stored_chunks for group in self.groups)
        full = sum(group.full_chunks for group in self.groups)
        sliding_stored = sum(group.stored_chunks for group in windows)
        sliding_full = sum(group.full_chunks for group in windows)
        return PlanTotals(
            all_full_chunks=full,
            all_stored_chunks=stored,
            sliding_full_chunks=sliding_full,
            sliding_stored_chunks=sliding_stored,
            sliding_saved_fraction=_saved(sliding_stored, sliding_full),
            all_saved_fraction=_saved(stored, full),
            stored_real_bytes=sum(group.stored_real_bytes for group in self.groups),
            stored_padded_bytes=sum(group.stored_padded_bytes for group in self.groups),
            stored_host_bytes=stored * self.layout.host_slot_bytes,
            full_real_bytes=sum(
                group.full_chunks * group.layout.blocks_per_chunk * group.layout.group.real_page_size_bytes
                for group in self.groups
            ),
            full_host_bytes=full * self.layout.host_slot_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTotals:
    """Sums over the groups of a plan. *Sliding* counts every group but full attention.

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

    @property
    def host_amplification(self) -> float:
        """Host bytes per real byte of one rank; 0.0 where nothing is stored."""
        return self.stored_host_bytes / self.stored_real_bytes if self.stored_real_bytes else 0.0


_DEFAULT_SETTINGS = OffloadSettings()


def plan_store(
    model: HybridModel,
    tokens: int,
    settings: OffloadSettings = _DEFAULT_SETTINGS,
    *,
    shared_prefixes: Iterable[int] = (),
) -> OffloadPlan:
    """Plans what is offloaded of a prompt.

    Args:
        model: From `ecbench.kv_offload.load_model`.
        tokens: Tokens of the prompt; what is decoded later is not offloaded.
        settings: Policy, retention, chunk size, host layout.
        shared_prefixes: Tokens of prefixes that other requests share; with a retention interval their tails are kept.

    Returns:
        The plan. Cost grows with the number of chunks, at a few NumPy operations per group.

    Raises:
        EcbenchError: A number is out of range, or a setting does not fit the model.
    """
    prepared = _prepare(model, settings)
    prompt = Prompt(tokens, tuple(shared_prefixes))
    _check_prompt(prompt)
    groups = [
        GroupPlan(group, _frozen(rule.stored_chunks(0, tokens // group.tokens_per_chunk, prompt)))
        for group, rule in prepared.rules
    ]
    return OffloadPlan(prepared.layout, prompt, prepared.alignment_tokens, tuple(groups))


class _Prepared(NamedTuple):
    layout: OffloadLayout
    alignment_tokens: int | None
    rules: tuple[tuple[GroupLayout, ChunkRule], ...]


@lru_cache(maxsize=_MODELS_KEPT)
def _prepare(model: HybridModel, settings: OffloadSettings) -> _Prepared:
    policy = find_policy(settings.policy)
    layout = lay_out(model, settings)
    rules = tuple((group, policy.chunk_rule(layout, group)) for group in layout.groups)
    return _Prepared(layout, policy.alignment_tokens(layout), rules)


def _check_prompt(prompt: Prompt) -> None:
    if not 1 <= prompt.tokens <= MAX_PROMPT_TOKENS:
        raise EcbenchError(f"prompt of {prompt.tokens} tokens: give 1 to {MAX_PROMPT_TOKENS}")
    for prefix in prompt.shared_prefixes:
        if not 1 <= prefix <= prompt.tokens:
            raise EcbenchError(f"shared prefix of {prefix} tokens: give 1 to {prompt.tokens}, the prompt's own length")


def _frozen(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    mask.flags.writeable = False
    return mask


def _saved(stored: int, full: int) -> float:
    return 1 - stored / full if full else 0.0
