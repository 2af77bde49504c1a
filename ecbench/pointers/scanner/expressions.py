"""Evaluates expressions to abstract values and tells an observer what happens in them."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from ecbench.pointers.scanner import naming
from ecbench.pointers.scanner.arithmetic import operate
from ecbench.pointers.scanner.attributes import Attributes, named
from ecbench.pointers.scanner.calls import Caller, resolved_call
from ecbench.pointers.scanner.events import Arithmetic, Call, Event, Iteration, Observer
from ecbench.pointers.scanner.values import (
    LAMBDA,
    NOTHING,
    Kind,
    Value,
    element_of,
    integer,
    join,
    join_all,
    mapping_of,
    sequence,
    sequence_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.pointers.scanner.declarations import Declarations
    from ecbench.pointers.scanner.scope import Scope


class Evaluator:
    """Evaluates the expressions of one file.

    Args:
        declarations: Functions and classes of the file.
        observer: Told of every event; None where nobody listens.
    """

    def __init__(self, declarations: Declarations, observer: Observer | None) -> None:
        self._declarations = declarations
        self._observer = observer
        self._caller = Caller(declarations)
        self._attributes = Attributes(declarations)
        self._handlers: dict[type[ast.expr], Callable[..., Value]] = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Constant: self._constant,
            ast.Call: self._call,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._boolean,
            ast.IfExp: self._conditional,
            ast.Subscript: self._subscript,
            ast.List: self._display,
            ast.Tuple: self._display,
            ast.Set: self._display,
            ast.Dict: self._mapping,
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.DictComp: self._mapping_comprehension,
            ast.NamedExpr: self._walrus,
            ast.Starred: self._starred,
            ast.Await: self._inner,
            ast.Lambda: self._lambda,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield,
        }

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        """The abstract value of an expression."""
        handler = self._handlers.get(type(node))
        if handler is not None:
            return handler(node, scope)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child, scope)
        return NOTHING

    def tell(self, event: Event, scope: Scope) -> None:
        """Passes an event on to the observer."""
        if self._observer is not None:
            self._observer.observe(event, scope.qualified_name)

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Binds a loop or assignment target that is a name, or names within tuples."""
        if isinstance(target, ast.Name):
            scope.set(target.id, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, sequence_of(element_of(value)), scope)
        elif isinstance(target, ast.Tuple | ast.List):
            exact = len(value.items) == len(target.elts)
            for position, part in enumerate(target.elts):
                self.assign(part, value.items[position] if exact else element_of(value), scope)

    def _name(self, node: ast.Name, scope: Scope) -> Value:
        value = scope.find(node.id)
        if value is None:
            value = self._global(node.id)
        if not value.address and not value.host and naming.names_host_memory(node.id):
            return replace(value, host=True)
        return value

    def _global(self, name: str) -> Value:
        if name in self._declarations.classes:
            return Value(name=f"class:{name}")
        if name in self._declarations.functions:
            return Value(name=f"def:{name}")
        imported = self._declarations.names.get(name)
        return named(imported) if imported else named(f"builtins.{name}")

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        return self._attribute_of(node, self.evaluate(node.value, scope))

    def _attribute_of(self, node: ast.Attribute, receiver: Value) -> Value:
        known = self._attributes.find(node, receiver)
        host = naming.names_host_memory(node.attr)
        host = host or (receiver.host and naming.names_host_memory("host", node.attr))
        return replace(known, host=True) if host and not known.address else known

    def _constant(self, node: ast.Constant, scope: Scope) -> Value:
        del scope
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            return integer(node.value)
        if isinstance(node.value, str):
            dtype = naming.dtype_of_name(node.value) if node.value else None
            return Value(dtype=dtype, name=repr(node.value))
        return NOTHING

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        receiver = NOTHING
        if isinstance(node.func, ast.Attribute):
            receiver = self.evaluate(node.func.value, scope)
            function = self._attribute_of(node.func, receiver)
        else:
            function = self.evaluate(node.func, scope)
        call = self._bound_call(node, function, receiver, scope)
        self.tell(call, scope)
        return resolved_call(self._caller, call, function, scope)

    def _bound_call(self, node: ast.Call, function: Value, receiver: Value, scope: Scope) -> Call:
        arguments: list[Value] = []
        for argument in node.args:
            value = self.evaluate(argument, scope)
            starred = isinstance(argument, ast.Starred)
            arguments.extend(value.items or (element_of(value),) if starred else (value,))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, scope)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            else:
                keywords.update(value.fields or {"**": value})
        method = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if method is None and isinstance(node.func, ast.Name):
            method = node.func.id
        return Call(node, function.name, method, receiver, tuple(arguments), keywords)

    def _binary(self, node: ast.BinOp, scope: Scope) -> Value:
        left, right = self.evaluate(node.left, scope), self.evaluate(node.right, scope)
        return self.combine(node, node.op, left, right, scope)

    def combine(
        self, node: ast.expr | ast.stmt, operation: ast.operator, left: Value, right: Value, scope: Scope
    ) -> Value:
        """The value of an operator; tells of additions and subtractions."""
        if isinstance(operation, ast.Add | ast.Sub) and (left.address or right.address):
            self.tell(Arithmetic(node, left, right), scope)
        if isinstance(operation, ast.BitAnd) and not (left.number or right.number) and _names_64_bits(node):
            return left if left.address else right
        return operate(operation, left, right)

    def _unary(self, node: ast.UnaryOp, scope: Scope) -> Value:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.USub) and value.number is not None:
            return integer(-value.number)
        return replace(value, address=False, twos=False, name=None, number=None)

    def _boolean(self, node: ast.BoolOp, scope: Scope) -> Value:
        return join_all(self.evaluate(value, scope) for value in node.values)

    def _conditional(self, node: ast.IfExp, scope: Scope) -> Value:
        self.evaluate(node.test, scope)
        return join(self.evaluate(node.body, scope), self.evaluate(node.orelse, scope))

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        value, index = self.evaluate(node.value, scope), self.evaluate(node.slice, scope)
        if isinstance(node.slice, ast.Slice) or value.kind in (Kind.NUMPY, Kind.TORCH):
            return replace(value, items=(), element=element_of(value) if value.items else value.element)
        if value.items and index.number is not None and -len(value.items) <= index.number < len(value.items):
            return value.items[index.number]
        if value.fields and index.name is not None:
            return dict(value.fields).get(index.name.strip("'\""), element_of(value))
        return element_of(value)

    def _display(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Value:
        if any(isinstance(part, ast.Starred) for part in node.elts):
            return sequence_of(join_all(self._unpacked(part, scope) for part in node.elts))
        return sequence([self.evaluate(part, scope) for part in node.elts])

    def _unpacked(self, part: ast.expr, scope: Scope) -> Value:
        value = self.evaluate(part, scope)
        return element_of(value) if isinstance(part, ast.Starred) else value

    def _mapping(self, node: ast.Dict, scope: Scope) -> Value:
        entries = [(key, self.evaluate(value, scope)) for key, value in zip(node.keys, node.values, strict=True)]
        for key, _ in entries:
            if key is not None:
                self.evaluate(key, scope)
        values = [element_of(value) if key is None else value for key, value in entries]
        literal = [(key.value, value) for key, value in entries if isinstance(key, ast.Constant)]
        fields = tuple((str(name), value) for name, value in literal) if len(literal) == len(entries) else ()
        return mapping_of(join_all(values), fields)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope) -> Value:
        inner = scope.child()
        self._generators(node.generators, [node.elt], inner)
        return sequence_of(self.evaluate(node.elt, inner))

    def _mapping_comprehension(self, node: ast.DictComp, scope: Scope) -> Value:
        inner = scope.child()
        self._generators(node.generators, [node.key, node.value], inner)
        self.evaluate(node.key, inner)
        return mapping_of(self.evaluate(node.value, inner))

    def _generators(self, generators: list[ast.comprehension], results: list[ast.expr], scope: Scope) -> None:
        for generator in generators:
            iterable = self.evaluate(generator.iter, scope)
            self.loop_over(generator.iter, generator.target, [*results, *generator.ifs], iterable, scope)
            for condition in generator.ifs:
                self.evaluate(condition, scope)

    def loop_over(
        self, node: ast.expr, target: ast.expr, body: list[ast.expr] | list[ast.stmt], iterable: Value, scope: Scope
    ) -> None:
        """Binds the target of a loop or comprehension and tells of the iteration."""
        if iterable.kind is Kind.TORCH and not _only_reads_items(target, body):
            self.tell(Iteration(node, iterable), scope)
        self.assign(target, element_of(iterable), scope)

    def _walrus(self, node: ast.NamedExpr, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        holder = scope
        while holder.outer is not None:
            holder = holder.outer
        holder.set(node.target.id, value)
        return value

    def _starred(self, node: ast.Starred, scope: Scope) -> Value:
        return self.evaluate(node.value, scope)

    def _inner(self, node: ast.Await, scope: Scope) -> Value:
        return self.evaluate(node.value, scope)

    def _lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        inner = scope.child()
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner.set(argument.arg, NOTHING)
        return Value(name=LAMBDA, element=self.evaluate(node.body, inner))

    def _yield(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> Value:
        if node.value is None:
            return NOTHING
        value = self.evaluate(node.value, scope)
        if scope.function is not None:
            produced = value if isinstance(node, ast.Yield) else element_of(value)
            self._declarations.learn_return(scope.function, sequence_of(produced))
        return NOTHING


def _names_64_bits(node: ast.AST) -> bool:
    parts = list(ast.walk(node))
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    names += [part.attr for part in parts if isinstance(part, ast.Attribute)]
    return any("64" in name for name in names)


def _only_reads_items(target: ast.expr, body: list[ast.expr] | list[ast.stmt]) -> bool:
    """Whether the loop variable is used as ``x.item()`` only, which is exact for every address."""
    if not isinstance(target, ast.Name):
        return False
    uses = reads = 0
    for node in (part for entry in body for part in ast.walk(entry)):
        uses += isinstance(node, ast.Name) and node.id == target.id
        reads += isinstance(node, ast.Attribute) and node.attr == "item" and ast.unparse(node.value) == target.id
    return uses > 0 and uses == reads
