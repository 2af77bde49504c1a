"""Whether torch can hand out pinned host memory."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import ok, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.doctor_records import Check

_NAME = "pinned memory"


def pin_one_page() -> bool:
    """Allocates one pinned page and tells whether torch agrees that it is pinned."""
    import torch  # noqa: PLC0415 - only reached where torch sees an accelerator

    return torch.empty(mmap.PAGESIZE, dtype=torch.uint8, pin_memory=True).is_pinned()


def check_pinned(kind: str | None, pin: Callable[[], bool] = pin_one_page) -> Check:
    """Tries to pin memory where there is an accelerator to pin it for.

    Args:
        kind: The accelerator torch sees, if any.
        pin: Pins some memory; tells whether it is pinned, or raises.
    """
    if kind is None:
        return ok(_NAME, "not tried: torch sees no accelerator to pin it for")
    try:
        pinned = pin()
    except RuntimeError as error:
        return _refused(f"refused by {kind}: {' '.join(str(error).split())}")
    return ok(_NAME, f"works on {kind}") if pinned else _refused(f"{kind} took it, but says it is not pinned")


def _refused(detail: str) -> Check:
    return problem(
        _NAME, detail, "raise the locked-memory limit (ulimit -l unlimited) and free host memory; until then --pageable"
    )
