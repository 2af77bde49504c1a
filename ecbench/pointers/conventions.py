"""The conventions for storing addresses, as data: what each is made of, and what each generation does with it.

A convention is judged by *evidence*: findings of the probe, named by method, table dtype and encoding. What is expected
of it depends on the generation of torch or of NumPy; a version newer than the table is expected to do what the newest
known generation does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple


class Evidence(NamedTuple):
    """Names the findings of one method with one table dtype and one encoding."""

    method: str
    dtype: str = "none"
    encoding: str = "raw"


class Generation(NamedTuple):
    """Versions that behave alike, from `first` up to the next generation."""

    label: str
    first: tuple[int, int]


TORCH_GENERATIONS = (
    Generation("2.4 to 2.5", (2, 4)),
    Generation("2.6 to 2.8", (2, 6)),
    Generation("2.9 to 2.13", (2, 9)),
    Generation("2.14 and later", (2, 14)),
)
NUMPY_GENERATIONS = (
    Generation("1.26", (1, 26)),
    Generation("2.0 to 2.2", (2, 0)),
    Generation("2.3 and later", (2, 3)),
)
GENERATIONS = {"torch": TORCH_GENERATIONS, "numpy": NUMPY_GENERATIONS}


class Expected(NamedTuple):
    """What a generation does, and the type of the exception where the type is known."""

    result: str
    exception: str | None

    @classmethod
    def parse(cls, text: str) -> Expected:
        """Reads ``"safe"`` or ``"fails ValueError"``."""
        result, _, exception = text.partition(" ")
        return cls(result, exception or None)


@dataclass(frozen=True)
class Convention:
    """One way to keep addresses that code in the field uses.

    Args:
        name: Stable name in results.
        code: What it looks like in source.
        evidence: Findings that must all be right.
        library: Whose generation decides, ``torch`` or ``numpy``.
        expected: One entry per generation of that library: a ruling, and where it fails the exception's type.
        timing: Which timing is its cost; the first evidence unless named.
        caveats: Findings about the stored bits that must be right for the convention to be more than ``warn``.
    """

    name: str
    code: str
    evidence: tuple[Evidence, ...]
    library: str
    expected: tuple[str, ...]
    timing: Evidence | None = None
    caveats: tuple[Evidence, ...] = ()

    @property
    def cost(self) -> Evidence:
        """The timing that stands for the convention."""
        return self.timing or self.evidence[0]


SAFE = ("safe", "safe", "safe", "safe")
RAW_IS_REFUSED = ("fails RuntimeError", "fails RuntimeError", "fails ValueError", "fails ValueError")

CONVENTIONS = (
    Convention(
        "numpy-view-uint64",
        "view = table.numpy().view(np.uint64), kept; view[i] = address",
        (Evidence("numpy-view", "uint64"), Evidence("numpy-view", "int64")),
        "torch",
        SAFE,
    ),
    Convention(
        "numpy-uint64-copy",
        "table[a:b] = torch.from_numpy(np.array(addresses, dtype=np.uint64))",
        (
            Evidence("slice-from-numpy-array", "uint64"),
            Evidence("slice-from-numpy-array", "int64"),
            Evidence("copy-from-numpy-array", "uint64"),
            Evidence("copy-from-numpy-array", "int64"),
        ),
        "torch",
        SAFE,
    ),
    Convention(
        "struct-bytes",
        "table.copy_(torch.frombuffer(bytearray(struct.pack('=4096Q', *addresses)), dtype=table.dtype))",
        (
            Evidence("struct-bytes", "uint64"),
            Evidence("struct-bytes", "int64"),
            Evidence("array-bytes", "uint64"),
            Evidence("array-bytes", "int64"),
        ),
        "torch",
        SAFE,
    ),
    Convention(
        "int64-view-twos",
        "table.view(torch.int64)[i] = address - 2**64",
        (Evidence("int64-view", "uint64", "twos"),),
        "torch",
        SAFE,
    ),
    Convention(
        "uint64-setitem-raw",
        "uint64_table[i] = address",
        (Evidence("setitem", "uint64"),),
        "torch",
        ("fails RuntimeError", "fails RuntimeError", "fails ValueError", "safe"),
    ),
    Convention(
        "uint64-setitem-twos",
        "uint64_table[i] = address - 2**64",
        (Evidence("setitem", "uint64", "twos"),),
        "torch",
        ("safe", "safe", "safe", "fails OverflowError"),
    ),
    Convention(
        "uint64-setitem-numpy-scalar",
        "uint64_table[i] = np.uint64(address)",
        (Evidence("setitem-numpy-scalar", "uint64"),),
        "torch",
        ("fails RuntimeError", "fails RuntimeError", "fails ValueError", "fails TypeError"),
    ),
    Convention(
        "int64-setitem-raw",
        "int64_table[i] = address",
        (Evidence("setitem", "int64"),),
        "torch",
        RAW_IS_REFUSED,
    ),
    Convention(
        "int64-setitem-twos",
        "int64_table[i] = address - 2**64",
        (Evidence("setitem", "int64", "twos"),),
        "torch",
        ("warn", "warn", "warn", "warn"),
        caveats=(Evidence("item", "int64", "twos"), Evidence("sort", "int64", "twos")),
    ),
    Convention(
        "uint64-tensor-raw",
        "torch.tensor(addresses, dtype=torch.uint64)",
        (Evidence("tensor", "uint64"), Evidence("as-tensor", "uint64")),
        "torch",
        SAFE,
    ),
    Convention(
        "uint64-tensor-twos",
        "torch.tensor([address - 2**64], dtype=torch.uint64)",
        (Evidence("tensor", "uint64", "twos"), Evidence("as-tensor", "uint64", "twos")),
        "torch",
        ("fails OverflowError",) * 4,
    ),
    Convention(
        "int64-tensor-raw",
        "torch.tensor(addresses, dtype=torch.int64)",
        (Evidence("tensor", "int64"), Evidence("as-tensor", "int64")),
        "torch",
        RAW_IS_REFUSED,
    ),
    Convention(
        "np-array-no-dtype-mixed",
        "np.array([device_address, host_address])",
        (Evidence("array-without-dtype-mixed"), Evidence("asarray-without-dtype-mixed")),
        "numpy",
        ("corrupts",) * 3,
    ),
    Convention(
        "int-plus-int64-array",
        "address + np.arange(n, dtype=np.int64)",
        (Evidence("int-plus-int64-array"),),
        "numpy",
        ("corrupts", "fails OverflowError", "fails OverflowError"),
    ),
    Convention(
        "np-uint64-plus-int64-array",
        "np.uint64(address) + np.arange(n, dtype=np.int64)",
        (Evidence("np-uint64-plus-int64-array"),),
        "numpy",
        ("corrupts",) * 3,
    ),
    Convention(
        "uint64-array-times-np-int64",
        "address + uint64_array * np.int64(stride)",
        (Evidence("int-plus-uint64-array-times-np-int64"),),
        "numpy",
        ("safe", "corrupts", "corrupts"),
    ),
    Convention(
        "custom-op-int-raw",
        "torch.ops.space.name(address), the argument being an int",
        (Evidence("custom-op-int"),),
        "torch",
        ("fails RuntimeError",) * 4,
    ),
    Convention(
        "gloo-uint64",
        "torch.distributed.all_reduce(uint64_table) over gloo",
        (
            Evidence("gloo-all-reduce", "uint64"),
            Evidence("gloo-broadcast", "uint64"),
            Evidence("gloo-all-gather", "uint64"),
        ),
        "torch",
        ("fails RuntimeError",) * 4,
    ),
    Convention(
        "pickle-uint64",
        "pickle.loads(pickle.dumps(uint64_table))",
        (Evidence("pickle", "uint64"),),
        "torch",
        ("fails KeyError", "fails AttributeError", "fails AttributeError", "fails AttributeError"),
    ),
    Convention(
        "data-ptr-signedness",
        "address = tensor.data_ptr()",
        (Evidence("data-ptr"),),
        "torch",
        ("warn", "safe", "safe", "safe"),
    ),
)

RECOMMENDED = "numpy-view-uint64"
PREFERENCE = (RECOMMENDED, "numpy-uint64-copy", "struct-bytes", "int64-view-twos", "uint64-setitem-raw")
"""What to fall back to where the recommended convention is not safe, best first: ways to write an address."""


class Behaviour(NamedTuple):
    """One finding whose outcome is known by generation; ``?`` marks a generation in which versions differ."""

    evidence: Evidence
    value_class: str
    library: str
    expected: tuple[str, ...]


def _torch(method: str, dtype: str, encoding: str, value_class: str, *expected: str) -> Behaviour:
    return Behaviour(Evidence(method, dtype, encoding), value_class, "torch", expected * (4 // len(expected)))


def _numpy(method: str, encoding: str, *expected: str) -> Behaviour:
    return Behaviour(Evidence(method, "none", encoding), "high-unaligned", "numpy", expected * (3 // len(expected)))


HIGH = "high-unaligned"
NOT_IMPLEMENTED_BEFORE_2_14 = ("raises", "raises", "raises", "exact")

BEHAVIOURS = (
    _torch("untyped-storage-data-ptr", "none", "raw", HIGH, "exact"),
    _torch("setitem", "uint64", "raw", "overflow", "raises RuntimeError", "raises RuntimeError",
           "raises ValueError", "raises OverflowError"),
    _torch("setitem-numpy-scalar", "uint64", "raw", "low", "exact", "exact", "exact", "raises TypeError"),
    _torch("setitem-mask", "uint64", "raw", HIGH, "raises"),
    _torch("setitem-index-tensor", "uint64", "raw", HIGH, "raises"),
    _torch("setitem-list", "uint64", "raw", HIGH, "raises"),
    _torch("tensor-of-numpy-scalar", "uint64", "raw", "low", "raises TypeError"),
    _torch("tensor", "int64", "twos", HIGH, "exact"),
    _torch("fill", "uint64", "raw", HIGH, "exact"),
    _torch("fill", "uint64", "twos", HIGH, "exact"),
    _torch("fill", "int64", "raw", HIGH, "raises RuntimeError"),
    _torch("full", "uint64", "raw", HIGH, "exact"),
    _torch("full", "uint64", "twos", HIGH, "exact"),
    _torch("full-like", "uint64", "raw", HIGH, "exact"),
    _torch("full-like", "uint64", "twos", HIGH, "exact"),
    _torch("scalar-tensor", "uint64", "raw", HIGH, "exact"),
    _torch("scalar-tensor", "uint64", "twos", HIGH, "exact"),
    _torch("scalar-tensor-without-dtype", "none", "raw", HIGH, "corrupts"),
    _torch("as-tensor-of-mixed-numpy-array", "int64", "raw", HIGH, "corrupts"),
    _torch("copy-from-numpy-array", "int32", "raw", "low", "corrupts"),
    _torch("item", "uint64", "raw", HIGH, "exact"),
    _torch("tolist", "uint64", "raw", HIGH, "exact"),
    _torch("numpy-element", "uint64", "raw", HIGH, "exact"),
    _torch("int", "uint64", "raw", HIGH, "raises RuntimeError"),
    _torch("hex", "uint64", "raw", HIGH, "raises RuntimeError"),
    _torch("bool", "uint64", "raw", HIGH, "raises RuntimeError"),
    _torch("iterate", "uint64", "raw", HIGH, "raises RuntimeError"),
    _torch("index-select", "uint64", "raw", HIGH, *NOT_IMPLEMENTED_BEFORE_2_14),
    _torch("gather", "uint64", "raw", HIGH, *NOT_IMPLEMENTED_BEFORE_2_14),
    _torch("flip", "uint64", "raw", HIGH, *NOT_IMPLEMENTED_BEFORE_2_14),
    _torch("scatter", "uint64", "raw", HIGH, *NOT_IMPLEMENTED_BEFORE_2_14),
    _torch("advanced-index", "uint64", "raw", HIGH, "raises", "raises", "?", "exact"),
    _torch("where", "uint64", "raw", HIGH, "raises", "raises", "?", "exact"),
    _torch("add", "uint64", "raw", HIGH, "raises"),
    _torch("less-than", "uint64", "raw", HIGH, "raises"),
    _torch("max", "uint64", "raw", HIGH, "raises"),
    _torch("sort", "uint64", "raw", HIGH, "exact"),
    _torch("sort", "int64", "twos", HIGH, "corrupts"),
    _torch("sum", "uint64", "raw", HIGH, "negative"),
    _torch("add-int64-tensor", "uint64", "raw", HIGH, "raises"),
    _torch("custom-op-int", "none", "twos", HIGH, "negative"),
    _torch("deepcopy", "uint64", "raw", HIGH, "exact"),
    _torch("dlpack", "uint64", "raw", HIGH, "exact"),
    _torch("gloo-all-reduce-int64-view", "uint64", "raw", HIGH, "exact"),
    _torch("compiled-setitem", "uint64", "raw", HIGH, *NOT_IMPLEMENTED_BEFORE_2_14),
    _torch("compiled-numpy-view", "uint64", "raw", HIGH, *NOT_IMPLEMENTED_BEFORE_2_14),
    _torch("triton-int", "none", "raw", HIGH, "exact"),
    _numpy("array-uint64", "twos", "exact", "raises OverflowError", "raises OverflowError"),
    _numpy("setitem-into-uint64", "twos", "exact", "raises OverflowError", "raises OverflowError"),
    _numpy("full-int64", "raw", "exact", "exact", "raises OverflowError"),
    _numpy("arange-without-dtype", "raw", "corrupts"),
    _numpy("np-uint64-plus-int", "raw", "corrupts", "exact", "exact"),
    _numpy("np-uint64-plus-np-uint64", "raw", "exact"),
    _numpy("uint64-array-plus-np-int64", "raw", "exact", "corrupts", "corrupts"),
    _numpy("uint64-array-plus-int64-array", "raw", "corrupts"),
    _numpy("int-plus-uint64-array-times-int", "raw", "exact"),
    _numpy("concatenate-mixed", "raw", "corrupts"),
    _numpy("where-mixed", "raw", "corrupts"),
    _numpy("maximum-mixed", "raw", "corrupts"),
)  # fmt: skip


def version_pair(version: str) -> tuple[int, int]:
    """Reads major and minor of a version such as ``2.13.0+cpu``; unreadable versions count as the newest."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (2**31, 0)


def generation_index(library: str, version: str) -> int:
    """Finds the generation of a version; before the first counts as the first, after the last as the last."""
    pair = version_pair(version)
    known = GENERATIONS[library]
    return max((index for index, generation in enumerate(known) if generation.first <= pair), default=0)


def expected_for(library: str, expected: tuple[str, ...], versions: dict[str, str]) -> Expected:
    """Picks what is expected of the generation that `versions` (by library) belongs to."""
    return Expected.parse(expected[generation_index(library, versions[library])])


def name_expectation(versions: dict[str, str]) -> str:
    """Names the generations that versions belong to, for a reader."""
    return ", ".join(f"{library} {GENERATIONS[library][generation_index(library, versions[library])].label}"
                     for library in GENERATIONS)  # fmt: skip
