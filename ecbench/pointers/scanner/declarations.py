"""The functions and classes of one file, and what is known of their parameters, results and attributes so far."""

from __future__ import annotations

import ast
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ecbench.pointers.scanner import naming
from ecbench.pointers.scanner.annotations import annotated_value
from ecbench.pointers.scanner.imports import imported_names
from ecbench.pointers.scanner.statements import all_statements, child_statements
from ecbench.pointers.scanner.values import NOTHING, Kind, Value, join, join_all

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = ""
"""Name of the code outside functions."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Function:
    """A function or method of the file."""

    node: FunctionNode
    qualified_name: str
    owner: str | None
    """The class it is a method of."""
    declared: dict[str, Value]
    """What annotations and names say of the parameters."""
    arguments: dict[str, Value] = field(default_factory=dict)
    """What calls in the file pass."""
    returns: Value = NOTHING
    own_returns: Value = NOTHING
    """What it returns where no argument holds an address."""
    closure: dict[str, Value] = field(default_factory=dict)
    """Variables of the enclosing function."""

    def decorated_with(self, *names: str) -> bool:
        """Whether a decorator of one of these names is on it."""
        return any(_last_identifier(decorator) in names for decorator in self.node.decorator_list)

    def parameters(self) -> list[str]:
        """Names of the positional parameters."""
        arguments = self.node.args
        return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]

    def entry_values(self) -> dict[str, Value]:
        """What is known of every parameter when the body starts."""
        return {name: _refine(value, self.arguments.get(name, NOTHING)) for name, value in self.declared.items()}


@dataclass(slots=True)
class Class:
    """A class of the file."""

    name: str
    bases: tuple[str, ...]
    fields: tuple[str, ...]
    """Annotated names of the class body: the constructor's parameters of a dataclass or named tuple."""
    declared: dict[str, Value]
    attributes: dict[str, Value] = field(default_factory=dict)


