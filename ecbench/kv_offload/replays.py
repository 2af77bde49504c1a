"""Requests that stand for all that share a prefix of one prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload.layout import OffloadLayout
    from ecbench.kv_offload.planning import OffloadPlan


class ReplayRequests(NamedTuple):
    """Requests that share a prefix of a prompt."""

    lengths: NDArray[np.int64]
    """Tokens of each; int64, shape ``(requests,)``."""
    shared: NDArray[np.int64]
    """Tokens that each shares with the prompt; int64, shape ``(requests,)``."""
    whole_prompt: int
    """Index of the request that is the whole prompt and one token more: the replay."""


def replay_requests(plan: OffloadPlan) -> ReplayRequests:
    """Requests whose hits are all the hits that sharing a prefix can bring.

    What a request finds depends on how many whole chunks of each group it shares, and on whether it ends there (its
    last token is then computed again), goes on for a token, or goes on for so long that no rounding to Mamba states
    matters. So few requests for every prefix at which some group's chunk ends are enough; and where one full-attention
    chunk is a whole number of every other, hits end on it, so that of each such stretch only the ends, and the places
    where an EAGLE group's extra chunk ends, make a difference.

    Args:
        plan: From `ecbench.kv_offload.plan_store`.

    Returns:
        The requests; the replay of the whole prompt is one of them.
    """
    tokens = plan.prompt.tokens
    stretch = _stretch_tokens(plan.layout)
    step = plan.layout.chunk_step_tokens
    starts = np.arange(0, tokens + 1, stretch or step, dtype=np.int64)
    extras = {group.tokens_per_chunk for group in plan.layout.groups if group.group.eagle} if stretch else set()
    offsets = np.array(sorted({0, *extras, stretch - step if stretch else 0}), dtype=np.int64)
    shared = np.unique(np.append((starts[:, None] + offsets).reshape(-1), tokens))
    shared = shared[(shared > 0) & (shared <= tokens)]
    rounding = max((group.tokens_per_chunk for group in plan.layout.groups if group.rounds_hits), default=0)
    lengths = [shared, shared + 1, *([shared + 1 + rounding] if rounding else [])]
    return ReplayRequests(np.concatenate(lengths), np.tile(shared, len(lengths)), whole_prompt=2 * len(shared) - 1)


def _stretch_tokens(layout: OffloadLayout) -> int:
    """The full-attention chunk, where every other chunk divides it; 0 where hits may end elsewhere."""
    sizes = layout.full_chunk_sizes
    if len(sizes) != 1 or any(sizes[0] % group.tokens_per_chunk for group in layout.groups):
        return 0
    return sizes[0]
