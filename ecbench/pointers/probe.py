"""What this torch and this NumPy do to addresses at or above 2**63: one file that runs alone.

    python probe.py [--details]        # prints one JSON document

It needs torch (2.4 or later) and NumPy (1.26 or later) and nothing else, so that it can be handed to any interpreter;
ecbench imports it too. It measures and does not rule: `ecbench.pointers.rulings` turns findings into rulings.

A *method* is one way to write, build, read, compute with or hand over an address. It is tried with each table dtype,
each encoding (``raw``: the address as a Python int; ``twos``: the address - 2**64) and each class of value in `VALUES`.
What it left behind is compared byte by byte with what the address should be; the answer is one *finding* whose
``outcome`` is ``exact``, ``negative`` (right bits, shown as the address - 2**64), ``raises``, ``corrupts`` or
``unavailable``.

The file is in this order: values, findings, the bench that methods work on, methods by group, timings, the runner.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import copy
import ctypes
import datetime as dt
import importlib
import io
import itertools
import json
import os
import pickle  # the probe asks whether pickle works; it unpickles only what it has just pickled
import platform
import re
import socket
import struct
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROBE_VERSION = 1

# ---------------------------------------------------------------------------------------------------------- values

WORD = 1 << 64
HALF = 1 << 63
LOW = 0x7F3C_5E2A_1FFF
VALUES = {
    "low": LOW,  # where Linux puts host memory
    "high-aligned": 0xFFFF_D556_B640_0000,  # a multiple of 2048: float64 keeps it, so it hides rounding
    "high-unaligned": 0xFFFF_D556_B640_0FFF,
    "max": WORD - 1,
    "overflow": WORD,  # no address: to store anything for it is wrong
}
HIGH = ("high-aligned", "high-unaligned", "max", "device")
ADDRESSES = ("low", *HIGH)
EVERY_CLASS = (*ADDRESSES, "overflow")

RAW = ("raw",)
TWOS = ("twos",)
BOTH = ("raw", "twos")
TABLES = ("uint64", "int64", "int32")
WIDE = ("uint64", "int64")
NO_TABLE = ("none",)

OFFSET = 16  # arithmetic adds this to (address - 16), so that the sum is the address under test
STRIDE = 4096


def encode(address: int, encoding: str) -> int:
    """Gives an address as the Python int that stands for it in an encoding."""
    return address - WORD if encoding == "twos" and address >= HALF else address


# -------------------------------------------------------------------------------------------------------- findings


class Finding(NamedTuple):
    """What became of one value that went one way."""

    group: str
    method: str
    dtype: str
    encoding: str
    value_class: str
    read_back: str
    outcome: str
    damage: str | None = None
    exception: str | None = None
    warning: str | None = None
    result_dtype: str | None = None


class Timing(NamedTuple):
    """The cost of one way to write or compute, per element of a batch of `BATCH`."""

    method: str
    dtype: str
    encoding: str
    ns_per_element: float | None


class NotHere(Exception):  # noqa: N818 - it says that nothing was found out, which is no error
    """A method cannot be tried on this installation; the message says why."""


class Cell(NamedTuple):
    """One value on its way: the true address and the int that is handed over for it."""

    dtype: str
    encoding: str
    address: int

    @property
    def given(self) -> int:
        """The address in the cell's encoding."""
        return encode(self.address, self.encoding)


class Method(NamedTuple):
    """One way to treat an address, and what must come out of it."""

    group: str
    name: str
    run: Callable[[Any, Cell], Any]
    expect: Callable[[int], list[Any]]
    dtypes: tuple[str, ...]
    encodings: tuple[str, ...]
    classes: tuple[str, ...]
    read_back: str
    slow: bool


METHODS: list[Method] = []


def method(
    group: str,
    name: str,
    *,
    dtypes: tuple[str, ...] = NO_TABLE,
    encodings: tuple[str, ...] = RAW,
    classes: tuple[str, ...] = ADDRESSES,
    expect: Callable[[int], list[Any]] | None = None,
    read_back: str = "bytes",
    slow: bool = False,
) -> Callable[[Callable[[Any, Cell], Any]], Callable[[Any, Cell], Any]]:
    """Registers a function ``(bench, cell) -> what came out`` as a method; by default the address must come out."""

    def register(run: Callable[[Any, Cell], Any]) -> Callable[[Any, Cell], Any]:
        METHODS.append(
            Method(group, name, run, expect or _the_address, dtypes, encodings, classes, read_back, slow),
        )
        return run

    return register


def _the_address(address: int) -> list[Any]:
    return [address]


def _between_zeros(address: int) -> list[Any]:
    return [0, address, 0]


# ----------------------------------------------------------------------------------------------------------- bench


class Claim:
    """Claims to be an array at an address that nobody owns.

    Args:
        interface: What NumPy shall believe.
    """

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


class Bench:
    """The torch and NumPy under test, and raw access to what they store.

    Args:
        torch: The torch module, or anything that behaves like it.
        numpy: The NumPy module.
    """

    _libraries = itertools.count()

    def __init__(self, torch: Any, numpy: Any) -> None:
        self.torch = torch
        self.np = numpy
        self._echo: Any = None
        self._keep: list[Any] = []

    def place(self, dtype: str, words: list[int]) -> Any:
        """Builds a tensor, shape (len(words),), whose bytes are these words: no conversion of torch is involved."""
        tensor = self.torch.zeros(len(words), dtype=getattr(self.torch, dtype))
        size = tensor.element_size()
        data = b"".join((word % (1 << (8 * size))).to_bytes(size, sys.byteorder) for word in words)
        ctypes.memmove(tensor.untyped_storage().data_ptr(), data, len(data))
        return tensor

    def raw(self, tensor: Any) -> bytes:
        """Reads the bytes of a tensor from its memory."""
        flat = tensor.detach().cpu().contiguous()
        size = flat.element_size()
        start = flat.untyped_storage().data_ptr() + flat.storage_offset() * size
        return ctypes.string_at(start, flat.numel() * size)

    def scalar(self, cell: Cell) -> Any:
        """Gives the cell's value as a NumPy scalar of its encoding's natural type."""
        return (self.np.int64 if cell.encoding == "twos" else self.np.uint64)(cell.given)

    def array(self, cell: Cell) -> Any:
        """Gives the cell's value as a NumPy array, shape (1,), of its encoding's natural type."""
        return self.np.array([cell.given], dtype=self.np.int64 if cell.encoding == "twos" else self.np.uint64)

    def tensor_at(self, address: int) -> Any:
        """Builds a one-byte tensor that claims to live at an address. It must never be read or printed."""
        claim = Claim({"data": (address, False), "shape": (1,), "typestr": "|u1", "version": 3})
        return self.torch.from_numpy(self.np.asarray(claim))

    def echo(self) -> Any:
        """Gives a custom operator ``echo(int) -> int``, defined once for this bench."""
        if self._echo is None:
            space = f"ecbench_probe_{os.getpid()}_{next(Bench._libraries)}"
            library = self.torch.library.Library(space, "DEF")
            library.define("echo(int address) -> int")
            library.define("echo_list(int[] addresses) -> int")
            library.impl("echo", lambda address: address, "CompositeExplicitAutograd")
            library.impl("echo_list", lambda addresses: addresses[0], "CompositeExplicitAutograd")
            self._keep.append(library)
            self._echo = getattr(self.torch.ops, space)
        return self._echo


