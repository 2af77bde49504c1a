"""What a source does with values, as the rules see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ecbench.pointers.scanner.values import Kind, Value, element_of, join_all

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function or method."""

    node: ast.Call
    name: str | None
    """Full dotted name of the function; None for a method of an object and for what cannot be resolved."""
    method: str | None
    """Last part of the name."""
    receiver: Value
    """The object that a method is called on."""
    arguments: tuple[Value, ...]
    keywords: Mapping[str, Value] = field(default_factory=dict)

    def argument(self, position: int, keyword: str | None = None) -> Value | None:
        """The argument at a position or of a name; None where it is not given."""
        if position < len(self.arguments):
            return self.arguments[position]
        return self.keywords.get(keyword) if keyword else None

    def all_arguments(self) -> tuple[Value, ...]:
        """Positional and keyword arguments."""
        return (*self.arguments, *self.keywords.values())


@dataclass(frozen=True, slots=True)
class Store:
    """An assignment to elements: ``target[...] = value``."""

    node: ast.expr | ast.stmt
    target: Value
    value: Value


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An addition or a subtraction."""

    node: ast.expr | ast.stmt
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Iteration:
    """A loop or a comprehension over a value, whose elements are not only read with ``.item()``."""

    node: ast.expr | ast.stmt
    iterable: Value


Event = Call | Store | Arithmetic | Iteration


def concerns_addresses(event: Event) -> bool:
    """Whether a rule can have something to say: an operand is an address or of type uint64."""
    match event:
        case Call():
            operands = (event.receiver, *event.all_arguments())
        case Store():
            operands = (event.target, event.value)
        case Arithmetic():
            operands = (event.left, event.right)
        case Iteration():
            operands = (event.iterable,)
    return any(operand.address or operand.dtype == "uint64" for operand in operands)


class Observer(Protocol):
    """Is told of every event."""

    def start(self, function: str) -> None:
        """A walk over a function starts; what an earlier walk over it told no longer counts."""

    def observe(self, event: Event, qualified_name: str) -> None:
        """Judges one event.

        Args:
            event: What happens.
            qualified_name: The function that it happens in; empty at module level.
        """


def address_in(value: Value | None) -> Value | None:
    """The Python integers or NumPy scalars that are addresses and lie in a value; None where there are none.

    Tensors and arrays of addresses are left out: what is wrong with them is wrong where they are made.
    """
    if value is None or not value.address:
        return None
    if value.kind in (Kind.NUMPY, Kind.TORCH):
        return None
    if value.kind in (Kind.SEQUENCE, Kind.MAPPING):
        parts = value.items or ((value.element,) if value.element is not None else (element_of(value),))
        found = [inner for part in parts if (inner := address_in(part)) is not None]
        return join_all(found) if found else None
    return value
