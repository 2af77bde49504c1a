"""What the analysis knows about an expression: does it hold an address, and what kind of object is it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TRACKED_ITEMS = 32
"""Longer literal sequences are merged into one element: positions matter for unpacking only."""
MAX_NESTING = 4
"""Deeper nested sequences are merged, so that recursive values stay finite."""


class Kind(StrEnum):
    """Kinds of object that the rules tell apart."""

    UNKNOWN = "unknown"
    INT = "int"
    SEQUENCE = "sequence"
    MAPPING = "mapping"
    NUMPY = "numpy"
    TORCH = "torch"
    DTYPE = "dtype"
    HANDLE = "handle"
    """A symmetric-memory handle, whose attributes are addresses."""
    MIXED = "mixed"
    """Different kinds on different paths."""


@dataclass(frozen=True, slots=True)
class Value:
    """Abstract value of an expression."""

    kind: Kind = Kind.UNKNOWN
    address: bool = False
    """It is an address, or contains one."""
    host: bool = False
    """Its addresses are of host memory, which has low addresses; or it is memory on the host."""
    twos: bool = False
    """Its addresses were rewritten to two's complement, so they fit int64."""
    dtype: str | None = None
    """Element type of an array or tensor, or the type that a dtype object names; None where unknown."""
    items: tuple[Value, ...] = ()
    """The elements of a short literal sequence."""
    element: Value | None = None
    """Any element of another sequence, or any value of a mapping."""
    fields: tuple[tuple[str, Value], ...] = ()
    """Entries of a mapping that was written with literal string keys."""
    owner: str | None = None
    """Class of this file that it is an instance of."""
    name: str | None = None
    """Full dotted name of the module or function it refers to, such as ``torch.tensor``."""
    number: int | None = None
    """The int that it is, where the source says so."""


NOTHING = Value()
ADDRESS = Value(kind=Kind.INT, address=True)
LAMBDA = "lambda"
"""Name of functions whose result is the value's element, whatever they are called with."""


def integer(number: int | None = None) -> Value:
    """A Python int that is no address."""
    return Value(kind=Kind.INT, number=number)


def sequence(items: Iterable[Value]) -> Value:
    """A list, tuple or set with these elements."""
    known = tuple(items)
    merged = join_all(known)
    if len(known) > MAX_TRACKED_ITEMS or any(nesting(item) >= MAX_NESTING for item in known):
        return sequence_of(flatten(merged))
    return _containing(merged, Value(kind=Kind.SEQUENCE, items=known))


def sequence_of(element: Value) -> Value:
    """A sequence of unknown length whose elements look like this."""
    if nesting(element) >= MAX_NESTING:
        element = flatten(element)
    return _containing(element, Value(kind=Kind.SEQUENCE, element=element))


def mapping_of(element: Value, fields: tuple[tuple[str, Value], ...] = ()) -> Value:
    """A dict whose values look like this."""
    if nesting(element) >= MAX_NESTING:
        element, fields = flatten(element), ()
    return _containing(element, Value(kind=Kind.MAPPING, element=element, fields=fields))


def _containing(element: Value, container: Value) -> Value:
    return replace(container, address=element.address, host=element.host, twos=element.twos)


def nesting(value: Value) -> int:
    """Depth of containers within containers."""
    inner = [*value.items, *(entry for _, entry in value.fields)]
    if value.element is not None:
        inner.append(value.element)
    return 1 + max(map(nesting, inner)) if inner else 0


def flatten(value: Value) -> Value:
    """Forgets the inner structure, keeps what is known of its addresses."""
    return replace(value, items=(), element=None, fields=())


def without_address(value: Value) -> Value:
    """The same value with nothing in it an address."""
    if not value.address:
        return value
    return replace(
        value,
        address=False,
        twos=False,
        items=tuple(map(without_address, value.items)),
        element=without_address(value.element) if value.element is not None else None,
        fields=tuple((name, without_address(entry)) for name, entry in value.fields),
    )


def element_of(value: Value) -> Value:
    """What iterating over a value, or indexing it with an unknown index, yields."""
    if value.items:
        return join_all(value.items)
    if value.element is not None:
        return value.element
    if value.kind in (Kind.NUMPY, Kind.TORCH):
        return replace(value, owner=None, name=None)
    if not value.address:
        return Value(host=value.host)
    return Value(kind=Kind.INT, address=True, host=value.host, twos=value.twos)


def join_all(values: Iterable[Value]) -> Value:
    """Joins any number of values; nothing for none."""
    joined = NOTHING
    for value in values:
        joined = join(joined, value)
    return joined


def join(left: Value, right: Value) -> Value:
    """What holds on every path, and whether an address comes on any.

    Two's complement wins over raw: a helper converts only where the top bit is set, so one of its branches stays raw.
    """
    if left is right or right is NOTHING:
        return left
    if left is NOTHING or left == NOTHING:
        return right
    if right in (left, NOTHING):
        return left
    kind, dtype = _join_kind(left, right)
    return Value(
        kind=kind,
        address=left.address or right.address,
        host=_join_host(left, right),
        twos=left.twos or right.twos,
        dtype=dtype,
        items=_join_items(left, right),
        element=_join_elements(left, right),
        fields=left.fields if left.fields == right.fields else (),
        owner=_same(left.owner, right.owner),
        name=_same(left.name, right.name),
        number=left.number if left.number == right.number else None,
    )


def _join_kind(left: Value, right: Value) -> tuple[Kind, str | None]:
    if left.kind == right.kind:
        return left.kind, left.dtype if left.dtype == right.dtype else None
    for one, other in ((left, right), (right, left)):
        if one.kind is Kind.UNKNOWN and (other.address or not one.address):
            return other.kind, other.dtype
        if one.address and not other.address and other.kind is Kind.INT:
            return one.kind, one.dtype
    return Kind.MIXED, None


def _join_host(left: Value, right: Value) -> bool:
    if left.address == right.address:
        return left.host and right.host
    return left.host if left.address else right.host


def _join_items(left: Value, right: Value) -> tuple[Value, ...]:
    if len(left.items) != len(right.items):
        return ()
    return tuple(map(join, left.items, right.items))


def _join_elements(left: Value, right: Value) -> Value | None:
    if left.items and len(left.items) == len(right.items):
        return None
    parts = [*left.items, *right.items, *(part for part in (left.element, right.element) if part is not None)]
    return join_all(parts) if parts else None


def _same(left: str | None, right: str | None) -> str | None:
    return left if left == right else None