# ------------------------------------------------------------------------------- methods: writing into a table of torch


def write(
    name: str,
    dtypes: tuple[str, ...] = TABLES,
    encodings: tuple[str, ...] = BOTH,
    *,
    group: str = "write",
    classes: tuple[str, ...] = EVERY_CLASS,
    slow: bool = False,
) -> Callable[[Callable[[Bench, Any, Cell], Any]], Callable[[Bench, Any, Cell], Any]]:
    """Registers ``(bench, table, cell)``, which puts the address into element 1 of a table of three zeros."""

    def register(put: Callable[[Bench, Any, Cell], Any]) -> Callable[[Bench, Any, Cell], Any]:
        def run(bench: Bench, cell: Cell) -> Any:
            table = bench.torch.zeros(3, dtype=getattr(bench.torch, cell.dtype))
            put(bench, table, cell)
            return table

        expect = _between_zeros
        method(group, name, dtypes=dtypes, encodings=encodings, classes=classes, expect=expect, slow=slow)(run)
        return put

    return register


@write("setitem")
def _setitem(_bench: Bench, table: Any, cell: Cell) -> None:
    table[1] = cell.given


@write("setitem-numpy-scalar")
def _setitem_numpy_scalar(bench: Bench, table: Any, cell: Cell) -> None:
    table[1] = bench.scalar(cell)


@write("setitem-0d-tensor")
def _setitem_0d_tensor(bench: Bench, table: Any, cell: Cell) -> None:
    table[1] = bench.torch.from_numpy(bench.array(cell))[0]


@write("setitem-slice")
def _setitem_slice(_bench: Bench, table: Any, cell: Cell) -> None:
    table[1:2] = cell.given


@write("setitem-mask")
def _setitem_mask(bench: Bench, table: Any, cell: Cell) -> None:
    table[bench.torch.tensor([False, True, False])] = cell.given


@write("setitem-index-tensor")
def _setitem_index_tensor(bench: Bench, table: Any, cell: Cell) -> None:
    table[bench.torch.tensor([1])] = cell.given


@write("setitem-list")
def _setitem_list(_bench: Bench, table: Any, cell: Cell) -> None:
    table[[1]] = cell.given


@write("fill")
def _fill(_bench: Bench, table: Any, cell: Cell) -> None:
    table[1].fill_(cell.given)


@write("masked-fill")
def _masked_fill(bench: Bench, table: Any, cell: Cell) -> None:
    table.masked_fill_(bench.torch.tensor([False, True, False]), cell.given)


@write("index-fill")
def _index_fill(bench: Bench, table: Any, cell: Cell) -> None:
    table.index_fill_(0, bench.torch.tensor([1]), cell.given)


@write("slice-from-numpy-array")
def _slice_from_numpy_array(bench: Bench, table: Any, cell: Cell) -> None:
    table[1:2] = bench.torch.from_numpy(bench.array(cell))


@write("copy-from-numpy-array")
def _copy_from_numpy_array(bench: Bench, table: Any, cell: Cell) -> None:
    table[1:2].copy_(bench.torch.from_numpy(bench.array(cell)))


@write("numpy-view", WIDE)
def _numpy_view(bench: Bench, table: Any, cell: Cell) -> None:
    table.numpy().view(bench.np.uint64)[1] = cell.given


@write("numpy-view-slice", WIDE, RAW)
def _numpy_view_slice(bench: Bench, table: Any, cell: Cell) -> None:
    table.numpy().view(bench.np.uint64)[1:2] = [cell.given]


@write("numpy-own-dtype")
def _numpy_own_dtype(_bench: Bench, table: Any, cell: Cell) -> None:
    table.numpy()[1] = cell.given


@write("numpy-own-dtype-from-array")
def _numpy_own_dtype_from_array(bench: Bench, table: Any, cell: Cell) -> None:
    table.numpy()[1:2] = bench.array(cell)


@write("numpy-view-vectorised", WIDE, RAW, classes=ADDRESSES)
def _numpy_view_vectorised(bench: Bench, table: Any, cell: Cell) -> None:
    steps = bench.np.arange(1, 2, dtype=bench.np.uint64)
    view = table.numpy().view(bench.np.uint64)
    view[1:2] = bench.np.uint64(cell.given - OFFSET) + steps * bench.np.uint64(OFFSET)


@write("int64-view", WIDE)
def _int64_view(bench: Bench, table: Any, cell: Cell) -> None:
    table.view(bench.torch.int64)[1] = cell.given


@write("memoryview", WIDE)
def _memoryview(_bench: Bench, table: Any, cell: Cell) -> None:
    memoryview(table.numpy())[1] = cell.given


@write("struct-bytes", WIDE)
def _struct_bytes(bench: Bench, table: Any, cell: Cell) -> None:
    packed = bytearray(struct.pack("=Q", cell.given))
    table[1:2].copy_(bench.torch.frombuffer(packed, dtype=table.dtype))


@write("array-bytes", WIDE)
def _array_bytes(bench: Bench, table: Any, cell: Cell) -> None:
    packed = bytearray(array.array("Q", [cell.given]).tobytes())
    table[1:2].copy_(bench.torch.frombuffer(packed, dtype=table.dtype))


@write("ctypes-uint64", WIDE)
def _ctypes_uint64(_bench: Bench, table: Any, cell: Cell) -> None:
    (ctypes.c_uint64 * 3).from_buffer(table.numpy())[1] = cell.given


@write("scatter", WIDE, classes=ADDRESSES)
def _scatter(bench: Bench, table: Any, cell: Cell) -> None:
    table.scatter_(0, bench.torch.tensor([1]), bench.place(cell.dtype, [cell.address]))


@write("index-put", WIDE, classes=ADDRESSES)
def _index_put(bench: Bench, table: Any, cell: Cell) -> None:
    table.index_put_((bench.torch.tensor([1]),), bench.place(cell.dtype, [cell.address]))


# --------------------------------------------------------------------------------------- methods: building a table


def construct(
    name: str, dtypes: tuple[str, ...] = TABLES, encodings: tuple[str, ...] = BOTH
) -> Callable[[Callable[[Any, Cell], Any]], Callable[[Any, Cell], Any]]:
    """Registers ``(bench, cell)``, which builds a tensor whose first element is the address."""
    return method("construct", name, dtypes=dtypes, encodings=encodings, classes=EVERY_CLASS)


