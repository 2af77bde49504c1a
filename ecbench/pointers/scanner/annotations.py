"""What type annotations say about values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ecbench.pointers.scanner import naming
from ecbench.pointers.scanner.values import NOTHING, Kind, Value, integer, join, mapping_of, sequence, sequence_of

if TYPE_CHECKING:
    from collections.abc import Collection

_SEQUENCES = frozenset({"list", "List", "Sequence", "Iterable", "Iterator", "set", "Set", "frozenset", "deque"})
_MAPPINGS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"})


def annotated_value(annotation: ast.expr | None, classes: Collection[str]) -> Value:
    """The value that an annotation describes; nothing where it says nothing of use.

    Args:
        annotation: The annotation, also as a string.
        classes: Classes of the file.
    """
    if annotation is None:
        return NOTHING
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotated_value(_parsed(annotation.value), classes)
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        left, right = (annotated_value(side, classes) for side in (annotation.left, annotation.right))
        return join(left, right)
    if isinstance(annotation, ast.Subscript):
        return _generic(annotation, classes)
    return _plain(_identifier(annotation), classes)


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _identifier(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _plain(identifier: str, classes: Collection[str]) -> Value:
    if identifier == "int":
        return integer()
    if identifier in ("Tensor", "Parameter", "LongTensor", "IntTensor"):
        return Value(kind=Kind.TORCH)
    if identifier in ("ndarray", "NDArray"):
        return Value(kind=Kind.NUMPY)
    if identifier in _SEQUENCES or identifier in ("tuple", "Tuple"):
        return Value(kind=Kind.SEQUENCE)
    if identifier in _MAPPINGS:
        return Value(kind=Kind.MAPPING)
    return Value(owner=identifier) if identifier in classes else NOTHING


def _generic(annotation: ast.Subscript, classes: Collection[str]) -> Value:
    identifier = _identifier(annotation.value)
    inner = annotation.slice
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    values = [annotated_value(part, classes) for part in parts]
    if identifier in ("tuple", "Tuple"):
        unbounded = any(isinstance(part, ast.Constant) and part.value is Ellipsis for part in parts)
        return sequence_of(values[0]) if unbounded else sequence(values)
    if identifier in _SEQUENCES:
        return sequence_of(values[0])
    if identifier in _MAPPINGS:
        return mapping_of(values[-1])
    if identifier in ("Optional", "Final", "ClassVar", "Annotated"):
        return values[0]
    if identifier == "NDArray":
        return Value(kind=Kind.NUMPY, dtype=naming.dtype_of_name(_identifier(parts[0])))
    return _plain(identifier, classes)
