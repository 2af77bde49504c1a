"""Turns the judgements of the rules over one parsed file into findings."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from ecbench.core.scan_records import Finding, Severity
from ecbench.pointers.scanner.events import concerns_addresses
from ecbench.pointers.scanner.rules import RULES
from ecbench.pointers.scanner.taint import follow_addresses

if TYPE_CHECKING:
    from ecbench.pointers.scanner.events import Event
    from ecbench.pointers.scanner.rules.base import Rule
    from ecbench.pointers.scanner.values import Value

MAX_EXPRESSION_CHARACTERS = 160
"""Longer expressions are cut in findings; the identity is made of the whole."""


class Collector:
    """Runs every rule over the events of a file and keeps what they say.

    Args:
        tree: The parsed file.
        path: The file's path as it is shown.
        platform_folder: A folder above it that binds it to a platform; None where there is none.
    """

    def __init__(self, tree: ast.Module, path: str, platform_folder: str | None) -> None:
        self._tree = tree
        self._path = path
        self._folder = platform_folder
        self._walked = ""
        self._found: dict[str, dict[tuple[str, ast.AST], Finding]] = {}

    def start(self, function: str) -> None:
        """Forgets what an earlier walk over a function found, because it knew less."""
        self._walked = function
        self._found[function] = {}

    def observe(self, event: Event, qualified_name: str) -> None:
        """Judges one event; a later judgement of the same site, which knows more, replaces an earlier one."""
        if not concerns_addresses(event):
            return
        for rule in RULES:
            judged = rule.judge(event)
            if judged is not None:
                severity, address = judged
                self._found[self._walked][rule.id, event.node] = self._finding(
                    rule, severity, address, event, qualified_name
                )

    def findings(self) -> list[Finding]:
        """All findings, in the order of the source."""
        found = (finding for walk in self._found.values() for finding in walk.values())
        return sorted(found, key=lambda finding: (finding.line, finding.column, finding.rule))

    def _finding(self, rule: Rule, severity: Severity, address: Value, event: Event, qualified_name: str) -> Finding:
        note = self._lowered_because(address)
        site = self._site(event.node)
        return Finding(
            rule=rule.id,
            severity=Severity.LATENT if note else severity,
            path=self._path,
            line=site.lineno,
            column=site.col_offset + 1,
            end_line=event.node.end_lineno or site.lineno,
            expression=ast.unparse(event.node),
            why=rule.why,
            mend=rule.mend,
            qualified_name=qualified_name,
            note=note,
        )

    def _lowered_because(self, address: Value) -> str | None:
        if self._folder is not None:
            return f"in the platform-bound folder {self._folder!r}"
        return "the address is of host memory" if address.host and address.address else None

    def _site(self, node: ast.expr | ast.stmt) -> ast.expr | ast.stmt:
        """The statement, where the node is all that the statement stores or returns; else the node."""
        inner: ast.AST = node
        while isinstance(parent := self._parents.get(inner), ast.BinOp):
            inner = parent
        is_value = isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return) and parent.value is inner
        return parent if is_value and isinstance(parent, ast.stmt) else node

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: parent for parent in ast.walk(self._tree) for child in ast.iter_child_nodes(parent)}


def find_in(tree: ast.Module, path: str, platform_folder: str | None) -> list[Finding]:
    """All findings in a parsed file.

    Args:
        tree: The file.
        path: Its path as findings show it.
        platform_folder: A folder above it that binds it to a platform; None where there is none.

    Returns:
        The findings in the order of the source, without identities.
    """
    collector = Collector(tree, path, platform_folder)
    follow_addresses(tree, collector)
    return collector.findings()


def shortened(expression: str) -> str:
    """An expression on one line and of bounded length."""
    text = " ".join(expression.encode("utf-8", "backslashreplace").decode().split())
    if len(text) <= MAX_EXPRESSION_CHARACTERS:
        return text
    return text[: MAX_EXPRESSION_CHARACTERS - 1] + "…"
