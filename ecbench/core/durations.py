"""Durations as users write them."""

from __future__ import annotations

import re

from ecbench.core.errors import EcbenchError

_DURATION = re.compile(r"\s*(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>[A-Za-z]*)\s*")
_SECONDS_PER_UNIT = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
MAX_DURATION_S = 7 * 24 * 3600.0
"""A week: longer is a mistake in the unit."""


def parse_duration(text: str | float) -> float:
    """Reads a duration, for example ``"60s"``, ``"2m"`` or ``90``.

    Args:
        text: A number with a unit: ms, s, m, min, h; without one, seconds.

    Returns:
        Seconds, above 0.

    Raises:
        EcbenchError: No number, an unknown unit, zero or more than a week.
    """
    match = _DURATION.fullmatch(str(text))
    unit = match["unit"].lower() if match else None
    if match is None or unit not in _SECONDS_PER_UNIT:
        raise EcbenchError(f"duration {str(text)!r} is not a number with a unit: write it like 60s, 2m or 1h")
    seconds = float(match["number"]) * _SECONDS_PER_UNIT[unit]
    if not 0 < seconds <= MAX_DURATION_S:
        raise EcbenchError(f"duration {str(text)!r} is {seconds:g} s: give more than 0 and at most a week")
    return seconds
