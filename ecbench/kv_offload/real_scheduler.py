"""What a real engine's scheduler is asked and answers, whoever it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.planning import plan_store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ecbench.kv_offload.groups import HybridModel
    from ecbench.kv_offload.layout import OffloadSettings
    from ecbench.kv_offload.models.layer_caches import RegisteredCache
    from ecbench.kv_offload.planning import OffloadPlan

IMPLEMENTED_POLICY = "vllm-0.33"
"""The policy whose rules the schedulers follow that can be asked."""


class SchedulerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, and the engine it comes to."""

    model: HybridModel
    tokens: int
    """Tokens of the prompt."""
    settings: OffloadSettings
    caches: tuple[RegisteredCache, ...] | None = None
    """The layers' caches where the scheduler is to group them itself; None takes the model's groups as they are."""
    step_tokens: int | None = None
    """Tokens that the engine computes in one step; None computes the prompt at once."""
    shared_prefix: int | None = None
    """Tokens of a prefix that another request is known to share."""

    def plan(self) -> OffloadPlan:
        """What ecbench says is stored."""
        prefixes = () if self.shared_prefix is None else (self.shared_prefix,)
        return plan_store(self.model, self.tokens, self.settings, shared_prefixes=prefixes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledGroup:
    """One cache group as a scheduler has it.

    Args:
        caches: Caches in the group.
        tokens_per_block: Tokens of a block.
        tokens_per_chunk: Tokens of a chunk.
        window_chunks: Chunks that a hit needs behind its end; None for full attention.
        eagle: The group holds draft layers.
        page_size_bytes: One block of all layers, padding included.
        real_page_size_bytes: The same without padding.
        stored: Whether each whole chunk of the prompt is stored; bool, shape ``(chunks,)``.
    """

    caches: int
    tokens_per_block: int
    tokens_per_chunk: int
    window_chunks: int | None
    eagle: bool
    page_size_bytes: int
    real_page_size_bytes: int
    stored: NDArray[np.bool_]

    @property
    def stored_chunks(self) -> int:
        """Chunks that are stored."""
        return int(np.count_nonzero(self.stored))

    @property
    def stored_real_bytes(self) -> int:
        """Bytes that one rank's transfers move."""
        return self.stored_chunks * (self.tokens_per_chunk // self.tokens_per_block) * self.real_page_size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """What a scheduler did with a request.

    Args:
        alignment_tokens: What it takes hits to end on; None for nothing in particular.
        scheduler_block_size: In tokens.
        hash_block_size: In tokens.
        block_stride_bytes: Bytes from one block to the next on a device.
        host_slot_bytes: Host memory of one chunk.
        replay_hit_tokens: What the same prompt and one token more hits.
        groups: In the scheduler's order.
    """

    alignment_tokens: int | None
    scheduler_block_size: int
    hash_block_size: int
    block_stride_bytes: int
    host_slot_bytes: int
    replay_hit_tokens: int
    groups: tuple[ScheduledGroup, ...]

    @property
    def stored_real_bytes(self) -> int:
        """Bytes that one rank's transfers move, all groups."""
        return sum(group.stored_real_bytes for group in self.groups)

    @property
    def stored_host_bytes(self) -> int:
        """Whole host slots, all groups."""
        return sum(group.stored_chunks for group in self.groups) * self.host_slot_bytes


class RequestRefusedError(EcbenchError):
    """A scheduler does not take the request; the message is its own."""


class RealScheduler(Protocol):
    """A scheduler that can be asked what it does with a request."""

    @property
    def name(self) -> str:
        """Registered name."""
        ...

    @property
    def version(self) -> str:
        """The engine's version."""
        ...

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """What of the engine is stood in for, in words."""
        ...

    def schedule(self, request: SchedulerRequest) -> Scheduled:
        """Runs a request, from its arrival to the hit of its replay.

        Raises:
            RequestRefusedError: The engine does not take it.
        """
        ...

    def masks(self, request: SchedulerRequest) -> tuple[NDArray[np.bool_] | None, ...]:
        """Asks only which chunks each group would store.

        Returns:
            One mask per group of the request's model, bool, shape ``(chunks,)``; None for a group that has no mask.

        Raises:
            RequestRefusedError: The engine does not take the request.
        """
        ...