@construct("tensor")
def _tensor(bench: Bench, cell: Cell) -> Any:
    return bench.torch.tensor([cell.given], dtype=getattr(bench.torch, cell.dtype))


@construct("tensor-0d")
def _tensor_0d(bench: Bench, cell: Cell) -> Any:
    return bench.torch.tensor(cell.given, dtype=getattr(bench.torch, cell.dtype))


@construct("tensor-of-numpy-scalar")
def _tensor_of_numpy_scalar(bench: Bench, cell: Cell) -> Any:
    return bench.torch.tensor([bench.scalar(cell)], dtype=getattr(bench.torch, cell.dtype))


@construct("tensor-without-dtype", NO_TABLE)
def _tensor_without_dtype(bench: Bench, cell: Cell) -> Any:
    return bench.torch.tensor([cell.given])


@construct("as-tensor")
def _as_tensor(bench: Bench, cell: Cell) -> Any:
    return bench.torch.as_tensor([cell.given], dtype=getattr(bench.torch, cell.dtype))


@construct("as-tensor-of-numpy-array")
def _as_tensor_of_numpy_array(bench: Bench, cell: Cell) -> Any:
    return bench.torch.as_tensor(bench.array(cell), dtype=getattr(bench.torch, cell.dtype))


@construct("as-tensor-of-mixed-numpy-array", encodings=RAW)
def _as_tensor_of_mixed_numpy_array(bench: Bench, cell: Cell) -> Any:
    return bench.torch.as_tensor(bench.np.array([cell.given, 5]), dtype=getattr(bench.torch, cell.dtype))[:1]


@construct("full")
def _full(bench: Bench, cell: Cell) -> Any:
    return bench.torch.full((1,), cell.given, dtype=getattr(bench.torch, cell.dtype))


@construct("full-like")
def _full_like(bench: Bench, cell: Cell) -> Any:
    return bench.torch.full_like(bench.place(cell.dtype, [0]), cell.given)


@construct("scalar-tensor")
def _scalar_tensor(bench: Bench, cell: Cell) -> Any:
    return bench.torch.scalar_tensor(cell.given, dtype=getattr(bench.torch, cell.dtype))


@construct("scalar-tensor-without-dtype", NO_TABLE)
def _scalar_tensor_without_dtype(bench: Bench, cell: Cell) -> Any:
    return bench.torch.scalar_tensor(cell.given)


@construct("from-numpy", NO_TABLE)
def _from_numpy(bench: Bench, cell: Cell) -> Any:
    return bench.torch.from_numpy(bench.array(cell))


# --------------------------------------------------------------------------------------------- methods: reading back


def read(
    name: str, expect: Callable[[int], list[Any]] | None = None
) -> Callable[[Callable[[Bench, Any], Any]], Callable[[Bench, Any], Any]]:
    """Registers ``(bench, table)``, which reads element 0 of a table that holds the right bytes."""

    def register(get: Callable[[Bench, Any], Any]) -> Callable[[Bench, Any], Any]:
        def run(bench: Bench, cell: Cell) -> Any:
            return get(bench, bench.place(cell.dtype, [cell.address]))

        for dtype, encodings in (("uint64", RAW), ("int64", TWOS)):
            method("read", name, dtypes=(dtype,), encodings=encodings, expect=expect, read_back=name)(run)
        return get

    return register


read("item")(lambda _bench, table: table[0].item())
read("tolist")(lambda _bench, table: table.tolist()[0])
read("numpy-element")(lambda _bench, table: int(table.numpy()[0]))
read("int")(lambda _bench, table: int(table[0]))
read("index")(lambda _bench, table: table[0].__index__())
read("hex")(lambda _bench, table: int(hex(table[0]), 16))
read("bool", lambda _address: [True])(lambda _bench, table: bool(table[0]))
read("iterate")(lambda _bench, table: next(int(element) for element in table))
read("float")(lambda _bench, table: float(table[0]))


# ----------------------------------------------------------------------------------- methods: computing with a table


def compute(
    name: str, run: Callable[[Bench, Any, int], Any], expect: Callable[[int], list[Any]], raw_operand: bool = False
) -> None:
    """Registers ``(bench, table, address)`` over a table that holds [address, LOW] as right bytes.

    A uint64 table is listed as encoding ``raw``, an int64 table as ``twos``: the same bits under either name.
    """

    def on_table(bench: Bench, cell: Cell) -> Any:
        operand = cell.address if raw_operand else cell.given
        return run(bench, bench.place(cell.dtype, [cell.address, LOW]), operand)

    for dtype, encodings in (("uint64", RAW), ("int64", TWOS)):
        method("compute", name, dtypes=(dtype,), encodings=encodings, expect=expect)(on_table)


def _modulo(operation: Callable[[int], int]) -> Callable[[int], list[Any]]:
    return lambda address: [operation(address) % WORD, operation(LOW) % WORD]


def _sorted_pair(address: int) -> list[Any]:
    return sorted([address, LOW])


