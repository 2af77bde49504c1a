"""Explicit tables of things that are imported only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ecbench.core.errors import unknown_name


def load_registered(kind: str, name: str, table: dict[str, str]) -> Any:
    """Imports what a table names.

    Args:
        kind: What is looked up, for the error message.
        name: Key of the table.
        table: ``"module:attribute"`` by name.

    Returns:
        The attribute.

    Raises:
        EcbenchError: The table has no such name; the message lists the choices.
    """
    if name not in table:
        raise unknown_name(kind, name, tuple(table))
    module, attribute = table[name].split(":")
    return getattr(import_module(module), attribute)
