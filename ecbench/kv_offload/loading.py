"""Which chunks and blocks a hit loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.groups import GroupKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload.layout import GroupLayout
    from ecbench.kv_offload.planning import OffloadPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLoad:
    """What a hit loads of one group; blocks and chunks are counted within the request.

    Args:
        layout: The group in chunks.
        first_block: First block that is loaded.
        end_block: One behind the last; equal to `first_block` where nothing is loaded.
    """

    layout: GroupLayout
    first_block: int
    end_block: int

    @property
    def blocks(self) -> int:
        """Blocks that are loaded."""
        return self.end_block - self.first_block

    @property
    def first_chunk(self) -> int:
        """Chunk that holds the first block."""
        return self.first_block // self.layout.blocks_per_chunk

    @property
    def end_chunk(self) -> int:
        """One behind the chunk that holds the last block."""
        return -(-self.end_block // self.layout.blocks_per_chunk) if self.blocks else self.first_chunk

    @property
    def skipped_blocks(self) -> int:
        """Blocks of the first chunk, from its start, that are not loaded."""
        return self.first_block - self.first_chunk * self.layout.blocks_per_chunk

    @property
    def real_bytes(self) -> int:
        """Bytes that one rank's transfers move."""
        return self.blocks * self.layout.group.real_page_size_bytes


def plan_load(plan: OffloadPlan, hit_tokens: int, *, computed_tokens: int = 0) -> tuple[GroupLoad, ...]:
    """Plans what is loaded for a hit.

    Args:
        plan: From `ecbench.kv_offload.plan_store`.
        hit_tokens: What the lookup found beyond the computed tokens.
        computed_tokens: Tokens that the device holds.

    Returns:
        One load per group, in the model's order.

    Raises:
        EcbenchError: A number is negative, or together they are longer than the prompt.
    """
    covered = hit_tokens + computed_tokens
    if hit_tokens < 0 or computed_tokens < 0 or covered > plan.prompt.tokens:
        raise EcbenchError(
            f"hit of {hit_tokens} tokens behind {computed_tokens} computed: give 0 to {plan.prompt.tokens} together"
        )
    return tuple(_load_group(group.layout, covered, computed_tokens) for group in plan.groups)


def first_tokens_needed(layout: GroupLayout, covered: NDArray[np.int64]) -> NDArray[np.int64]:
    """First token that the group must hold for the one behind an end to be computed.

    Args:
        layout: The group in chunks.
        covered: Tokens up to the end; int64, any shape.

    Returns:
        int64, the shape of `covered`.
    """
    window = layout.group.window_tokens or 1
    match layout.kind:
        case GroupKind.SLIDING:
            return np.maximum(covered - layout.group.retained_window_tokens + 1, 0)
        case GroupKind.CHUNKED:
            return covered // window * window
        case GroupKind.MAMBA:
            return np.maximum(covered - 1, 0)
        case _:
            return np.zeros_like(covered)


def chunks_needed(layout: GroupLayout, covered: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Chunks ``[first, end)`` that hold what the token behind an end looks back at; int64, the shape of `covered`."""
    end = -(-covered // layout.tokens_per_chunk)
    return np.minimum(first_tokens_needed(layout, covered) // layout.tokens_per_chunk, end), end


def _load_group(layout: GroupLayout, covered: int, computed: int) -> GroupLoad:
    first_token = max(int(first_tokens_needed(layout, np.array(covered))), computed)
    end = -(-covered // layout.tokens_per_block)
    return GroupLoad(layout=layout, first_block=min(first_token // layout.tokens_per_block, end), end_block=end)
