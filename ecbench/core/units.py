"""Sizes and times as users write and read them. Everything is computed in bytes and seconds and scaled only here."""

from __future__ import annotations

import re

from ecbench.core.errors import EcbenchError

_SIZE = re.compile(r"\s*(?P<number>[+-]?\d{1,25}(?:\.\d{1,9})?)\s*(?P<unit>[A-Za-z]*)\s*")
_BINARY_PREFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_DECIMAL_PREFIXES = ("", "K", "M", "G", "T", "P")
_BYTES_PER_UNIT = {
    **{f"{prefix}B".lower(): 1024**power for power, prefix in enumerate(_BINARY_PREFIXES)},
    **{f"{prefix}B".lower(): 1000**power for power, prefix in enumerate(_DECIMAL_PREFIXES)},
    "": 1,
}
MAX_SIZE_BYTES = 2**62
"""Largest size that is accepted: sums of a few such sizes still fit int64."""

_EXAMPLES = "write it like 4096, 7KiB or 1MiB"


def parse_size(text: str | int) -> int:
    """Reads a size in bytes, for example ``4096``, ``"7KiB"`` or ``"1.5 MiB"``.

    Args:
        text: A whole number of bytes, or a number with a unit in any case: B, KiB to PiB, kB to PB.

    Returns:
        Bytes, at least 1.

    Raises:
        EcbenchError: No number, an unknown unit, a fraction of a byte, a size below 1 or above 2**62.
    """
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise EcbenchError(f"size {str(text)!r} is not a number with a unit: {_EXAMPLES}")
    unit = match["unit"].lower()
    if unit not in _BYTES_PER_UNIT:
        raise EcbenchError(f"size {str(text)!r} has the unknown unit {match['unit']!r}: {_EXAMPLES}")
    size = _whole_bytes(match["number"], _BYTES_PER_UNIT[unit], str(text))
    if not 1 <= size <= MAX_SIZE_BYTES:
        raise EcbenchError(f"size {str(text)!r} is {size} bytes: give one from 1 to {MAX_SIZE_BYTES}")
    return size


def _whole_bytes(number: str, unit_bytes: int, text: str) -> int:
    whole, _, fraction = number.partition(".")
    if not fraction:
        return int(whole) * unit_bytes
    divisor: int = 10 ** len(fraction)
    size, rest = divmod(int(whole + fraction) * unit_bytes, divisor)
    if rest:
        raise EcbenchError(f"size {text!r} is no whole number of bytes: {_EXAMPLES}")
    return size


def format_bytes(size: float) -> str:
    """Shows bytes with a binary unit and three digits, for example ``74.9 MiB``."""
    return _scaled(size, 1024.0, [f"{prefix}B" for prefix in _BINARY_PREFIXES])


def format_bandwidth(bytes_per_s: float) -> str:
    """Shows a bandwidth with a decimal unit, as vendors state it, for example ``9.83 GB/s``."""
    return _scaled(bytes_per_s, 1000.0, [f"{prefix}B/s" for prefix in ("", "k", "M", "G", "T", "P")])


def format_seconds(seconds: float) -> str:
    """Shows a duration, for example ``12.3 us``, ``4.56 ms`` or ``7.89 s``."""
    if abs(seconds) >= 1 or seconds == 0:
        return f"{_three_digits(seconds)} s"
    return _scaled(seconds * 1e9, 1000.0, ["ns", "us", "ms", "s"])


def _scaled(value: float, step: float, units: list[str]) -> str:
    index = 0
    while index < len(units) - 1 and abs(value) >= step * 0.9995:
        value /= step
        index += 1
    return f"{value:.0f} {units[0]}" if index == 0 and value == int(value) else f"{_three_digits(value)} {units[index]}"


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:  # noqa: PLR2004 - from here on a decimal would be a fourth digit
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"  # noqa: PLR2004 - likewise
