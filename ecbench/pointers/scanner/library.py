"""What calls of torch, NumPy, ctypes and the built-ins return, as far as the rules need it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ecbench.pointers.scanner.arrays import NUMPY_ARRAYS, TORCH_ARRAYS, Effect, first_argument, numpy_function
from ecbench.pointers.scanner.values import (
    ADDRESS,
    NOTHING,
    Kind,
    Value,
    element_of,
    integer,
    join_all,
    mapping_of,
    sequence,
    sequence_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecbench.pointers.scanner.events import Call

_SAME_ARRAY_METHODS = frozenset(
    {
        *("reshape", "ravel", "flatten", "copy", "clone", "contiguous", "squeeze", "unsqueeze", "expand", "flip"),
        *("repeat", "permute", "transpose", "detach", "narrow", "view_as", "requires_grad_", "zero_", "fill_", "copy_"),
        *("index_select", "cumsum", "sort", "unique", "diff", "byteswap", "cuda", "xpu", "share_memory_"),
    }
)
_SEQUENCE_BUILTINS = frozenset({"list", "tuple", "sorted", "reversed", "set", "frozenset", "iter"})
_SIZE_BUILTINS = frozenset({"len", "hash", "id", "ord"})
_SIGNED_CTYPES = frozenset({"c_int64", "c_long", "c_longlong", "c_ssize_t"})


def call_result(call: Call) -> Value | None:
    """What a call of a known function or method returns; None for others."""
    if call.name is not None:
        module, _, function = call.name.rpartition(".")
        effect = _FUNCTIONS.get(module, {}).get(function)
        if effect is not None:
            return effect(call)
        if module == "numpy":
            return numpy_function(call, function)
        if function == "rendezvous":
            return Value(kind=Kind.HANDLE)
    return _method_result(call) if call.method else None


def is_source(call: Call) -> bool:
    """Whether a call yields an address."""
    return call.method == "data_ptr" and not call.arguments


def _method_result(call: Call) -> Value | None:
    receiver, method = call.receiver, call.method or ""
    if is_source(call):
        return replace(ADDRESS, host=receiver.host)
    if method == "rendezvous":
        return Value(kind=Kind.HANDLE)
    effect = _METHODS.get(method)
    if effect is not None:
        return effect(call)
    if method in _SAME_ARRAY_METHODS:
        return receiver
    return None


def _plain_int(call: Call) -> Value:
    first = first_argument(call)
    return Value(kind=Kind.INT, address=first.address, host=first.host, twos=first.twos, number=first.number)


def _chained(call: Call) -> Value:
    return sequence_of(join_all(element_of(argument) for argument in call.arguments))


def _chained_from(call: Call) -> Value:
    return sequence_of(element_of(element_of(first_argument(call))))


def _zipped(call: Call) -> Value:
    return sequence_of(sequence(element_of(argument) for argument in call.arguments))


def _numbered(call: Call) -> Value:
    return sequence_of(sequence([integer(), element_of(first_argument(call))]))


def _extreme(call: Call) -> Value:
    return element_of(first_argument(call)) if len(call.arguments) == 1 else join_all(call.arguments)


def _mapping(call: Call) -> Value:
    fields = tuple((name, value) for name, value in call.keywords.items() if name != "**")
    return mapping_of(join_all(value for _, value in fields), fields)


def _signed_ctype(call: Call) -> Value:
    first = first_argument(call)
    return Value(address=first.address, host=first.host, twos=True)


def _collected(call: Call) -> Value:
    first = first_argument(call)
    if call.method in ("tuple", "list") and first.items:
        return first
    return sequence_of(element_of(first))


def _astype(call: Call) -> Value:
    dtype = first_argument(call).dtype or (call.keywords.get("dtype") or NOTHING).dtype
    rewritten = call.receiver.address and dtype == "int64"
    return replace(call.receiver, kind=Kind.NUMPY, dtype=dtype, twos=call.receiver.twos or rewritten, items=())


def _view(call: Call) -> Value:
    dtype = first_argument(call).dtype or (call.keywords.get("dtype") or NOTHING).dtype
    if dtype is None:
        return call.receiver
    return replace(call.receiver, dtype=dtype)


def _to(call: Call) -> Value:
    dtype = next((value.dtype for value in call.all_arguments() if value.kind is Kind.DTYPE), None)
    kind = Kind.TORCH if dtype and call.receiver.kind is Kind.UNKNOWN else call.receiver.kind
    return replace(call.receiver, kind=kind, dtype=dtype or call.receiver.dtype, host=False)


def _as_numpy(call: Call) -> Value:
    return replace(call.receiver, kind=Kind.NUMPY, host=True)


def _moved_to_host(call: Call) -> Value:
    return replace(call.receiver, host=True)


def _listed(call: Call) -> Value:
    receiver = call.receiver
    return sequence_of(Value(kind=Kind.INT, address=receiver.address, host=receiver.host, twos=receiver.twos))


def _item(call: Call) -> Value:
    receiver = call.receiver
    return Value(kind=Kind.INT, address=receiver.address, host=receiver.host, twos=receiver.twos)


def _popped(call: Call) -> Value:
    receiver = call.receiver
    known = receiver.kind in (Kind.SEQUENCE, Kind.MAPPING)
    return element_of(receiver) if known else NOTHING


def _values(call: Call) -> Value:
    return sequence_of(element_of(call.receiver))


def _entries(call: Call) -> Value:
    return sequence_of(sequence([NOTHING, element_of(call.receiver)]))


_BUILTINS: Mapping[str, Effect] = {
    **dict.fromkeys(_SEQUENCE_BUILTINS, _collected),
    **dict.fromkeys(_SIZE_BUILTINS, lambda _: integer()),
    **dict.fromkeys(("int", "abs"), _plain_int),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(
        ("hex", "oct", "bin", "str", "repr", "bool", "float", "isinstance", "any", "all"), lambda _: NOTHING
    ),
    **dict.fromkeys(("next", "sum"), lambda call: element_of(first_argument(call))),
    "range": lambda _: sequence_of(integer()),
    "zip": _zipped,
    "enumerate": _numbered,
    "dict": _mapping,
}
_FUNCTIONS: Mapping[str, Mapping[str, Effect]] = {
    "torch": TORCH_ARRAYS,
    "numpy": NUMPY_ARRAYS,
    "builtins": _BUILTINS,
    "itertools": {"chain": _chained},
    "itertools.chain": {"from_iterable": _chained_from},
    "collections": {
        "deque": lambda call: sequence_of(element_of(first_argument(call))),
        **dict.fromkeys(("defaultdict", "OrderedDict"), lambda _: mapping_of(NOTHING)),
    },
    "copy": dict.fromkeys(("copy", "deepcopy"), first_argument),
    "ctypes": dict.fromkeys(_SIGNED_CTYPES, _signed_ctype),
}
_METHODS: Mapping[str, Effect] = {
    "astype": _astype,
    "view": _view,
    "to": _to,
    "type": _to,
    "long": lambda call: replace(call.receiver, dtype="int64"),
    "numpy": _as_numpy,
    "cpu": _moved_to_host,
    "pin_memory": _moved_to_host,
    "tolist": _listed,
    "item": _item,
    **dict.fromkeys(("pop", "popleft", "get", "setdefault"), _popped),
    "values": _values,
    "items": _entries,
}
