"""Host memory in tokens and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import DoesNotFitError
from ecbench.core.units import format_bytes

if TYPE_CHECKING:
    from ecbench.kv_offload.planning import OffloadPlan


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How much fits; None where a request takes no memory at all."""

    requests: int | None
    """Whole prompts of the planned length that share nothing."""
    tokens: int | None
    """Tokens in prompts of that length, the last of them cut."""


class HostCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What a host memory holds.

    By slot is what the engine does: every chunk of every group takes a whole slot. By real bytes is what would fit if
    chunks took what their transfers move.
    """

    memory_bytes: int
    slot_bytes: int
    slots: int
    with_skip_by_slot: Fit
    with_skip_by_real_bytes: Fit
    without_skip_by_slot: Fit
    without_skip_by_real_bytes: Fit


def host_capacity(plan: OffloadPlan, memory_bytes: int) -> HostCapacity:
    """Finds how many requests like the planned one fit.

    Args:
        plan: From `ecbench.kv_offload.plan_store`.
        memory_bytes: Memory given to offloading.

    Returns:
        The capacity.

    Raises:
        DoesNotFitError: Not even one slot fits.
    """
    layout, totals, tokens = plan.layout, plan.totals, plan.prompt.tokens
    slots = memory_bytes // layout.host_slot_bytes
    if slots < 1:
        raise DoesNotFitError(
            f"host memory of {memory_bytes} bytes is below one slot of {layout.host_slot_bytes} bytes "
            f"({format_bytes(layout.host_slot_bytes)}): give at least that"
        )
    return HostCapacity(
        memory_bytes=memory_bytes,
        slot_bytes=layout.host_slot_bytes,
        slots=slots,
        with_skip_by_slot=_fit(slots, totals.all_stored_chunks, tokens),
        with_skip_by_real_bytes=_fit(memory_bytes, totals.stored_real_bytes * layout.copies, tokens),
        without_skip_by_slot=_fit(slots, totals.all_full_chunks, tokens),
        without_skip_by_real_bytes=_fit(memory_bytes, totals.full_real_bytes * layout.copies, tokens),
    )


def _fit(available: int, per_request: int, tokens: int) -> Fit:
    if not per_request:
        return Fit(requests=None, tokens=None)
    return Fit(requests=available // per_request, tokens=available * tokens // per_request)