class Declarations:
    """All functions and classes of a file, and which functions must be walked again after something was learnt.

    Args:
        tree: The file.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.names = imported_names(tree)
        self.functions: dict[str, Function] = {}
        self._methods: dict[tuple[str, str], Function] = {}
        self.classes: dict[str, Class] = {}
        self._module_values: dict[str, Value] = {}
        self._shared_values: dict[str, Value] = {}
        self.current = MODULE
        """The function that is being walked."""
        self.outdated: set[str] = set()
        """Functions that were walked with less than is known now."""
        self._trial: list[Value] | None = None
        self._readers: dict[str, set[str]] = defaultdict(set)
        self._collect_classes(tree)
        self._collect_functions(tree, "", None)

    def _collect_classes(self, tree: ast.Module) -> None:
        nodes = [node for node in all_statements(tree) if isinstance(node, ast.ClassDef)]
        for node in nodes:
            bases = tuple(name for base in node.bases if (name := _last_identifier(base)))
            self.classes[node.name] = Class(node.name, bases, (), {})
        for node in nodes:
            declared = {name: self.annotated(annotation) for name, annotation in _annotated_fields(node)}
            self.classes[node.name].fields = tuple(declared)
            self.classes[node.name].declared = declared

    def _collect_functions(self, node: ast.AST, prefix: str, owner: str | None) -> None:
        for child in child_statements(node):
            if isinstance(child, FunctionNode):
                name = f"{prefix}{child.name}"
                function = Function(child, name, owner, self._declared_parameters(child, owner))
                self.functions[name] = function
                if owner is not None:
                    self._methods[owner, child.name] = function
                self._collect_functions(child, f"{name}.", None)
            elif isinstance(child, ast.ClassDef):
                self._collect_functions(child, f"{prefix}{child.name}.", child.name)
            else:
                self._collect_functions(child, prefix, owner)

    def _declared_parameters(self, node: FunctionNode, owner: str | None) -> dict[str, Value]:
        every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        declared = {argument.arg: self._declared_parameter(argument, node, owner) for argument in every}
        for extra in (node.args.vararg, node.args.kwarg):
            if extra is not None:
                declared[extra.arg] = NOTHING
        return declared

    def _declared_parameter(self, argument: ast.arg, node: FunctionNode, owner: str | None) -> Value:
        value = self.annotated(argument.annotation)
        if value.kind is Kind.INT and naming.names_address(argument.arg):
            host = naming.names_host_memory(node.name, argument.arg, owner or "")
            return replace(value, address=True, host=host)
        return value

    def annotated(self, annotation: ast.expr | None) -> Value:
        """What an annotation says about a value."""
        return annotated_value(annotation, self.classes)

    def lineage(self, name: str) -> Iterator[Class]:
        """A class of the file and its bases in the file, nearest first."""
        waiting, seen = [name], set[str]()
        while waiting:
            current = waiting.pop(0)
            if current in seen or current not in self.classes:
                continue
            seen.add(current)
            yield self.classes[current]
            waiting.extend(self.classes[current].bases)

    def method(self, owner: str, name: str) -> Function | None:
        """The method that a class of the file has or inherits within the file."""
        owners = (entry.name for entry in self.lineage(owner))
        return next((self._methods[found, name] for found in owners if (found, name) in self._methods), None)

    def attribute(self, owner: str, name: str) -> Value | None:
        """What is known of an attribute of instances of a class; None where the class does not mention it."""
        self._readers[f".{name}"].add(self.current)
        known = [entry.attributes[name] for entry in self.lineage(owner) if name in entry.attributes]
        declared = next((entry.declared[name] for entry in self.lineage(owner) if name in entry.declared), None)
        if not known:
            return declared
        seen = NOTHING
        for value in known:
            seen = join(seen, value)
        return seen if declared is None else _refine(declared, seen)

    def result(self, function: Function, *, with_addresses: bool = True) -> Value:
        """What is known of a function's result.

        Args:
            function: The function.
            with_addresses: Whether an argument holds an address.
        """
        self._readers[f"{function.qualified_name}()"].add(self.current)
        return function.returns if with_addresses else function.own_returns

    def learn_attribute(self, owner: str, name: str, value: Value) -> None:
        """Adds a value that an attribute can have."""
        if self._trial is None and _learn(self.classes[owner].attributes, name, value):
            self.outdated |= self._readers[f".{name}"]

    def learn_argument(self, function: Function, name: str, value: Value) -> None:
        """Adds a value that a parameter can have."""
        if self._trial is not None or name not in function.declared:
            return
        if _learn(function.arguments, name, replace(value, number=None)):
            self.outdated.add(function.qualified_name)

    def learn_return(self, function: Function, value: Value) -> None:
        """Adds a value that a function can return."""
        if self._trial is not None:
            self._trial.append(value)
            return
        joined = join(function.returns, value)
        if joined != function.returns:
            function.returns = joined
            self.outdated |= self._readers[f"{function.qualified_name}()"]

    def learn_own_return(self, function: Function, value: Value) -> None:
        """Sets what a function returns where no argument holds an address."""
        if value != function.own_returns:
            function.own_returns = value
            self.outdated |= self._readers[f"{function.qualified_name}()"]

    @contextmanager
    def trial(self) -> Iterator[list[Value]]:
        """Learns nothing for a while; yields the list that return values go to instead."""
        before, self._trial = self._trial, []
        try:
            yield self._trial
        finally:
            self._trial = before

    def learn_closure(self, function: Function, values: dict[str, Value]) -> None:
        """Sets the variables of the enclosing function."""
        if self._trial is None and values != function.closure:
            function.closure = values
            self.outdated.add(function.qualified_name)

    def learn_module(self, values: dict[str, Value]) -> None:
        """Sets the variables of the module."""
        if values != self._module_values:
            self._module_values = values
            self.outdated.update(self.functions)

    def learn_shared(self, name: str, value: Value) -> None:
        """Adds a value that a function gives to a variable of the module."""
        if self._trial is None and _learn(self._shared_values, name, replace(value, number=None)):
            self.outdated |= self._readers[name]

    def module_value(self, name: str) -> Value | None:
        """What is known of a variable of the module; None where it has no such variable."""
        self._readers[name].add(self.current)
        known = [values[name] for values in (self._module_values, self._shared_values) if name in values]
        return join_all(known) if known else None


def _learn(values: dict[str, Value], name: str, value: Value) -> bool:
    before = values.get(name)
    values[name] = value if before is None else join(before, value)
    return values[name] != before


def _refine(declared: Value, seen: Value) -> Value:
    if seen == NOTHING:
        return declared
    address = seen.address or declared.address
    host = seen.host if seen.address else declared.host or seen.host
    if seen.kind is Kind.UNKNOWN:
        return replace(declared, address=address, host=host, twos=seen.twos)
    return replace(seen, address=address, host=host, owner=seen.owner or declared.owner)


def _annotated_fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.annotation


def _last_identifier(node: ast.expr) -> str | None:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
