"""Axes of sweeps: how their values are written, checked and named.

An axis belongs to a family of cells (`ecbench.workflows.sweep_family`); a new family brings its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError, unknown_name
from ecbench.core.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

AxisValue = str | int | bool
AxisValues = dict[str, tuple[AxisValue, ...]]
"""Every axis of a family with its values, in the family's order."""

LEG_AXIS = "direction"
"""The one axis that makes no cells: its values are the legs of every cell."""
MAX_VALUES = 4096
"""Values of one axis; two such axes are more cells than any sweep can run."""


@dataclass(frozen=True)
class Axis:
    """One thing that a grid varies.

    Args:
        name: As in a scenario file and, with dashes, on the command line.
        param: Its key in `CaseResult.params`; carries the unit.
        parse: Reads one value.
        default: Values where neither file nor command line says otherwise.
        does: What it varies, in one line.
    """

    name: str
    param: str
    parse: Callable[[AxisValue], AxisValue]
    default: tuple[AxisValue, ...]
    does: str

    def values(self, given: object) -> tuple[AxisValue, ...]:
        """Reads the values of this axis.

        Args:
            given: One value or a list of them; text may hold several with commas between.

        Raises:
            EcbenchError: A value that is none, twice the same, or none at all; the axis is named.
        """
        try:
            values = tuple(self.parse(item) for item in _items(given))
        except EcbenchError as error:
            raise EcbenchError(f"axis {self.name}: {error}") from error
        twice = [value for index, value in enumerate(values) if value in values[:index]]
        if twice:
            raise EcbenchError(f"axis {self.name}: {twice[0]} is given twice: give each value once")
        if not 0 < len(values) <= MAX_VALUES:
            raise EcbenchError(f"axis {self.name} has {len(values)} values: give 1 to {MAX_VALUES}")
        return values


def _items(given: object) -> list[AxisValue]:
    items: list[AxisValue] = []
    for item in given if isinstance(given, list | tuple) else [given]:
        if isinstance(item, str):
            items += [part.strip() for part in item.split(",") if part.strip()]
        elif isinstance(item, int):
            items.append(item)
        else:
            raise EcbenchError(f"{item!r} is no value: write a text, a whole number or a list of them")
    return items


def read_axes(axes: Mapping[str, Axis], given: Mapping[str, object]) -> AxisValues:
    """Reads the axes of a scenario or a command line.

    Args:
        axes: What the family has.
        given: Values by axis name; an axis that is absent takes its default.

    Raises:
        EcbenchError: An unknown axis, with the ones there are, or a bad value.
    """
    for name in given:
        if name not in axes:
            raise unknown_name("axis", name, tuple(axes))
    return {name: axis.values(given[name]) if name in given else axis.default for name, axis in axes.items()}


def axes_of_options(named: Sequence[str], **options: str | None) -> dict[str, object]:
    """Collects the axes of a command line.

    Args:
        named: Like ``coalesce=true,false``.
        **options: Values of the axes that have an option of their own; None where it was not given.

    Raises:
        EcbenchError: One that names no axis, or an axis twice.
    """
    given: dict[str, object] = {name: values for name, values in options.items() if values is not None}
    for name, values in map(_parse_named, named):
        if name in given:
            raise EcbenchError(f"axis {name} is given twice: give all of its values at once")
        given[name] = values
    return given


def _parse_named(text: str) -> tuple[str, str]:
    """Reads ``name=value,value``; dashes in the name are underscores."""
    name, equals, values = text.partition("=")
    if not equals or not name.strip():
        raise EcbenchError(f"axis {text!r} has no values: write it like block-size=4KiB,7KiB")
    return name.strip().replace("-", "_"), values


def size_value(given: AxisValue) -> int:
    """Reads a size like ``7KiB``."""
    _refuse_bool(given)
    return parse_size(given)


def whole_number(low: int, high: int) -> Callable[[AxisValue], int]:
    """Makes a reader of whole numbers in a range."""

    def parse(given: AxisValue) -> int:
        _refuse_bool(given)
        text = str(given)
        value = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(high)) + 1 else -1
        if not low <= value <= high:
            raise EcbenchError(f"{text!r} is no whole number from {low} to {high}")
        return value

    return parse


def _refuse_bool(given: AxisValue) -> None:
    if isinstance(given, bool):
        raise EcbenchError(f"{given!r} is no number")


def one_of(kind: str, names: Sequence[str]) -> Callable[[AxisValue], str]:
    """Makes a reader of names."""

    def parse(given: AxisValue) -> str:
        if str(given) not in names:
            raise unknown_name(kind, str(given), tuple(names))
        return str(given)

    return parse


def yes_or_no(given: AxisValue) -> bool:
    """Reads a truth value."""
    words = {"true": True, "yes": True, "false": False, "no": False}
    word = str(given).lower()
    if word not in words:
        raise EcbenchError(f"{given!r} is neither true nor false")
    return words[word]
