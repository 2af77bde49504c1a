"""How operators carry addresses and element types on."""

from __future__ import annotations

import ast
import operator
from dataclasses import replace
from typing import TYPE_CHECKING

from ecbench.pointers.scanner import naming
from ecbench.pointers.scanner.values import NOTHING, Kind, Value, element_of, integer, join, sequence, sequence_of

if TYPE_CHECKING:
    from collections.abc import Callable

TOP_BIT = 2**63
"""Addresses from here on do not fit int64."""
_MAX_NUMBER_BITS = 128
"""Constants are folded up to this size; nothing of interest is longer."""

_FOLDED: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Pow: operator.pow,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
_KEEP_ADDRESS = (ast.Add, ast.Sub, ast.Mult, ast.BitOr, ast.BitXor)


def promoted(left: str | None, right: str | None) -> str | None:
    """NumPy's common type of two element types: uint64 with a signed type is float64."""
    if left == right or right is None or left is None:
        return left if left == right else None
    if "float64" in (left, right) or {left, right} & naming.FLOATING:
        return "float64"
    if "uint64" in (left, right):
        return "float64" if {left, right} & naming.SIGNED else "uint64"
    return "int64" if "int64" in (left, right) else None


def operate(operation: ast.operator, left: Value, right: Value) -> Value:
    """The value of ``left operation right``."""
    if left.number is not None and right.number is not None:
        return integer(_fold(operation, left.number, right.number))
    if left.kind is Kind.SEQUENCE:
        return _sequences(operation, left, right)
    address = _keeps_address(operation, left, right)
    twos = address and (left.twos or right.twos or _rewrites(operation, left, right))
    value = Value(kind=_kind(left, right), dtype=_dtype(operation, left, right))
    if not address:
        return value if value.kind is not Kind.UNKNOWN else NOTHING
    host = left.host if left.address else right.host
    return replace(value, address=True, twos=twos, host=host)


def _fold(operation: ast.operator, left: int, right: int) -> int | None:
    fold = _FOLDED.get(type(operation))
    shifting = isinstance(operation, ast.LShift | ast.RShift | ast.Pow)
    if fold is None or (shifting and not 0 <= right <= _MAX_NUMBER_BITS) or left.bit_length() > _MAX_NUMBER_BITS:
        return None
    return fold(left, right)


def _sequences(operation: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(operation, ast.Add) and right.kind in (Kind.SEQUENCE, Kind.UNKNOWN):
        if left.items and right.items:
            return sequence((*left.items, *right.items))
        return sequence_of(join(element_of(left), element_of(right)))
    return sequence_of(element_of(left)) if isinstance(operation, ast.Mult) else NOTHING


def _keeps_address(operation: ast.operator, left: Value, right: Value) -> bool:
    if isinstance(operation, ast.Sub) and left.address and right.address:
        return False  # the distance between two addresses
    if isinstance(operation, ast.Sub) and right.address:
        return right.kind is Kind.NUMPY
    if isinstance(operation, _KEEP_ADDRESS):
        return left.address or right.address
    if isinstance(operation, ast.BitAnd | ast.Mod):
        number = left.number if right.address else right.number
        return (left.address or right.address) and number is not None and number >= TOP_BIT
    return False


def _rewrites(operation: ast.operator, left: Value, right: Value) -> bool:
    """Whether this is ``address - 2**64`` or ``(address ^ 2**63) - 2**63``."""
    return isinstance(operation, ast.Sub) and left.address and right.number in (TOP_BIT, 2 * TOP_BIT)


def _kind(left: Value, right: Value) -> Kind:
    kinds = {left.kind, right.kind}
    for kind in (Kind.TORCH, Kind.NUMPY):
        if kind in kinds:
            return kind
    if left.address or right.address:
        return Kind.INT
    return left.kind if left.kind == right.kind else Kind.UNKNOWN


def _dtype(operation: ast.operator, left: Value, right: Value) -> str | None:
    arrays = [value for value in (left, right) if value.kind in (Kind.NUMPY, Kind.TORCH)]
    if not arrays:
        return None
    if isinstance(operation, ast.Div):
        return "float64"
    if len(arrays) == 1:
        return arrays[0].dtype
    return promoted(left.dtype, right.dtype)
