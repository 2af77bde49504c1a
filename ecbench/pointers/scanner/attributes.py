"""What attributes of modules, classes, instances and arrays are."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from ecbench.pointers.scanner import naming
from ecbench.pointers.scanner.values import ADDRESS, LAMBDA, NOTHING, Kind, Value, sequence_of

if TYPE_CHECKING:
    from ecbench.pointers.scanner.declarations import Declarations

_HANDLE_ADDRESSES = frozenset({"buffer_ptrs", "signal_pad_ptrs"})
_MULTICAST = "multicast_ptr"
_ARRAY_ATTRIBUTES = frozenset({"T", "mT", "flat", "real", "data"})


class Attributes:
    """Resolves attributes within one file.

    Args:
        declarations: Functions and classes of the file.
    """

    def __init__(self, declarations: Declarations) -> None:
        self._declarations = declarations

    def find(self, node: ast.Attribute, receiver: Value) -> Value:
        """The value of an attribute of an object; nothing where nothing is known of it."""
        attribute = node.attr
        if receiver.name is not None and not receiver.name.startswith(("def:", "bound:")):
            return self._member(receiver.name, attribute)
        known = self._instance_attribute(receiver.owner, attribute) if receiver.owner is not None else NOTHING
        if known == NOTHING and receiver.kind in (Kind.NUMPY, Kind.TORCH) and attribute in _ARRAY_ATTRIBUTES:
            known = receiver
        return known if known != NOTHING else _by_name(node, receiver)

    def _member(self, name: str, attribute: str) -> Value:
        if not name.startswith("class:"):
            return named(f"{name}.{attribute}")
        owner = name.removeprefix("class:")
        method = self._declarations.method(owner, attribute)
        if method is None:
            return self._declarations.attribute(owner, attribute) or NOTHING
        bound = method.decorated_with("classmethod")
        return Value(name=f"{'bound' if bound else 'def'}:{method.qualified_name}")

    def _instance_attribute(self, owner: str, attribute: str) -> Value:
        method = self._declarations.method(owner, attribute)
        if method is None:
            return self._declarations.attribute(owner, attribute) or NOTHING
        if method.decorated_with("property", "cached_property"):
            return self._declarations.result(method)
        bound = not method.decorated_with("staticmethod")
        return Value(name=f"{'bound' if bound else 'def'}:{method.qualified_name}")


def named(name: str) -> Value:
    """The module, function, class or dtype of a full dotted name."""
    module, _, last = name.rpartition(".")
    names_type = module in ("torch", "numpy") or name in ("builtins.int", "builtins.float", "builtins.bool")
    dtype = naming.dtype_of_name(name) if names_type and last else None
    return Value(kind=Kind.DTYPE if dtype else Kind.UNKNOWN, dtype=dtype, name=name)


def _is_handle(node: ast.expr, receiver: Value) -> bool:
    identifier = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return receiver.kind is Kind.HANDLE or "handle" in identifier.lower()


def _by_name(node: ast.Attribute, receiver: Value) -> Value:
    """What the attribute's name alone says."""
    attribute = node.attr
    if attribute == "np":
        return Value(kind=Kind.NUMPY, dtype=receiver.dtype)
    if attribute == "value" and receiver.twos:  # of a ctypes integer
        return Value(kind=Kind.INT, address=True, twos=True)
    if attribute == "data_ptr":
        return Value(name=LAMBDA, element=replace(ADDRESS, host=receiver.host))
    if attribute == _MULTICAST:
        return ADDRESS
    many = attribute in _HANDLE_ADDRESSES and _is_handle(node.value, receiver)
    if many or naming.names_data_pointers(attribute):
        return sequence_of(ADDRESS) if attribute.endswith("s") else ADDRESS
    return NOTHING
