"""Walks the statements of a source without descending into expressions, which are most of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def child_statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements, handlers and cases directly within a node."""
    for block in _BLOCKS:
        children = getattr(node, block, ())
        if isinstance(children, list):
            yield from children


def all_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements within a tree, at any depth."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child_statements(node))
