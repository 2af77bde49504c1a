"""Calls of functions and classes of the same file: arguments go in, return values come out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ecbench.pointers.scanner import library, naming
from ecbench.pointers.scanner.values import ADDRESS, LAMBDA, NOTHING, Kind, Value, element_of, join_all, sequence_of

if TYPE_CHECKING:
    from ecbench.pointers.scanner.declarations import Declarations, Function
    from ecbench.pointers.scanner.events import Call
    from ecbench.pointers.scanner.scope import Scope


class Caller:
    """Binds arguments to the functions and classes of a file.

    Args:
        declarations: Functions and classes of the file.
    """

    def __init__(self, declarations: Declarations) -> None:
        self._declarations = declarations

    def function(self, function: Function, call: Call, bound: bool) -> Value:
        """Calls a function of the file.

        Args:
            function: The function.
            call: The arguments.
            bound: Whether the first parameter is filled by the object it is called on.
        """
        parameters = function.parameters()[1 if bound else 0 :]
        extra = list(call.arguments[len(parameters) :])
        for name, value in zip(parameters, call.arguments, strict=False):
            self._declarations.learn_argument(function, name, value)
        if extra and function.node.args.vararg is not None:
            self._declarations.learn_argument(function, function.node.args.vararg.arg, sequence_of(join_all(extra)))
        for name, value in call.keywords.items():
            self._declarations.learn_argument(function, name, value)
        addresses = any(value.address for value in call.all_arguments())
        return self._declarations.result(function, with_addresses=addresses)

    def constructor(self, name: str, call: Call) -> Value:
        """Creates an instance of a class of the file."""
        initializer = self._declarations.method(name, "__init__")
        if initializer is not None:
            self.function(initializer, call, bound=True)
        else:
            self._fill_fields(name, call)
        return Value(owner=name)

    def _fill_fields(self, name: str, call: Call) -> None:
        lineage = list(self._declarations.lineage(name))
        fields = [field for entry in reversed(lineage) for field in entry.fields]
        for field, value in [*zip(fields, call.arguments, strict=False), *call.keywords.items()]:
            if field in fields:
                self._declarations.learn_attribute(name, field, value)

    def resolve(self, name: str) -> Function | None:
        """The function that a ``def:`` or ``bound:`` name refers to."""
        return self._declarations.functions.get(name.partition(":")[2])

    def base_of(self, owner: str | None) -> Value:
        """What ``super()`` is within a class."""
        bases = list(self._declarations.lineage(owner))[1:] if owner else []
        return Value(owner=bases[0].name) if bases else NOTHING


def resolved_call(caller: Caller, call: Call, function: Value, scope: Scope) -> Value:
    """The value of a call: of the file's own functions and classes, of known libraries, or of nothing known."""
    name = function.name or ""
    if name == "builtins.super":
        return caller.base_of(scope.owner)
    if name == "builtins.getattr":
        return _attribute_by_name(call)
    if name == "builtins.map" and call.arguments:
        elements = tuple(map(element_of, call.arguments[1:]))
        mapped = _own_call(caller, call.arguments[0], replace(call, arguments=elements))
        return sequence_of(join_all(elements) if mapped is None else mapped)
    known = _own_call(caller, function, call)
    if known is None:
        known = library.call_result(call)
    return known if known is not None else _unknown_call(call)


def _own_call(caller: Caller, function: Value, call: Call) -> Value | None:
    """Calls a function or class of the file; None for others."""
    name = function.name or ""
    if name == LAMBDA:
        return function.element
    if name.startswith("class:"):
        return caller.constructor(name.removeprefix("class:"), call)
    if name.startswith(("def:", "bound:")):
        target = caller.resolve(name)
        return caller.function(target, call, bound=name.startswith("bound:")) if target else NOTHING
    return ADDRESS if name.endswith(".Tensor.data_ptr") else None


def _attribute_by_name(call: Call) -> Value:
    receiver, attribute = call.argument(0), call.argument(1)
    if receiver is None or receiver.name is None or attribute is None or attribute.name is None:
        return NOTHING
    return Value(name=f"{receiver.name}.{attribute.name.strip(chr(39))}")


def _unknown_call(call: Call) -> Value:
    """A call into other files: its name may say that it rewrites addresses, or that it is about host memory."""
    called = call.method or ""
    first = call.argument(0)
    if first is not None and first.address and naming.names_twos_complement_helper(called):
        return Value(kind=Kind.INT, address=True, twos=True, host=first.host)
    dtype = call.keywords.get("dtype")
    if dtype is not None and dtype.kind is Kind.DTYPE and (dtype.name or "").startswith("torch."):
        return Value(kind=Kind.TORCH, dtype=dtype.dtype, address=first is not None and first.address)
    if naming.names_data_pointers(called):
        return sequence_of(ADDRESS) if called.endswith("s") else ADDRESS
    return Value(
        host=naming.names_host_memory(
            called,
        )
    )
