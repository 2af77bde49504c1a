"""What functions of torch and NumPy that make arrays return: element type, and whether it holds addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ecbench.pointers.scanner import naming
from ecbench.pointers.scanner.arithmetic import promoted
from ecbench.pointers.scanner.events import Call
from ecbench.pointers.scanner.values import NOTHING, Kind, Value, element_of, join_all, sequence

Effect = Callable[[Call], Value]

_HOST_TENSORS = frozenset({"torch.from_numpy", "torch.frombuffer"})
_INDEX_FUNCTIONS = frozenset({"flatnonzero", "nonzero", "argsort", "argwhere", "searchsorted", "digitize", "bincount"})
_SAME_DTYPE_FUNCTIONS = frozenset(
    {"repeat", "tile", "diff", "cumsum", "sort", "unique", "ascontiguousarray", "broadcast_to", "ravel", "flip", "copy"}
)
MIXING_FUNCTIONS = frozenset(
    {"concatenate", "stack", "hstack", "vstack", "where", "maximum", "minimum", "add", "subtract", "append"}
)
"""NumPy functions whose result has the common type of their arguments."""


def dtype_argument(call: Call, position: int | None = None) -> tuple[bool, str | None]:
    """The dtype that a call asks for.

    Returns:
        Whether a dtype is given, and which, None where it cannot be told.
    """
    value = call.keywords.get("dtype")
    if value is None and position is not None and position < len(call.arguments):
        value = call.arguments[position]
    if value is None:
        return "**" in call.keywords, None
    return True, value.dtype


def first_argument(call: Call) -> Value:
    """The first argument; nothing where there is none."""
    return call.argument(0) or NOTHING


def _array_from(kind: Kind, call: Call, data: Value, position: int | None) -> Value:
    given, dtype = dtype_argument(call, position)
    if not given:
        dtype = data.dtype if data.kind in (Kind.NUMPY, Kind.TORCH) else _default_dtype(data)
    return Value(kind=kind, address=data.address, twos=data.twos, dtype=dtype, host=_on_host(call) or data.host)


def _default_dtype(data: Value) -> str | None:
    if data.address or data.kind not in (Kind.SEQUENCE, Kind.INT):
        return None
    return "int64"


def _on_host(call: Call) -> bool:
    device = call.keywords.get("device")
    pinned = call.keywords.get("pin_memory")
    return call.name in _HOST_TENSORS or pinned is not None or (device is not None and device.name == "'cpu'")


def _torch_data(call: Call) -> Value:
    return _array_from(Kind.TORCH, call, first_argument(call), None)


def _torch_filled(call: Call) -> Value:
    return _array_from(Kind.TORCH, call, call.argument(1, "fill_value") or NOTHING, None)


def _torch_empty(call: Call) -> Value:
    return Value(kind=Kind.TORCH, dtype=dtype_argument(call)[1], host=_on_host(call))


def _torch_like(call: Call) -> Value:
    given, dtype = dtype_argument(call)
    return Value(kind=Kind.TORCH, dtype=dtype if given else first_argument(call).dtype, host=_on_host(call))


def _torch_merged(call: Call) -> Value:
    merged = join_all(element_of(argument) for argument in call.arguments)
    return Value(kind=Kind.TORCH, address=merged.address, dtype=merged.dtype, twos=merged.twos)


def _numpy_data(call: Call) -> Value:
    return _array_from(Kind.NUMPY, call, first_argument(call), 1)


def _numpy_filled(call: Call) -> Value:
    return _array_from(Kind.NUMPY, call, call.argument(1, "fill_value") or NOTHING, 2)


def _numpy_empty(call: Call) -> Value:
    given, dtype = dtype_argument(call, 1)
    return Value(kind=Kind.NUMPY, dtype=dtype if given else "float64")


def _numpy_range(call: Call) -> Value:
    given, dtype = dtype_argument(call)
    address = any(argument.address for argument in call.arguments)
    return Value(kind=Kind.NUMPY, address=address, dtype=dtype if given else None if address else "int64")


def numpy_function(call: Call, function: str) -> Value | None:
    """What a function of NumPy returns that is in no table."""
    first = first_argument(call)
    dtype = naming.dtype_of_name(f"numpy.{function}")
    if dtype is not None:
        return Value(kind=Kind.NUMPY, address=first.address, host=first.host, twos=first.twos, dtype=dtype)
    if function in MIXING_FUNCTIONS:
        return _numpy_mixed(call)
    if function in _INDEX_FUNCTIONS:
        return Value(kind=Kind.NUMPY, dtype="int64")
    if function == "divmod":
        return sequence([replace(first, address=False), replace(first, address=False)])
    return replace(first, kind=Kind.NUMPY, items=(), element=None) if function in _SAME_DTYPE_FUNCTIONS else None


def mixed_operands(call: Call) -> list[Value]:
    """The arrays and numbers that a NumPy function brings to a common type."""
    operands: list[Value] = []
    for argument in call.arguments[1:] if call.method == "where" else call.arguments:
        operands.extend(argument.items or [argument])
    return operands


def _numpy_mixed(call: Call) -> Value:
    operands = mixed_operands(call)
    dtype = None
    for operand in operands:
        if operand.kind is Kind.NUMPY:
            dtype = operand.dtype if dtype is None else promoted(dtype, operand.dtype)
    merged = join_all(operands)
    return Value(kind=Kind.NUMPY, dtype=dtype, address=merged.address, host=merged.host, twos=merged.twos)


TORCH_ARRAYS: Mapping[str, Effect] = {
    **dict.fromkeys(("tensor", "as_tensor", "asarray", "scalar_tensor", "from_numpy", "frombuffer"), _torch_data),
    **dict.fromkeys(("empty", "zeros", "ones", "arange"), _torch_empty),
    **dict.fromkeys(("empty_like", "zeros_like", "ones_like"), _torch_like),
    **dict.fromkeys(("full", "full_like"), _torch_filled),
    **dict.fromkeys(("cat", "stack", "concat"), _torch_merged),
}
NUMPY_ARRAYS: Mapping[str, Effect] = {
    **dict.fromkeys(("array", "asarray", "fromiter", "frombuffer"), _numpy_data),
    **dict.fromkeys(("empty", "zeros", "ones"), _numpy_empty),
    "full": _numpy_filled,
    "arange": _numpy_range,
}
