"""Rules about NumPy arrays and floats."""

from __future__ import annotations

from typing import ClassVar

from ecbench.core.scan_records import Severity
from ecbench.pointers.scanner import arrays, library, naming
from ecbench.pointers.scanner.events import Arithmetic, Call, Event, Store, address_in
from ecbench.pointers.scanner.rules.base import Rule
from ecbench.pointers.scanner.values import Kind, Value


class SignedArray(Rule):
    """R3: a NumPy array of int64, or of a type that NumPy picks, is made of addresses or given one."""

    id = "R3"
    title = "addresses become a NumPy array that is not uint64"
    why = "without a dtype NumPy makes float64 of high and low addresses together; int64 refuses or wraps them"
    mend = "pass dtype=np.uint64"
    _DATA: ClassVar = {"array": 0, "asarray": 0, "fromiter": 0, "full": 1, "arange": 0}
    _DTYPE: ClassVar = {"array": 1, "asarray": 1, "fromiter": 1, "full": 2, "arange": None}

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges constructors of NumPy, and assignments to elements."""
        if isinstance(event, Store):
            return self._stored(event)
        if not isinstance(event, Call):
            return None
        module, _, function = (event.name or "").rpartition(".")
        if module != "numpy":
            return None
        if function in naming.SIGNED:
            address = address_in(event.argument(0))
            return (Severity.CRASH, address) if address and not address.twos else None
        return self._array(event, function) if function in self._DATA else None

    def _stored(self, store: Store) -> tuple[Severity, Value] | None:
        address, dtype = address_in(store.value), store.target.dtype
        if store.target.kind is not Kind.NUMPY or address is None or address.twos:
            return None
        if dtype in naming.FLOATING:
            return Severity.CORRUPTION, address
        return (Severity.CRASH, address) if dtype in naming.SIGNED | naming.NARROW else None

    def _array(self, call: Call, function: str) -> tuple[Severity, Value] | None:
        data = call.argument(self._DATA[function], "fill_value" if function == "full" else "object")
        address = address_in(data)
        if address is None or address.twos:
            return None
        given, dtype = arrays.dtype_argument(call, self._DTYPE[function])
        if not given or dtype in naming.FLOATING:
            return Severity.CORRUPTION, address
        if dtype not in naming.SIGNED | naming.NARROW:
            return None
        return Severity.CORRUPTION if function == "full" else Severity.CRASH, address


class SignedArithmetic(Rule):
    """R4: an address is added to signed NumPy integers."""

    id = "R4"
    title = "address added to signed NumPy integers"
    why = "uint64 with int64 is float64, which keeps 53 bits; an int >= 2**63 with int64 overflows (NumPy 1 rounds)"
    mend = "bring both sides to uint64: np.uint64(base) + index.astype(np.uint64) * np.uint64(stride)"

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges ``+`` and ``-``, and NumPy functions that bring their arguments to a common type."""
        if isinstance(event, Arithmetic):
            return self._pair(event.left, event.right) or self._pair(event.right, event.left)
        if (
            isinstance(event, Call)
            and event.method in arrays.MIXING_FUNCTIONS
            and (event.name or "").startswith("numpy.")
        ):
            operands = arrays.mixed_operands(event)
            pairs = (self._pair(one, other) for one in operands for other in operands if one is not other)
            return next((found for found in pairs if found), None)
        return None

    def _pair(self, address: Value, other: Value) -> tuple[Severity, Value] | None:
        if not address.address or address.twos or other.kind is not Kind.NUMPY:
            return None
        if address.kind is Kind.NUMPY:
            lossy = address.dtype == "uint64" and other.dtype in naming.SIGNED | naming.FLOATING
            return (Severity.CORRUPTION, address) if lossy else None
        if address.kind is not Kind.INT:
            return None
        if other.dtype in naming.FLOATING:
            return Severity.CORRUPTION, address
        return (Severity.CRASH, address) if other.dtype in naming.SIGNED | naming.NARROW else None


class FloatConversion(Rule):
    """R7: an address becomes a float."""

    id = "R7"
    title = "address converted to float"
    why = "a float has 53 bits: near 2**63 it can tell apart only every 2048th address, and gives no warning"
    mend = "keep addresses as int or uint64; divide with //"
    _FLOATS: ClassVar = frozenset({"builtins.float", *(f"numpy.{name}" for name in (*naming.FLOATING, "double"))})

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges ``float(address)``, and arrays of addresses cast to a float type."""
        if not isinstance(event, Call):
            return None
        if event.name in self._FLOATS:
            value = event.argument(0)
        elif event.method == "astype" and library.call_result(event) is not None:
            value = event.receiver if (event.argument(0, "dtype") or Value()).dtype in naming.FLOATING else None
        elif event.method in ("float", "double") and not event.arguments and event.receiver.kind is Kind.TORCH:
            value = event.receiver
        else:
            return None
        return (Severity.CORRUPTION, value) if value is not None and value.address else None
