"""Variables that are visible at a point of the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ecbench.pointers.scanner.values import Value, join

if TYPE_CHECKING:
    from ecbench.pointers.scanner.declarations import Declarations, Function


@dataclass(slots=True)
class Scope:
    """The variables of a function, a class body, a comprehension or the module."""

    declarations: Declarations
    function: Function | None = None
    owner: str | None = None
    """The class whose method or body this is."""
    values: dict[str, Value] = field(default_factory=dict)
    outer: Scope | None = None
    shared: set[str] = field(default_factory=set)
    """Names that a ``global`` statement takes from the module."""

    @property
    def qualified_name(self) -> str:
        """The function or class that this is in; empty at module level."""
        return self.function.qualified_name if self.function else self.owner or ""

    def find(self, name: str) -> Value | None:
        """The value of a variable; None where nothing is known of it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        closure = self.function.closure if self.function else {}
        return closure[name] if name in closure else self.declarations.module_value(name)

    def set(self, name: str, value: Value) -> None:
        """Replaces the value of a variable."""
        if name in self.shared:
            self.declarations.learn_shared(name, value)
        else:
            self.values[name] = value

    def update(self, name: str, value: Value) -> None:
        """Replaces the value of a variable in the scope that holds it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                scope.values[name] = value
                return
            scope = scope.outer
        if self.declarations.module_value(name) is None:
            self.values[name] = value
        else:
            self.declarations.learn_shared(name, value)

    def child(self) -> Scope:
        """A scope within this one."""
        return Scope(self.declarations, self.function, self.owner, {}, self)

    def visible(self) -> dict[str, Value]:
        """All variables of this scope and the enclosing ones."""
        inherited = self.outer.visible() if self.outer else dict(self.function.closure) if self.function else {}
        return inherited | self.values

    def merge(self, branches: list[dict[str, Value]]) -> None:
        """Continues after branches with what holds on any of them."""
        if not branches:
            return
        merged = dict(branches[0])
        for branch in branches[1:]:
            for name, value in branch.items():
                known = merged.get(name)
                if known is not value:
                    merged[name] = value if known is None else join(known, value)
        self.values = merged
