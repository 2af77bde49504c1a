"""Names that a module imports, resolved to full dotted names without importing anything."""

from __future__ import annotations

import ast

from ecbench.pointers.scanner.statements import all_statements

_USUAL_ALIASES = {"np": "numpy", "numpy": "numpy", "torch": "torch", "struct": "struct", "ctypes": "ctypes"}
"""Names that mean the same nearly everywhere, for sources that import them inside ``if`` or ``try``."""


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Maps each imported name, wherever it is imported in the file, to its full dotted name."""
    names = dict(_USUAL_ALIASES)
    for node in all_statements(tree):
        if isinstance(node, ast.Import):
            names.update(_plain(node))
        elif isinstance(node, ast.ImportFrom):
            names.update(_from(node))
    return names


def _plain(node: ast.Import) -> dict[str, str]:
    return {
        alias.asname or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0]
        for alias in node.names
    }


def _from(node: ast.ImportFrom) -> dict[str, str]:
    module = "." * node.level + (node.module or "")
    return {alias.asname or alias.name: f"{module}.{alias.name}".lstrip(".") for alias in node.names}
