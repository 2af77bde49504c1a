"""Rules about addresses that leave Python: custom operators and bytes."""

from __future__ import annotations

from typing import ClassVar

from ecbench.core.scan_records import Severity
from ecbench.pointers.scanner.events import Call, Event, address_in
from ecbench.pointers.scanner.rules.base import Rule
from ecbench.pointers.scanner.struct_codes import signed_arguments
from ecbench.pointers.scanner.values import Value


class CustomOperator(Rule):
    """R6: an address is an integer argument of a custom operator."""

    id = "R6"
    title = "address passed to a custom operator"
    why = "an int in an operator's schema is a signed 64-bit number; torch refuses an int >= 2**63"
    mend = "pass the tensor itself, or the two's complement: address - 2**64 where address >= 2**63"
    _MODULES: ClassVar = ("_custom_ops", "custom_ops")
    _LOADERS: ClassVar = frozenset({"load_library", "import_module"})

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges calls under ``torch.ops`` and of modules that wrap it by the usual name."""
        if not isinstance(event, Call) or not self._is_operator(event.name or ""):
            return None
        addresses = (address_in(argument) for argument in event.all_arguments())
        raw = [address for address in addresses if address is not None and not address.twos]
        device = [address for address in raw if not address.host]
        return (Severity.CRASH, (device or raw)[0]) if raw else None

    def _is_operator(self, name: str) -> bool:
        module, _, function = name.rpartition(".")
        if name.startswith("torch.ops."):
            return function not in self._LOADERS
        return module.rpartition(".")[2] in self._MODULES


class SignedBytes(Rule):
    """R8: an address is packed as a signed number."""

    id = "R8"
    title = "address packed as a signed number"
    why = "signed formats refuse numbers >= 2**63, and signed ctypes integers wrap them without a word"
    mend = "use struct code 'Q', array code 'Q', signed=False, ctypes.c_uint64 or ctypes.c_void_p"
    _WRAPPING: ClassVar = frozenset({"c_int64", "c_long", "c_longlong", "c_ssize_t", "c_int32", "c_int"})

    def judge(self, event: Event) -> tuple[Severity, Value] | None:
        """Judges ``struct``, ``array``, ``int.to_bytes`` and the integers of ``ctypes``."""
        if not isinstance(event, Call):
            return None
        packed, severity = self._packed(event)
        raw = [address for value in packed if (address := address_in(value)) is not None and not address.twos]
        return (severity, raw[0]) if raw else None

    def _packed(self, call: Call) -> tuple[list[Value], Severity]:
        module, _, function = (call.name or "").rpartition(".")
        if module == "struct" and function in ("pack", "pack_into"):
            return signed_arguments(call), Severity.CRASH
        if call.name == "array.array" and _text(call.argument(0)) in ("q", "l", "i", "h"):
            return [call.argument(1) or Value()], Severity.CRASH
        if module == "ctypes" and function in self._WRAPPING:
            return list(call.arguments), Severity.CORRUPTION
        if call.method == "to_bytes" and _is_true(call, "signed"):
            return [call.receiver], Severity.CRASH
        return [], Severity.CRASH


def _text(value: Value | None) -> str | None:
    return value.name.strip("'\"") if value is not None and value.name else None


def _is_true(call: Call, keyword: str) -> bool:
    return any(entry.arg == keyword and getattr(entry.value, "value", None) is True for entry in call.node.keywords)
