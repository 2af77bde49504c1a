"""Shares as users write them: ``5%`` or ``0.05``."""

from __future__ import annotations

import re

from ecbench.core.errors import EcbenchError

_SHARE = re.compile(r"\s*(?P<number>\d{1,6}(?:\.\d{1,9})?|\.\d{1,9})\s*(?P<percent>%?)\s*")
MAX_PERCENT = 1000.0
"""Eleven times as slow; what is above was meant as something else."""
MAX_FRACTION = 1.0
"""A larger number without a percent sign was meant as percent."""
_EXAMPLES = "write it like 5% or 0.05"


def parse_share(text: str | float) -> float:
    """Reads a share.

    Args:
        text: A fraction up to 1, or a number with a percent sign up to 1000%.

    Returns:
        The share as a fraction, above 0.

    Raises:
        EcbenchError: No number, zero, or out of range.
    """
    match = _SHARE.fullmatch(str(text))
    if match is None:
        raise EcbenchError(f"threshold {str(text)!r} is no share: {_EXAMPLES}")
    number = float(match["number"])
    if not 0 < number <= (MAX_PERCENT if match["percent"] else MAX_FRACTION):
        raise EcbenchError(
            f"threshold {str(text)!r} is not above 0 and at most {MAX_FRACTION:g} or {MAX_PERCENT:g}%: {_EXAMPLES}"
        )
    return number / 100 if match["percent"] else number