compute("add", lambda _bench, table, _address: table + 1, _modulo(lambda a: a + 1))
compute("subtract", lambda _bench, table, _address: table - 1, _modulo(lambda a: a - 1))
compute("multiply", lambda _bench, table, _address: table * 2, _modulo(lambda a: a * 2))
compute("floor-divide", lambda _bench, table, _address: table // 16, _modulo(lambda a: a // 16))
compute("remainder", lambda _bench, table, _address: table % 4095, _modulo(lambda a: a % 4095))
compute("true-divide", lambda _bench, table, _address: table / 1, _modulo(lambda a: a))
compute("shift-left", lambda _bench, table, _address: table << 1, _modulo(lambda a: a << 1))
compute("shift-right", lambda _bench, table, _address: table >> 4, _modulo(lambda a: a >> 4))
compute("and", lambda _bench, table, _address: table & 0xFFF, _modulo(lambda a: a & 0xFFF))
compute("or", lambda _bench, table, _address: table | 1, _modulo(lambda a: a | 1))
compute("xor", lambda _bench, table, _address: table ^ 1, _modulo(lambda a: a ^ 1))
compute("equal", lambda _bench, table, _address: table == table.clone(), lambda _a: [True, True])
compute(
    "less-than",
    lambda bench, table, _address: table < bench.place(str(table.dtype)[6:], [LOW + 1, LOW + 1]),
    lambda a: [a < LOW + 1, True],
)
compute("equal-raw-int", lambda _bench, table, address: table == address, lambda a: [True, a == LOW], raw_operand=True)
compute(
    "floor-divide-by-raw-int",
    lambda _bench, table, address: table // address,
    lambda a: [1, LOW // a],
    raw_operand=True,
)
compute("cat", lambda bench, table, _address: bench.torch.cat([table[:1], table[1:]]), _modulo(lambda a: a))
compute("stack", lambda bench, table, _address: bench.torch.stack([table[0], table[1]]), _modulo(lambda a: a))
compute("clone", lambda _bench, table, _address: table.clone(), _modulo(lambda a: a))
compute("sort", lambda bench, table, _address: bench.torch.sort(table).values, _sorted_pair)
compute("unique", lambda bench, table, _address: bench.torch.unique(table), lambda a: sorted({a, LOW}))
compute("max", lambda _bench, table, _address: table.max(), lambda a: [max(a, LOW)])
compute("topk", lambda _bench, table, _address: table.topk(1).values, lambda a: [max(a, LOW)])
compute("sum", lambda _bench, table, _address: table[:1].sum(), lambda a: [a])
compute(
    "arange",
    lambda bench, table, address: bench.torch.arange(address - 1, address + 1, dtype=table.dtype),
    lambda a: [a - 1, a],
)
compute(
    "index-select",
    lambda bench, table, _address: bench.torch.index_select(table, 0, bench.torch.tensor([1, 0])),
    lambda a: [LOW, a],
)
compute("gather", lambda bench, table, _address: table.gather(0, bench.torch.tensor([1, 0])), lambda a: [LOW, a])
compute("flip", lambda _bench, table, _address: table.flip(0), lambda a: [LOW, a])
compute("advanced-index", lambda bench, table, _address: table[bench.torch.tensor([1, 0])], lambda a: [LOW, a])
compute(
    "where",
    lambda bench, table, _address: bench.torch.where(bench.torch.tensor([True, True]), table, table.clone()),
    _modulo(lambda a: a),
)
compute(
    "add-int64-tensor",
    lambda bench, table, _address: table + bench.place("int64", [1, 1]),
    _modulo(lambda a: a + 1),
)


# -------------------------------------------------------------------------- methods: computing with NumPy and Python


def numpy_way(
    name: str,
    run: Callable[[Any, int], Any],
    expect: Callable[[int], list[Any]] | None = None,
    encodings: tuple[str, ...] = RAW,
    classes: tuple[str, ...] = ADDRESSES,
) -> None:
    """Registers ``(numpy, value)``; its result is stored into a uint64 array, as a caller would, and judged there."""
    method("numpy", name, encodings=encodings, classes=classes, expect=expect)(
        lambda bench, cell: run(bench.np, cell.given)
    )


def _with_low(address: int) -> list[Any]:
    return [address, LOW]


def _u64(np: Any, *values: int) -> Any:
    return np.array(values, dtype=np.uint64)


def _i64(np: Any, *values: int) -> Any:
    return np.array(values, dtype=np.int64)


numpy_way("array-uint64", lambda np, v: np.array([v], dtype=np.uint64), encodings=BOTH, classes=EVERY_CLASS)
numpy_way("array-int64", lambda np, v: np.array([v], dtype=np.int64), encodings=BOTH, classes=EVERY_CLASS)
numpy_way("array-without-dtype", lambda np, v: np.array([v]), encodings=BOTH)
numpy_way("array-without-dtype-mixed", lambda np, v: np.array([v, LOW]), _with_low, classes=EVERY_CLASS)
numpy_way("asarray-without-dtype-mixed", lambda np, v: np.asarray([v, LOW]), _with_low)
numpy_way("full-uint64", lambda np, v: np.full(1, v, dtype=np.uint64), encodings=BOTH, classes=EVERY_CLASS)
numpy_way("full-int64", lambda np, v: np.full(1, v, dtype=np.int64), encodings=BOTH, classes=EVERY_CLASS)
numpy_way("full-without-dtype", lambda np, v: np.full(1, v))
numpy_way("fromiter-uint64", lambda np, v: np.fromiter([v], dtype=np.uint64), encodings=BOTH, classes=EVERY_CLASS)
numpy_way("arange-without-dtype", lambda np, v: np.arange(v - OFFSET, v)[-1:], lambda a: [a - 1])
numpy_way("arange-uint64", lambda np, v: np.arange(v - OFFSET, v, dtype=np.uint64)[-1:], lambda a: [a - 1])
numpy_way("setitem-into-uint64", lambda np, v: _stored(np, np.uint64, v), encodings=BOTH, classes=EVERY_CLASS)
numpy_way("setitem-into-int64", lambda np, v: _stored(np, np.int64, v), encodings=BOTH, classes=EVERY_CLASS)
numpy_way("uint64-astype-int64", lambda np, v: _u64(np, v).astype(np.int64))
numpy_way("int-plus-int64-array", lambda np, v: v - OFFSET + _i64(np, OFFSET))
numpy_way("int-plus-uint64-array", lambda np, v: v - OFFSET + _u64(np, OFFSET))
numpy_way("np-uint64-plus-int64-array", lambda np, v: np.uint64(v - OFFSET) + _i64(np, OFFSET))
numpy_way("np-uint64-plus-int", lambda np, v: np.uint64(v - OFFSET) + OFFSET)
numpy_way("np-uint64-plus-np-int64", lambda np, v: np.uint64(v - OFFSET) + np.int64(OFFSET))
numpy_way("np-uint64-plus-np-uint64", lambda np, v: np.uint64(v - OFFSET) + np.uint64(OFFSET))
numpy_way("uint64-array-plus-int64-array", lambda np, v: _u64(np, v - OFFSET) + _i64(np, OFFSET))
numpy_way("uint64-array-plus-np-int64", lambda np, v: _u64(np, v - OFFSET) + np.int64(OFFSET))
numpy_way("uint64-array-plus-int", lambda np, v: _u64(np, v - OFFSET) + OFFSET)
numpy_way("int-plus-uint64-array-times-np-int64", lambda np, v: v - OFFSET + _u64(np, 1) * np.int64(OFFSET))
numpy_way("int-plus-uint64-array-times-int", lambda np, v: v - OFFSET + _u64(np, 1) * OFFSET)
numpy_way("np-uint64-plus-uint64-array-times-np-uint64",
          lambda np, v: np.uint64(v - OFFSET) + _u64(np, 1) * np.uint64(OFFSET))  # fmt: skip
numpy_way("concatenate-mixed", lambda np, v: np.concatenate([_u64(np, v), _i64(np, LOW)]), _with_low)
numpy_way("stack-mixed", lambda np, v: np.stack([_u64(np, v), _i64(np, LOW)]).ravel(), _with_low)
numpy_way("where-mixed", lambda np, v: np.where(np.array([True]), _u64(np, v), _i64(np, LOW)))
numpy_way("maximum-mixed", lambda np, v: np.maximum(_u64(np, v), _i64(np, LOW)), lambda a: [max(a, LOW)])
numpy_way("sort-int64", lambda np, v: np.sort(_i64(np, v, LOW)), _sorted_pair, TWOS)
numpy_way("sort-uint64", lambda np, v: np.sort(_u64(np, v, LOW)), _sorted_pair)


def _stored(np: Any, dtype: Any, value: int) -> Any:
    stored = np.zeros(1, dtype=dtype)
    stored[0] = value
    return stored


def python_way(name: str, run: Callable[[int], Any], encodings: tuple[str, ...] = BOTH) -> None:
    """Registers ``(value)``, a way of plain Python, ctypes or struct."""
    method("python", name, encodings=encodings, classes=EVERY_CLASS)(lambda _bench, cell: run(cell.given))


python_way("mask-64-bits", lambda v: v & (WORD - 1))
python_way("float", float, RAW)
python_way("ctypes-c-uint64", lambda v: bytes(ctypes.c_uint64(v)))
python_way("ctypes-c-int64", lambda v: ctypes.c_int64(v).value)
python_way("ctypes-c-ulong", lambda v: bytes(ctypes.c_ulong(v)))
python_way("ctypes-c-long", lambda v: ctypes.c_long(v).value)
python_way("ctypes-c-void-p", lambda v: ctypes.c_void_p(v).value)
python_way("ctypes-c-int32", lambda v: bytes(ctypes.c_int32(v)))
python_way("struct-Q", lambda v: struct.pack("=Q", v))
python_way("struct-q", lambda v: struct.pack("=q", v))
python_way("array-Q", lambda v: array.array("Q", [v]).tobytes())
python_way("array-q", lambda v: array.array("q", [v]).tobytes())
python_way("to-bytes-unsigned", lambda v: v.to_bytes(8, sys.byteorder))
python_way("to-bytes-signed", lambda v: v.to_bytes(8, sys.byteorder, signed=True))


# ------------------------------------------------------------- methods: addresses of tensors, operators, handing over


@method("address", "data-ptr", read_back="int")
def _data_ptr(bench: Bench, cell: Cell) -> Any:
    return bench.tensor_at(cell.address).data_ptr()


@method("address", "untyped-storage-data-ptr", read_back="int")
def _untyped_storage_data_ptr(bench: Bench, cell: Cell) -> Any:
    return bench.tensor_at(cell.address).untyped_storage().data_ptr()


@method("operator", "custom-op-int", encodings=BOTH, read_back="int")
def _custom_op_int(bench: Bench, cell: Cell) -> Any:
    return bench.echo().echo(cell.given)


@method("operator", "custom-op-int-list", encodings=BOTH, read_back="int")
def _custom_op_int_list(bench: Bench, cell: Cell) -> Any:
    return bench.echo().echo_list([cell.given])


def exchange(name: str, run: Callable[[Bench, Any], Any], group: str = "exchange") -> None:
    """Registers ``(bench, table)``, which hands a table over and gives the copy that arrives."""

    def on_table(bench: Bench, cell: Cell) -> Any:
        return run(bench, bench.place(cell.dtype, [cell.address]))

    for dtype, encodings in (("uint64", RAW), ("int64", TWOS)):
        method(group, name, dtypes=(dtype,), encodings=encodings)(on_table)


def _saved_and_loaded(bench: Bench, table: Any) -> Any:
    buffer = io.BytesIO()
    bench.torch.save(table, buffer)
    buffer.seek(0)
    return bench.torch.load(buffer, weights_only=True)


def _pickled(table: Any) -> Any:
    return pickle.loads(pickle.dumps(table))  # noqa: S301 - its own bytes, made in this line


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotHere(f"{name.partition('.')[0]} is not installed") from error


def _through_safetensors(_bench: Bench, table: Any) -> Any:
    safetensors = _optional("safetensors.torch")
    return safetensors.load(safetensors.save({"table": table}))["table"]


exchange("pickle", lambda _bench, table: _pickled(table))
exchange("deepcopy", lambda _bench, table: copy.deepcopy(table))
exchange("save-load", _saved_and_loaded)
exchange("dlpack", lambda bench, table: bench.torch.from_dlpack(table))
exchange("safetensors", _through_safetensors)


# --------------------------------------------------------------------------------------------- methods: collectives

GLOO_TIMEOUT_S = 5.0  # a group of one answers in milliseconds; a machine without a usable network never does


def _gathered(bench: Bench, table: Any) -> Any:
    parts = [bench.torch.zeros_like(table)]
    bench.torch.distributed.all_gather(parts, table)
    return parts[0]


def _in_place(name: str, *arguments: Any) -> Callable[[Bench, Any], Any]:
    def run(bench: Bench, table: Any) -> Any:
        getattr(bench.torch.distributed, name)(table, *arguments)
        return table

    return run


def _reduced_as_int64(bench: Bench, table: Any) -> Any:
    bench.torch.distributed.all_reduce(table.view(bench.torch.int64))
    return table


exchange("gloo-all-reduce", _in_place("all_reduce"), "gloo")
exchange("gloo-broadcast", _in_place("broadcast", 0), "gloo")
exchange("gloo-all-gather", _gathered, "gloo")
exchange("gloo-all-reduce-int64-view", _reduced_as_int64, "gloo")


class Gloo:
    """A gloo group of this one process on the loopback interface; used as a context.

    Args:
        torch: The torch module under test.

    Raises:
        NotHere: There is no gloo, or this process already has a group.
    """

    def __init__(self, torch: Any) -> None:
        self._distributed = torch.distributed
        self._interface = os.environ.get("GLOO_SOCKET_IFNAME")

    def __enter__(self) -> Gloo:
        distributed = self._distributed
        if not distributed.is_available() or not distributed.is_gloo_available():
            raise NotHere("this torch has no gloo")
        if distributed.is_initialized():
            raise NotHere("this process already has a process group")
        if self._interface is None:
            os.environ["GLOO_SOCKET_IFNAME"] = _loopback()
        timeout = dt.timedelta(seconds=GLOO_TIMEOUT_S)
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1, timeout=timeout)
        return self

    def __exit__(self, *_: object) -> None:
        self._distributed.destroy_process_group()
        if self._interface is None:
            os.environ.pop("GLOO_SOCKET_IFNAME", None)


@contextlib.contextmanager
def _stdout_of_libraries_to_stderr() -> Iterator[None]:
    """Some gloo builds greet on file descriptor 1, where this program's only line belongs to its reader."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _loopback() -> str:
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), names[0])


def _find_with_gloo(bench: Bench, methods: list[Method], values: dict[str, int]) -> list[Finding]:
    findings: list[Finding] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            with Gloo(bench.torch):
                findings.extend(find(bench, methods, values))
        except Exception as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="gloo", daemon=True)
    with _stdout_of_libraries_to_stderr():
        thread.start()
        thread.join(GLOO_TIMEOUT_S)
    if not thread.is_alive() and not failure:
        return findings
    reason = f"gloo: {_one_line(failure[0])}" if failure else f"gloo gave no answer within {GLOO_TIMEOUT_S:g} s"
    return [_unavailable(method_, cell, name, reason) for method_, cell, name in _cells(methods, values)]


# ------------------------------------------------------------------------------------- methods: compiled code, Triton


def compiled(
    name: str, encodings: tuple[str, ...] = RAW
) -> Callable[[Callable[[Bench, Any, int], None]], Callable[[Bench, Any, int], None]]:
    """Registers ``(bench, table, value)``, a write that is traced into one graph and run from there."""

    def register(put: Callable[[Bench, Any, int], None]) -> Callable[[Bench, Any, int], None]:
        def in_graph(bench: Bench, table: Any, cell: Cell) -> None:
            # Tracing needs no compiler, and it is tracing that refuses: generated code is the same machine words.
            bench.torch.compiler.reset()
            value = cell.given

            def graph(traced: Any) -> Any:
                put(bench, traced, value)
                return traced

            bench.torch.compile(graph, backend="aot_eager", fullgraph=True)(table)

        classes = ("low", "high-unaligned")
        write(name, ("uint64",), encodings, group="compile", classes=classes, slow=True)(in_graph)
        return put

    return register


@compiled("compiled-setitem", BOTH)
def _compiled_setitem(_bench: Bench, table: Any, value: int) -> None:
    table[1] = value


@compiled("compiled-numpy-view")
def _compiled_numpy_view(bench: Bench, table: Any, value: int) -> None:
    table.numpy().view(bench.np.uint64)[1] = value


@compiled("compiled-int64-view", TWOS)
def _compiled_int64_view(bench: Bench, table: Any, value: int) -> None:
    table.view(bench.torch.int64)[1] = value


@compiled("compiled-fill")
def _compiled_fill(_bench: Bench, table: Any, value: int) -> None:
    table[1:2].fill_(value)


def _specialised(value: Any) -> str:
    return str(_optional("triton.runtime.jit").mangle_type(value))


def _kernel_type(value: int) -> list[Any]:
    return ["u64" if value >= HALF else "i64"]


def _signed_kernel_type(value: int) -> list[Any]:
    return ["i32" if encode(value, "twos") >= -(1 << 31) else "i64"]


@method("triton", "triton-int", encodings=RAW, classes=EVERY_CLASS, expect=_kernel_type, read_back="type", slow=True)
def _triton_int(_bench: Bench, cell: Cell) -> Any:
    return _specialised(cell.given)


@method("triton", "triton-int", encodings=TWOS, expect=_signed_kernel_type, read_back="type", slow=True)
def _triton_twos(_bench: Bench, cell: Cell) -> Any:
    return _specialised(cell.given)


@method("triton", "triton-numpy-scalar", encodings=BOTH, expect=_kernel_type, read_back="type", slow=True)
def _triton_numpy_scalar(bench: Bench, cell: Cell) -> Any:
    return _specialised(bench.scalar(cell))


# --------------------------------------------------------------------------------------------------------- judging


class Found(NamedTuple):
    """What came out of a method, ready to be compared."""

    values: list[Any]
    dtype: str | None
    signed: bool
    rounded: bool


def normalise(bench: Bench, result: Any, table_dtype: str) -> Found:
    """Turns a result into comparable values: unsigned words from raw bytes where the result has memory.

    Args:
        bench: Gives raw access.
        result: A tensor, a NumPy array or scalar, bytes, a list, or a plain Python value.
        table_dtype: The dtype of the table the result was made from; int64 there is no surprise.
    """
    if hasattr(result, "untyped_storage"):
        return _normalise_tensor(bench, result, table_dtype)
    if isinstance(result, (bench.np.ndarray, bench.np.generic)):
        return _normalise_array(bench, result)
    if isinstance(result, (bytes, bytearray)):
        size = 8 if len(result) % 8 == 0 else len(result)
        return Found(_words(bytes(result), size), None, False, False)
    if isinstance(result, float):
        return Found([int(result)], "float", False, True)
    return Found([result], None, isinstance(result, int) and result < 0, False)


def _normalise_tensor(bench: Bench, tensor: Any, table_dtype: str) -> Found:
    dtype = str(tensor.dtype).replace("torch.", "")
    if dtype == "bool":
        return Found([bool(byte) for byte in bench.raw(tensor)], dtype, False, False)
    if dtype.startswith(("float", "bfloat")):
        return Found([int(value) for value in tensor.double().reshape(-1).tolist()], dtype, False, True)
    words = _words(bench.raw(tensor), tensor.element_size())
    turned_signed = table_dtype == "uint64" and dtype == "int64"
    return Found(words, dtype, turned_signed and any(word >= HALF for word in words), False)


def _normalise_array(bench: Bench, result: Any) -> Found:
    made = bench.np.asarray(result)
    stored = bench.np.zeros(made.size, dtype=bench.np.uint64)
    stored[...] = made.ravel()
    return Found(_words(stored.tobytes(), 8), str(made.dtype), False, made.dtype.kind == "f")


def _words(data: bytes, size: int) -> list[Any]:
    return [int.from_bytes(data[start : start + size], sys.byteorder) for start in range(0, len(data), size)]


def judge(found: Found, expected: list[Any]) -> tuple[str, str | None]:
    """Compares what was found with what must be there; gives the outcome and the kind of damage."""
    if found.values == expected:
        return ("negative" if found.signed else "exact"), None
    if found.signed and [value % WORD for value in found.values] == expected:
        return "negative", None
    return "corrupts", _damage(found, expected)


def _damage(found: Found, expected: list[Any]) -> str:
    if found.rounded:
        return "rounded"
    if any(isinstance(value, (bool, str)) for value in [*found.values, *expected]):
        return "different"
    if sorted(found.values) == sorted(expected):
        return "reordered"
    # A list and not zip(strict=True), which Python 3.9 lacks.
    pairs = [(found.values[i], expected[i]) for i in range(min(len(found.values), len(expected)))]
    got, wanted = next(((got, wanted) for got, wanted in pairs if got != wanted), (None, None))
    return "different" if got is None or wanted is None else _damage_of_word(got, wanted)


def _damage_of_word(got: int, wanted: int) -> str:
    if wanted >= WORD or got % HALF == wanted % HALF:
        return "wrapped"
    kept = wanted % (1 << 32)
    if got in (kept, kept + WORD - (1 << 32)):  # the lower half, zero- or sign-extended
        return "truncated"
    if got in (HALF, HALF - 1, WORD - 1, (1 << 31) - 1, 1 << 31):
        return "saturated"
    if wanted >= FIRST_ROUNDED and abs(got - wanted) <= RADIUS_OF_FLOAT32:
        return "rounded"
    return "different"


FIRST_ROUNDED = 1 << 24  # float32 holds every smaller integer
RADIUS_OF_FLOAT32 = 1 << 39  # half the distance between neighbouring float32 below 2**64; float64 errs by 1024 at most


# ---------------------------------------------------------------------------------------------------------- runner


def find(bench: Bench, methods: list[Method], values: dict[str, int]) -> list[Finding]:
    """Tries every method with every dtype, encoding and class of value it takes."""
    return [attempt(bench, method_, cell, name) for method_, cell, name in _cells(methods, values)]


def _cells(methods: list[Method], values: dict[str, int]) -> list[tuple[Method, Cell, str]]:
    return [
        (method_, Cell(dtype, encoding, address), name)
        for method_ in methods
        for dtype in method_.dtypes
        for encoding in method_.encodings
        for name, address in values.items()
        if name in method_.classes and (encoding == "raw" or HALF <= address < WORD)
    ]


def attempt(bench: Bench, method_: Method, cell: Cell, value_class: str) -> Finding:
    """Runs one method with one value and judges what it left behind."""
    outcome, damage, exception, dtype = "raises", None, None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = normalise(bench, method_.run(bench, cell), cell.dtype)
        except NotHere as reason:
            return _unavailable(method_, cell, value_class, str(reason))
        except Exception as error:
            exception = _one_line(_root(error))
        else:
            outcome, damage = judge(found, method_.expect(cell.address))
            dtype = found.dtype
    warning = _warning_line(caught[0]) if caught else None
    return Finding(
        method_.group, method_.name, cell.dtype, cell.encoding, value_class, method_.read_back,
        outcome, damage, exception, warning, dtype,
    )  # fmt: skip


def _unavailable(method_: Method, cell: Cell, value_class: str, reason: str) -> Finding:
    return Finding(
        method_.group, method_.name, cell.dtype, cell.encoding, value_class, method_.read_back,
        "unavailable", exception=f"not available here: {reason}",
    )  # fmt: skip


def _split_kind(line: str, kind: str) -> tuple[str, str]:
    named = re.match(r"(\w+Error): (.*)", line)
    return (named[1], named[2]) if named else (kind, line)


def _warning_line(caught: warnings.WarningMessage) -> str:
    message = caught.message
    return _one_line(message if isinstance(message, Warning) else caught.category(message))


def _root(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else _root(error.__cause__)


def _one_line(error: BaseException) -> str:
    """Says an error in one line without any address; a compiler's wrapper gives way to the error it quotes."""
    kind, text = type(error).__name__, str(error).strip()
    quoted = re.search(r"\bgot (\w+Error)\((['\"])(.*?)\2", text)
    if quoted:
        kind, text = quoted[1], quoted[3]
    first, *rest = text.splitlines() or [""]
    if first.endswith(":") and rest:  # "backend='aot_eager' raised:", and then what it raised
        kind, first = _split_kind(rest[0], kind)
    first = re.sub(r"-?\d{9,}|0x[0-9a-fA-F]{8,}", "ADDRESS", first)
    first = re.sub(r"ecbench_probe_\d+_\d+", "probe", first)
    return f"{kind}: {first[:160]}".rstrip(": ")


# --------------------------------------------------------------------------------------------------------- timings

BATCH = 4096
TIME_BUDGET_S = 0.03  # per timing, so that all of them together stay below a second
MAX_REPEATS = 7


class Timer(NamedTuple):
    """Makes, from a bench and addresses, a function that treats all the addresses once."""

    method: str
    dtype: str
    encoding: str
    make: Callable[[Bench, list[int]], Callable[[], Any]]


TIMERS: list[Timer] = []


def time_elements(
    name: str,
    dtype: str,
    encoding: str,
    target: Callable[[Bench], Any],
    values: Callable[[Bench, list[int]], list[Any]] | None = None,
) -> None:
    """Registers a timer of ``target[index] = value``, one element at a time; values are ints unless made otherwise."""

    def make(bench: Bench, addresses: list[int]) -> Callable[[], None]:
        table = target(bench)
        given = values(bench, addresses) if values else [encode(address, encoding) for address in addresses]

        def run() -> None:
            for index, value in enumerate(given):
                table[index] = value

        return run

    TIMERS.append(Timer(name, dtype, encoding, make))


def time_batch(
    name: str,
    dtype: str,
    encoding: str,
    run: Callable[[Bench, Any, list[int]], Any],
    prepare: Callable[[Bench, list[int]], Any] = lambda _bench, _addresses: None,
) -> None:
    """Registers a timer of ``(bench, prepared, values)``, which treats all the values in one call."""

    def make(bench: Bench, addresses: list[int]) -> Callable[[], None]:
        given = [encode(address, encoding) for address in addresses]
        prepared = prepare(bench, addresses)
        return lambda: run(bench, prepared, given)

    TIMERS.append(Timer(name, dtype, encoding, make))


def _table_of(dtype: str) -> Callable[..., Any]:
    return lambda bench, *_: bench.torch.zeros(BATCH, dtype=getattr(bench.torch, dtype))


def _view_of(dtype: str) -> Callable[..., Any]:
    return lambda bench, *_: _table_of(dtype)(bench).numpy().view(bench.np.uint64)


def _steps_of(dtype: str) -> Callable[..., Any]:
    return lambda bench, *_: bench.np.arange(BATCH, dtype=dtype)


def _fill_each(_bench: Bench, elements: Any, values: list[int]) -> None:
    for index, value in enumerate(values):
        elements[index].fill_(value)


def _set_fresh_numpy(_bench: Bench, table: Any, values: list[int]) -> None:
    for index, value in enumerate(values):
        table.numpy()[index] = value


def _set_slice(_bench: Bench, view: Any, values: list[int]) -> None:
    view[:] = values


def _set_vectorised(bench: Bench, view: Any, values: list[int]) -> None:
    steps = bench.np.arange(BATCH, dtype=bench.np.uint64)
    view[:] = bench.np.uint64(values[0]) + steps * bench.np.uint64(STRIDE)


def _set_from_array(bench: Bench, table: Any, values: list[int]) -> None:
    table[:] = bench.torch.from_numpy(bench.np.array(values, dtype=bench.np.uint64))


def _copy_struct(bench: Bench, table: Any, values: list[int]) -> None:
    packed = bytearray(struct.pack(f"={BATCH}Q", *values))
    table.copy_(bench.torch.frombuffer(packed, dtype=table.dtype))


def _copy_array(bench: Bench, table: Any, values: list[int]) -> None:
    packed = bytearray(array.array("Q", values).tobytes())
    table.copy_(bench.torch.frombuffer(packed, dtype=table.dtype))


def _call_operator(_bench: Bench, operator: Any, values: list[int]) -> None:
    for value in values:
        operator(value)


def _call_data_ptr(_bench: Bench, tensor: Any, values: list[int]) -> None:
    for _ in values:
        tensor.data_ptr()


time_elements("setitem", "uint64", "raw", _table_of("uint64"))
time_elements("setitem", "uint64", "twos", _table_of("uint64"))
time_elements("setitem", "int64", "raw", _table_of("int64"))
time_elements("setitem", "int64", "twos", _table_of("int64"))
time_elements("int64-view", "uint64", "twos", lambda bench: _table_of("uint64")(bench).view(bench.torch.int64))
time_elements("numpy-view", "uint64", "raw", _view_of("uint64"))
time_elements("numpy-view", "int64", "raw", _view_of("int64"))
time_elements("memoryview", "uint64", "raw", lambda bench: memoryview(_table_of("uint64")(bench).numpy()))
time_elements(
    "setitem-numpy-scalar",
    "uint64",
    "raw",
    _table_of("uint64"),
    lambda bench, addresses: [bench.np.uint64(address) for address in addresses],
)
time_elements(
    "setitem-0d-tensor",
    "uint64",
    "raw",
    _table_of("uint64"),
    lambda bench, addresses: list(bench.place("uint64", addresses).unbind()),
)
time_batch("fill", "uint64", "raw", _fill_each, lambda bench, _: list(_table_of("uint64")(bench).unbind()))
time_batch("numpy-own-dtype", "uint64", "raw", _set_fresh_numpy, _table_of("uint64"))
time_batch("numpy-view-slice", "uint64", "raw", _set_slice, _view_of("uint64"))
time_batch("numpy-view-vectorised", "uint64", "raw", _set_vectorised, _view_of("uint64"))
time_batch("slice-from-numpy-array", "uint64", "raw", _set_from_array, _table_of("uint64"))
time_batch("struct-bytes", "uint64", "raw", _copy_struct, _table_of("uint64"))
time_batch("array-bytes", "uint64", "raw", _copy_array, _table_of("uint64"))
time_batch("tensor", "uint64", "raw", lambda bench, _, values: bench.torch.tensor(values, dtype=bench.torch.uint64))
time_batch("tensor", "uint64", "twos", lambda bench, _, values: bench.torch.tensor(values, dtype=bench.torch.uint64))
time_batch("tensor", "int64", "raw", lambda bench, _, values: bench.torch.tensor(values, dtype=bench.torch.int64))
time_batch("array-without-dtype-mixed", "none", "raw", lambda bench, _, values: bench.np.array([*values[:-1], LOW]))
time_batch("int-plus-int64-array", "none", "raw", lambda _bench, steps, values: values[0] + steps, _steps_of("int64"))
time_batch(
    "np-uint64-plus-int64-array",
    "none",
    "raw",
    lambda bench, steps, values: bench.np.uint64(values[0]) + steps,
    _steps_of("int64"),
)
time_batch(
    "int-plus-uint64-array-times-np-int64",
    "none",
    "raw",
    lambda bench, steps, values: values[0] + steps * bench.np.int64(STRIDE),
    _steps_of("uint64"),
)
time_batch("custom-op-int", "none", "raw", _call_operator, lambda bench, _: bench.echo().echo)
time_batch("data-ptr", "none", "raw", _call_data_ptr, lambda bench, addresses: bench.tensor_at(addresses[0]))
time_batch("pickle", "uint64", "raw", lambda _bench, table, _: _pickled(table), _table_of("uint64"))


def measure(bench: Bench) -> list[Timing]:
    """Times every registered way over `BATCH` addresses; a way that raises has no time."""
    addresses = [VALUES["high-unaligned"] + STRIDE * index for index in range(BATCH)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            Timing(timer.method, timer.dtype, timer.encoding, _ns_per_element(bench, timer, addresses))
            for timer in TIMERS
        ]


def _ns_per_element(bench: Bench, timer: Timer, addresses: list[int]) -> float | None:
    """Gives the best of a few repeats, or None where the way raises."""
    best = float("inf")
    deadline = time.perf_counter() + TIME_BUDGET_S
    try:
        run = timer.make(bench, addresses)
        for _ in range(MAX_REPEATS):
            start = time.perf_counter()
            run()
            end = time.perf_counter()
            best = min(best, end - start)
            if end > deadline:
                break
    except Exception:
        return None
    return round(best * 1e9 / len(addresses), 2)


# -------------------------------------------------------------------------------------------------- device addresses

DEVICE_TENSORS = 16
DEVICE_TENSOR_BYTES = 8192


def accelerator(torch: Any) -> str | None:
    """Names the accelerator that torch sees, or None."""
    current = getattr(torch, "accelerator", None)
    if current is not None and current.is_available():
        return str(current.current_accelerator().type)
    for name in ("cuda", "xpu"):
        backend = getattr(torch, name, None)
        if backend is not None and backend.is_available():
            return name
    return None


def device_tensors(torch: Any, device: str) -> list[Any]:
    """Allocates a few tensors whose addresses are looked at."""
    return [torch.zeros(DEVICE_TENSOR_BYTES, dtype=torch.uint8, device=device) for _ in range(DEVICE_TENSORS)]


def count_high(tensors: list[Any]) -> int:
    """Counts the tensors whose address has bit 63 set."""
    return sum((tensor.data_ptr() >> 63) & 1 for tensor in tensors)


# ------------------------------------------------------------------------------------------------------------- all


def probe(torch: Any, numpy: Any, *, details: bool = False) -> dict[str, Any]:
    """Probes one torch with one NumPy.

    Args:
        torch: The torch module.
        numpy: The NumPy module.
        details: Also run what takes seconds: compiled graphs and Triton.

    Returns:
        A document of plain values: versions, findings, timings, and what device addresses look like.
    """
    started = time.perf_counter()
    bench = Bench(torch, numpy)
    values = dict(VALUES)
    device = accelerator(torch)
    tensors = device_tensors(torch, device) if device else []
    if tensors:
        values["device"] = (tensors[0].data_ptr() % WORD) + DEVICE_TENSOR_BYTES - 1  # inside the tensor, unaligned
    plain = [method_ for method_ in METHODS if method_.group != "gloo" and (details or not method_.slow)]
    gloo = [method_ for method_ in METHODS if method_.group == "gloo"]
    findings = find(bench, plain, values)
    timings = measure(bench)
    findings += _find_with_gloo(bench, gloo, values)
    return {
        "probe_version": PROBE_VERSION,
        "torch": str(torch.__version__),
        "numpy": str(numpy.__version__),
        "python": platform.python_version(),
        "device": device,
        "device_addresses": len(tensors),
        "device_addresses_high": count_high(tensors),
        "findings": [finding._asdict() for finding in findings],
        "timings": [timing._asdict() for timing in timings],
        "elapsed_s": round(time.perf_counter() - started, 3),
    }


def main(arguments: list[str] | None = None) -> int:
    """Prints the document for the torch and NumPy of this interpreter."""
    parser = argparse.ArgumentParser(description="how this torch and NumPy store addresses at or above 2**63")
    parser.add_argument("--details", action="store_true", help="also compiled graphs and Triton (takes seconds)")
    options = parser.parse_args(arguments)
    try:
        import numpy  # noqa: PLC0415, ICN001 - after the options, so that --help needs neither
        import torch  # noqa: PLC0415
    except ImportError as error:
        sys.stderr.write(f"probe: {error} (interpreter: {sys.executable})\n")
        return 3
    sys.stdout.write(json.dumps(probe(torch, numpy, details=options.details)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
