"""Follows addresses through one file: names, containers, attributes of ``self``, and calls within the file."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from ecbench.pointers.scanner.declarations import MODULE, Declarations, Function, FunctionNode
from ecbench.pointers.scanner.events import Observer, Store
from ecbench.pointers.scanner.expressions import Evaluator
from ecbench.pointers.scanner.scope import Scope
from ecbench.pointers.scanner.values import (
    NOTHING,
    Kind,
    Value,
    element_of,
    join,
    join_all,
    mapping_of,
    sequence_of,
    without_address,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_WALKS = 8
"""Walks over one function until what is known of it no longer changes; longer call chains than this are cut."""
_LOOP_ROUNDS = 2
"""A second round over a loop sees what the first one left in its variables."""
_ADDING_METHODS = frozenset({"append", "add", "appendleft", "insert"})
_EXTENDING_METHODS = frozenset({"extend", "update", "extendleft"})


def follow_addresses(tree: ast.Module, observer: Observer) -> None:
    """Analyses a module until nothing new is learnt, and tells an observer of every event.

    Args:
        tree: The parsed module.
        observer: Told of calls, stores, additions and iterations, with what is known of their operands.
    """
    declarations = Declarations(tree)
    walker = _Walker(declarations, observer)
    walks: Counter[str] = Counter()
    waiting = [MODULE, *declarations.functions]
    while waiting:
        for name in waiting:
            declarations.outdated.discard(name)
            declarations.current = name
            observer.start(name)
            walker.walk(tree, name)
            walks[name] += 1
        waiting = [name for name in (MODULE, *declarations.functions) if name in declarations.outdated]
        waiting = [name for name in waiting if walks[name] < MAX_WALKS]


class _Walker:
    """Walks over the statements of a file."""

    def __init__(self, declarations: Declarations, observer: Observer | None) -> None:
        self._declarations = declarations
        self._evaluator = Evaluator(declarations, observer)
        self._handlers: dict[type[ast.stmt], Callable[..., bool]] = {
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated_assign,
            ast.AugAssign: self._augmented_assign,
            ast.Expr: self._expression,
            ast.Return: self._return,
            ast.If: self._if,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Try: self._try,
            ast.TryStar: self._try,
            ast.Match: self._match,
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.Global: self._global,
            ast.Raise: self._leave,
            ast.Break: self._leave,
            ast.Continue: self._leave,
        }

    def walk(self, tree: ast.Module, name: str) -> None:
        """Walks a function, or the code outside functions."""
        if name != MODULE:
            self._walk_function(self._declarations.functions[name])
            return
        scope = Scope(self._declarations)
        self._block(tree.body, scope)
        self._declarations.learn_module(scope.values)

    def _walk_function(self, function: Function) -> None:
        self.walk_body(function, function.entry_values())
        own = function.returns
        if any(value.address for value in function.arguments.values()):
            own = self._trial_result(function)
        self._declarations.learn_own_return(function, own)

    def _trial_result(self, function: Function) -> Value:
        """What a function returns to callers that pass no address: it must not carry one from call to call."""
        kept = dict(function.arguments)
        function.arguments = {name: without_address(value) for name, value in kept.items()}
        with self._declarations.trial() as returned:
            _Walker(self._declarations, None).walk_body(function, function.entry_values())
        function.arguments = kept
        return join_all(returned)

    def walk_body(self, function: Function, values: dict[str, Value]) -> None:
        """Walks a function's body with these parameters."""
        scope = Scope(self._declarations, function, function.owner, values)
        parameters = function.parameters()
        if function.owner and parameters and not function.decorated_with("staticmethod"):
            own = Value(name=f"class:{function.owner}") if function.decorated_with("classmethod") else None
            scope.set(parameters[0], own or Value(owner=function.owner))
        self._block(function.node.body, scope)

    def _block(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Walks statements; returns whether control never reaches the end."""
        for statement in body:
            handler = self._handlers.get(type(statement))
            if handler is None:
                self._other(statement, scope)
            elif handler(statement, scope):
                return True
        return False

    def _other(self, statement: ast.stmt, scope: Scope) -> None:
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                self._evaluator.evaluate(child, scope)

    def _leave(self, statement: ast.stmt, scope: Scope) -> bool:
        self._other(statement, scope)
        return True

    def _global(self, node: ast.Global, scope: Scope) -> bool:
        scope.shared.update(node.names)
        return False

    def _assign(self, node: ast.Assign, scope: Scope) -> bool:
        value = self._evaluator.evaluate(node.value, scope)
        for target in node.targets:
            self._store(node, target, value, scope)
        return False

    def _annotated_assign(self, node: ast.AnnAssign, scope: Scope) -> bool:
        value = self._evaluator.evaluate(node.value, scope) if node.value is not None else NOTHING
        if value.kind is Kind.UNKNOWN and not value.address:
            value = join(value, self._declarations.annotated(node.annotation))
        self._store(node, node.target, value, scope)
        return False

    def _augmented_assign(self, node: ast.AugAssign, scope: Scope) -> bool:
        before = self._evaluator.evaluate(node.target, scope)
        added = self._evaluator.evaluate(node.value, scope)
        after = self._evaluator.combine(node, node.op, before, added, scope)
        self._store(node, node.target, after, scope)
        return False

    def _store(self, node: ast.stmt, target: ast.expr, value: Value, scope: Scope) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            exact = len(value.items) == len(target.elts)
            for position, part in enumerate(target.elts):
                self._store(node, part, value.items[position] if exact else element_of(value), scope)
        elif isinstance(target, ast.Attribute):
            self._store_attribute(target, value, scope)
        elif isinstance(target, ast.Subscript):
            self._store_element(node, target, value, scope)
        else:
            self._evaluator.assign(target, value, scope)

    def _store_attribute(self, target: ast.Attribute, value: Value, scope: Scope) -> None:
        owner = self._evaluator.evaluate(target.value, scope).owner
        if owner in self._declarations.classes:
            self._declarations.learn_attribute(owner, target.attr, replace(value, number=None))

    def _store_element(self, node: ast.stmt, target: ast.Subscript, value: Value, scope: Scope) -> None:
        container = self._evaluator.evaluate(target.value, scope)
        self._evaluator.evaluate(target.slice, scope)
        self._evaluator.tell(Store(node, container, value), scope)
        held = element_of(value) if isinstance(target.slice, ast.Slice) else value
        self._put_into(target.value, container, held, scope)

    def _put_into(self, place: ast.expr, container: Value, value: Value, scope: Scope) -> None:
        """Remembers that a container now also holds a value."""
        if not value.address and container.kind not in (Kind.SEQUENCE, Kind.MAPPING):
            return
        if container.kind is Kind.SEQUENCE:
            after = sequence_of(join(element_of(container), value))
        elif container.kind is Kind.MAPPING:
            after = mapping_of(join(element_of(container), value))
        elif container.kind in (Kind.NUMPY, Kind.TORCH):
            after = replace(container, address=True, twos=value.twos, host=value.host)
        else:
            return
        self._replace(place, after, scope)

    def _replace(self, place: ast.expr, value: Value, scope: Scope) -> None:
        if isinstance(place, ast.Name):
            scope.update(place.id, value)
        elif isinstance(place, ast.Attribute):
            self._store_attribute(place, value, scope)
        elif isinstance(place, ast.Subscript):
            self._put_into(place.value, self._evaluator.evaluate(place.value, scope), value, scope)

    def _expression(self, node: ast.Expr, scope: Scope) -> bool:
        self._evaluator.evaluate(node.value, scope)
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            self._adding_call(node.value, node.value.func, scope)
        return False

    def _adding_call(self, call: ast.Call, method: ast.Attribute, scope: Scope) -> None:
        if not call.args or method.attr not in _ADDING_METHODS | _EXTENDING_METHODS:
            return
        quiet = Evaluator(self._declarations, None)
        container, added = quiet.evaluate(method.value, scope), quiet.evaluate(call.args[-1], scope)
        if container.kind is Kind.UNKNOWN and container.owner is None and method.attr == "append":
            container = replace(container, kind=Kind.SEQUENCE)
        value = element_of(added) if method.attr in _EXTENDING_METHODS else added
        self._put_into(method.value, container, value, scope)

    def _return(self, node: ast.Return, scope: Scope) -> bool:
        value = self._evaluator.evaluate(node.value, scope) if node.value is not None else NOTHING
        if scope.function is not None:
            self._declarations.learn_return(scope.function, value)
        return True

    def _if(self, node: ast.If, scope: Scope) -> bool:
        self._evaluator.evaluate(node.test, scope)
        return self._branches([node.body, node.orelse], scope)

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]], scope: Scope) -> bool:
        before, open_ends = dict(scope.values), []
        for body in bodies:
            scope.values = dict(before)
            if not self._block(body, scope):
                open_ends.append(scope.values)
        scope.merge(open_ends)
        return not open_ends

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> bool:
        before = dict(scope.values)
        for _ in range(_LOOP_ROUNDS):
            iterable = self._evaluator.evaluate(node.iter, scope)
            self._evaluator.loop_over(node.iter, node.target, node.body, iterable, scope)
            self._block(node.body, scope)
            scope.merge([before, scope.values])
        self._block(node.orelse, scope)
        return False

    def _while(self, node: ast.While, scope: Scope) -> bool:
        before = dict(scope.values)
        for _ in range(_LOOP_ROUNDS):
            self._evaluator.evaluate(node.test, scope)
            self._block(node.body, scope)
            scope.merge([before, scope.values])
        self._block(node.orelse, scope)
        return False

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
        for item in node.items:
            value = self._evaluator.evaluate(item.context_expr, scope)
            if item.optional_vars is not None:
                self._store(node, item.optional_vars, value, scope)
        return self._block(node.body, scope)

    def _try(self, node: ast.Try | ast.TryStar, scope: Scope) -> bool:
        ended = self._block([*node.body, *node.orelse], scope)
        open_ends = [] if ended else [dict(scope.values)]
        during = dict(scope.values)
        for handler in node.handlers:
            scope.values = dict(during)
            if not self._block(handler.body, scope):
                open_ends.append(scope.values)
        scope.merge(open_ends or [during])
        return self._block(node.finalbody, scope) or not open_ends

    def _match(self, node: ast.Match, scope: Scope) -> bool:
        self._evaluator.evaluate(node.subject, scope)
        self._branches([[], *(case.body for case in node.cases)], scope)
        return False

    def _function(self, node: FunctionNode, scope: Scope) -> bool:
        for default in (*node.args.defaults, *(entry for entry in node.args.kw_defaults if entry is not None)):
            self._evaluator.evaluate(default, scope)
        if scope.function is not None:
            name = f"{scope.function.qualified_name}.{node.name}"
            if name in self._declarations.functions:
                self._declarations.learn_closure(self._declarations.functions[name], scope.visible())
                scope.set(node.name, Value(name=f"def:{name}"))
        return False

    def _class(self, node: ast.ClassDef, scope: Scope) -> bool:
        inner = Scope(self._declarations, None, node.name)
        self._block(node.body, inner)
        for name, value in inner.values.items():
            if node.name in self._declarations.classes and value != NOTHING:
                self._declarations.learn_attribute(node.name, name, value)
        del scope
        return False
