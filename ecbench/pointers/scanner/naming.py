"""What the names in a source say: dtypes, addresses, host memory, platform folders, two's-complement helpers."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePath

_CANONICAL_DTYPES = {
    "int8": ("int8", "i1", "char"),
    "int16": ("int16", "i2", "short"),
    "int32": ("int32", "i4", "intc"),
    "int64": ("int64", "i8", "long", "longlong", "intp", "int_", "int"),
    "uint8": ("uint8", "u1", "bool", "bool_"),
    "uint16": ("uint16", "u2"),
    "uint32": ("uint32", "u4", "uintc"),
    "uint64": ("uint64", "u8", "uintp", "ulonglong", "ulong", "uint"),
    "float16": ("float16", "f2", "half", "bfloat16"),
    "float32": ("float32", "f4"),
    "float64": ("float64", "f8", "double"),
    "object": ("object", "object_", "O"),
}
_DTYPES = {alias: dtype for dtype, aliases in _CANONICAL_DTYPES.items() for alias in aliases}
_TORCH_ONLY = {"float": "float32"}
_NUMPY_ONLY = {"float": "float64", "float_": "float64", "single": "float32"}

SIGNED = frozenset({"int8", "int16", "int32", "int64"})
NARROW = frozenset({"int8", "int16", "int32", "uint8", "uint16", "uint32"})
FLOATING = frozenset({"float16", "float32", "float64"})

PLATFORM_FOLDERS = frozenset({"nvidia", "cuda", "amd", "rocm", "hip", "cutedsl", "cute_dsl"})
"""Folders whose code runs on CUDA or ROCm only, where addresses have been low so far."""

_HOST_WORDS = frozenset({"host", "cpu", "pinned", "mmap", "shm", "dram"})
_HOST_PAIRS = (frozenset({"shared", "region"}), frozenset({"offload", "region"}))
_DEVICE_WORDS = frozenset({"gpu", "cuda", "xpu", "device", "dev", "hbm", "vram"})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ADDRESS_NAME = re.compile(r"(?:\w*_)?(?:ptr|addr|address|pointer)")
_DATA_POINTERS = re.compile(r"(?:^|_)data_(?:ptr|pointer)s?(?:_|$)")
_TWOS_HELPER = re.compile(
    r"(?:^|_)(?:as|to)_?(?:i64|int64|signed)|twos_?comp|(?:^|_)signed_(?:ptr|addr)", re.IGNORECASE
)


def dtype_of_name(name: str) -> str | None:
    """The element type that a dotted name such as ``torch.int64`` or a code such as ``"<u8"`` stands for."""
    module, _, last = name.rpartition(".")
    last = last.lstrip("<>=|")
    if module == "torch" and last in _TORCH_ONLY:
        return _TORCH_ONLY[last]
    if module != "torch" and last in _NUMPY_ONLY:
        return _NUMPY_ONLY[last]
    return _DTYPES.get(last)


@lru_cache(maxsize=65536)
def words(identifier: str) -> frozenset[str]:
    """The words of a snake_case or CamelCase identifier, in lower case."""
    return frozenset(word.lower() for part in identifier.split("_") for word in _CAMEL.split(part) if word)


@lru_cache(maxsize=65536)
def names_host_memory(*identifiers: str) -> bool:
    """Whether a chain of identifiers such as ``self.host_caches`` speaks of host memory."""
    found = frozenset().union(*map(words, identifiers))
    if found & _DEVICE_WORDS:
        return False
    return bool(found & _HOST_WORDS) or any(pair <= found for pair in _HOST_PAIRS)


def names_address(identifier: str) -> bool:
    """Whether an integer of this name is an address."""
    return _ADDRESS_NAME.fullmatch(identifier.lower()) is not None


def names_data_pointers(identifier: str) -> bool:
    """Whether a name of another file's function or attribute says that it gives addresses: ``get_group_data_ptrs``."""
    return _DATA_POINTERS.search(identifier.lower()) is not None


def names_twos_complement_helper(identifier: str) -> bool:
    """Whether a function of this name rewrites addresses so that they fit int64."""
    return _TWOS_HELPER.search(identifier) is not None


def platform_folder(path: str) -> str | None:
    """The first folder on a path that binds its code to a platform without high addresses."""
    return next((part for part in PurePath(path).parts[:-1] if part.lower() in PLATFORM_FOLDERS), None)
