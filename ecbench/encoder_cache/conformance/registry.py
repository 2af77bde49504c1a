"""Every check by name, and which of them a user asks for."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError
from ecbench.encoder_cache.conformance import (
    allocator_checks,
    allocator_thread_checks,
    cycle_checks,
    edge_checks,
    host_memory_checks,
    lifetime_checks,
    load_checks,
    region_checks,
    worker_checks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.encoder_cache.conformance.definitions import Check

_MODULES = (
    worker_checks,
    load_checks,
    lifetime_checks,
    allocator_checks,
    allocator_thread_checks,
    region_checks,
    cycle_checks,
    edge_checks,
    host_memory_checks,
)
CHECKS: dict[str, Check] = {check.name: check for module in _MODULES for check in module.CHECKS}
"""In the order in which they run and are shown."""


def select_checks(patterns: Sequence[str]) -> list[Check]:
    """The checks that names or patterns ask for; none asks for all.

    Args:
        patterns: Names, or patterns with ``*``, ``?`` and ``[...]``.

    Raises:
        EcbenchError: A pattern that no check fits.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in CHECKS):
            groups = dict.fromkeys(f"{name.split('.')[0]}.*" for name in CHECKS)
            raise EcbenchError(
                f"no check is called {pattern!r}: give names or patterns, such as {', '.join(groups)}; "
                f"a run without any names them all"
            )
    wanted = patterns or ["*"]
    return [check for name, check in CHECKS.items() if any(fnmatchcase(name, pattern) for pattern in wanted)]
