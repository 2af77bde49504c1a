"""What counts as a refusal, and what its text must name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ecbench.encoder_cache.conformance.definitions import CheckFailedError, describe_error, require

if TYPE_CHECKING:
    from collections.abc import Callable

_SIZE = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?) ?([KMGTP]i?B|bytes|B)?(?!\w|\.\d)", re.IGNORECASE)
_UNITS = {"": 0, "bytes": 0, "b": 0, "kib": 1, "mib": 2, "gib": 3, "tib": 4, "pib": 5}
_DECIMAL_UNITS = {"kb": 1, "mb": 2, "gb": 3, "tb": 4, "pb": 5}
_ROUNDING = 0.006
"""Texts round to three digits; half of the last one is at most 0.5%."""


def refusal_of(action: Callable[[], object], what: str) -> Exception:
    """Runs what a target must refuse.

    Returns:
        The exception it raised, of whatever class.

    Raises:
        CheckFailedError: It raised none.
    """
    try:
        outcome = action()
    except Exception as error:
        return error
    gave = f": it gave {outcome!r}" if isinstance(outcome, int | str | list | tuple) else ""
    raise CheckFailedError(f"{what} was not refused{gave}")


def require_named(error: Exception, names: dict[str, bool]) -> None:
    """States that a refusal names what a reader needs.

    Args:
        error: The refusal.
        names: By what must be named: it is.

    Raises:
        CheckFailedError: Something is not named.
    """
    missing = [what for what, named in names.items() if not named]
    require(not missing, f"{describe_error(error)} (does not name {' and '.join(missing)})")


def names_bytes(error: Exception, size_bytes: int) -> bool:
    """Tells whether a text names a number of bytes, plain or with a unit and three digits."""
    return any(abs(found - size_bytes) <= _ROUNDING * abs(size_bytes) for found in _sizes_in(str(error)))


def names_number(error: Exception, number: int) -> bool:
    """Tells whether a text names exactly this number, and not only a longer one that contains it."""
    return number in _sizes_in(str(error))


def names_text(error: Exception, text: str) -> bool:
    """Tells whether a text contains another, in whatever case."""
    return text.lower() in str(error).lower()


def _sizes_in(text: str) -> list[float]:
    return [float(number) * _unit_bytes(unit) for number, unit in _SIZE.findall(text)]


def _unit_bytes(unit: str) -> int:
    lower = unit.lower()
    return int(1000 ** _DECIMAL_UNITS[lower]) if lower in _DECIMAL_UNITS else int(1024 ** _UNITS[lower])
