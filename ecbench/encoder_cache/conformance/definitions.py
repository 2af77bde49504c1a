"""What a check is, and how it says that a target failed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.encoder_cache.conformance.bench import Bench

CHECK_LIMIT_S = 20.0
"""A check takes milliseconds; a target that needs so long hangs."""
_MESSAGE_CHARACTERS = 600


class CheckFailedError(Exception):
    """The target did not do what was expected; the message says what it did."""


class NoInput(NamedTuple):
    """A check that has no parameters."""


@dataclass(frozen=True)
class Check:
    """One named check.

    Args:
        name: Group and name, for example ``worker.exact-fit``.
        behaviour: Number of the behaviour it belongs to; None for an edge case.
        description: What is checked, in one line.
        expected: What a target must do, in one line.
        run: Does it; raises `CheckFailedError`. Any other exception of the target's is a failure, too.
        inputs: From small to large, named tuples; the first that fails is the smallest.
    """

    name: str
    behaviour: int | None
    description: str
    expected: str
    run: Callable[[Bench, Any], None]
    inputs: tuple[tuple[Any, ...], ...] = (NoInput(),)


def describe_input(given: tuple[Any, ...]) -> str:
    """An input as text, by the names of its fields; empty for `NoInput`."""
    names = getattr(given, "_fields", ())
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, given, strict=True))


def describe_error(error: BaseException) -> str:
    """An exception in one line."""
    text = shorten(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shorten(text: str) -> str:
    """A text of whatever kind as one line of bounded length that every format can hold."""
    line = " ".join(text.split()).encode(errors="replace").decode()
    return line if len(line) <= _MESSAGE_CHARACTERS else f"{line[:_MESSAGE_CHARACTERS]}..."


def require(holds: object, happened: str) -> None:
    """States what must hold.

    Args:
        holds: True where the target did what was expected.
        happened: What it did otherwise.

    Raises:
        CheckFailedError: It does not hold.
    """
    if not holds:
        raise CheckFailedError(happened)


def require_equal(found: object, wanted: object, what: str) -> None:
    """States that two values are equal.

    Raises:
        CheckFailedError: They are not; both are named.
    """
    require(found == wanted, f"{what}: {found!r} instead of {wanted!r}")


def require_bytes(found: bytes, wanted: bytes, what: str) -> None:
    """States that bytes are equal.

    Raises:
        CheckFailedError: They are not; the first that differs is named.
    """
    require_equal(len(found), len(wanted), f"bytes of {what}")
    if found != wanted:
        first = next(index for index, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1])
        wrong = sum(left != right for left, right in zip(found, wanted, strict=True))
        raise CheckFailedError(
            f"{what}: {wrong} of {len(wanted)} bytes are wrong, first byte {first}: "
            f"{found[first]:#04x} instead of {wanted[first]:#04x}"
        )
