"""Rules about torch tensors."""

from __future__ import annotations

from typing import ClassVar

from ecbench.core.scan_records import Severity
from ecbench.pointers.scanner import arrays, naming
from ecbench.pointers.scanner.events import Call, Event, Iteration, Store, address_in
from ecbench.pointers.scanner.rules.base import TABLE_MEND, Rule
from ecbench.pointers.scanner.values import Kind, Value


class TensorConstructor(Rule):
    """R1: a tensor of int64, or of the default type, is made of addresses."""

    id = "R1"
    title = "addresses become an int64 tensor"
    why = "torch refuses a Python int >= 2**63 for int64, which is also what it infers without a dtype"
    mend = "pass dtype=torch.uint64, or fill a NumPy uint64 array and use torch.from_numpy"
    _DATA: ClassVar = {"tensor": 0, "as_tensor": 0, "asarray": 0, "scalar_tensor": 0, "full": 1, "full_like": 1}
    _TYPED: ClassVar = {"LongTensor": "int64", "IntTensor": "int32"}

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges constructors of torch, and calls that name an integer dtype of torch."""
        if not isinstance(event, Call):
            return None
        data, dtype = self._constructed(event)
        if data is None or not data.address or data.twos:
            return None
        if data.kind is Kind.NUMPY:  # conversion wraps or saturates without an error
            return (Severity.CORRUPTION, data) if dtype in naming.NARROW | {"int64"} else None
        if dtype in naming.FLOATING:
            return Severity.CORRUPTION, data
        address = address_in(data)
        return (Severity.CRASH, address) if address and dtype in naming.SIGNED else None

    def _constructed(self, call: Call) -> tuple[Value | None, str | None]:
        module, _, function = (call.name or "").rpartition(".")
        if module == "torch" and function in self._TYPED:
            return call.argument(0), self._TYPED[function]
        given, dtype = arrays.dtype_argument(call)
        if module == "torch" and function in self._DATA:
            data = call.argument(self._DATA[function], "data" if self._DATA[function] == 0 else "fill_value")
            return data, dtype if given else self._inferred(function, data)
        asked = call.keywords.get("dtype")
        if asked is not None and (asked.name or "torch.").startswith("torch.") and module not in ("torch", "numpy"):
            return _listed(call.argument(0)), dtype if asked.kind is Kind.DTYPE else None
        return None, None

    def _inferred(self, function: str, data: Value | None) -> str | None:
        if function == "full_like" or (data is not None and data.kind in (Kind.NUMPY, Kind.TORCH)):
            return None
        return "float32" if function == "scalar_tensor" else "int64"


def _listed(value: Value | None) -> Value | None:
    """A list of addresses; with a single address, a call of unknown kind may mean the type of what lies there."""
    return value if value is not None and value.kind is Kind.SEQUENCE else None


class TensorStore(Rule):
    """R2: an address is assigned to elements of a tensor."""

    id = "R2"
    title = "address assigned to a tensor's elements"
    why = "assigning an int >= 2**63 fails for int64 on every torch and for uint64 before 2.14; 32-bit types cut it"
    mend = TABLE_MEND

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges ``tensor[...] = address`` and ``tensor.fill_(address)``."""
        target, value = self._stored(event)
        if target is None or value is None or target.kind is not Kind.TORCH or not value.address or value.twos:
            return None
        if value.kind is Kind.TORCH:
            return (Severity.CORRUPTION, value) if target.dtype in naming.NARROW else None
        if target.dtype in naming.FLOATING | naming.NARROW:
            return Severity.CORRUPTION, value
        return Severity.CRASH, value

    def _stored(self, event: Event) -> tuple[Value | None, Value | None]:
        if isinstance(event, Store):
            return event.target, event.value
        if isinstance(event, Call) and event.method == "fill_" and event.receiver.dtype != "uint64":
            return event.receiver, event.argument(0)
        return None, None


class TwosComplementUnsigned(Rule):
    """R5: a two's-complement rewrite goes into an unsigned slot."""

    id = "R5"
    title = "two's complement written as uint64"
    why = "uint64 refuses a negative number: in constructors always, in assignments from torch 2.14 and NumPy 2 on"
    mend = "keep the rewrite for int64 tables only; for uint64 " + TABLE_MEND

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges stores into, and constructors of, uint64 tensors and arrays."""
        if isinstance(event, Store):
            return self._unsigned(event.target.kind, event.target.dtype, event.value)
        if not isinstance(event, Call):
            return None
        module, _, function = (event.name or "").rpartition(".")
        if module not in ("torch", "numpy") or function in ("full", "full_like", "scalar_tensor"):
            return None
        dtype = "uint64" if function == "uint64" else arrays.dtype_argument(event)[1]
        return self._unsigned(Kind.TORCH, dtype, address_in(event.argument(0)))

    def _unsigned(self, kind: Kind, dtype: str | None, value: Value | None) -> tuple[Severity, Value] | None:
        negative = value is not None and value.address and value.twos and value.kind not in (Kind.TORCH, Kind.NUMPY)
        if value is None or not negative or kind not in (Kind.TORCH, Kind.NUMPY) or dtype != "uint64":
            return None
        return Severity.CRASH, value


class UnsignedTensorRead(Rule):
    """R9: elements of a uint64 tensor are read as Python ints in a way that fails."""

    id = "R9"
    title = "element of a uint64 tensor read with int(), hex() or a loop"
    why = "int(), hex(), bool() and counting on elements of a uint64 tensor raise from 2**63 on"
    mend = "read with .item(), .tolist() or .numpy()"
    _READERS: ClassVar = frozenset(f"builtins.{name}" for name in ("int", "hex", "oct", "bin", "bool"))
    _LOOPING: ClassVar = frozenset(
        f"builtins.{name}" for name in ("list", "tuple", "sorted", "set", "sum", "max", "min")
    )

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges reads of elements and loops; of a tensor without known addresses it says latent."""
        if isinstance(event, Iteration):
            return self._read(event.iterable)
        if not isinstance(event, Call):
            return None
        if event.name in self._READERS | self._LOOPING:
            return self._read(event.argument(0))
        return self._read(event.argument(1)) if event.name == "builtins.map" else None

    def _read(self, value: Value | None) -> tuple[Severity, Value] | None:
        if value is None or value.kind is not Kind.TORCH or value.dtype != "uint64":
            return None
        return Severity.CRASH if value.address else Severity.LATENT, value
