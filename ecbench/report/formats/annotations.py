"""Checks that did not pass as workflow commands of GitHub Actions, which shows them beside the change and its run.

The runner reads both output streams of a step, so they go to stderr and leave stdout to the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ecbench.report.checks import CheckLine, Outcome
from ecbench.report.kinds import checks_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ecbench.report.kinds import AnyResult

MOST_PER_LEVEL = 10
"""GitHub shows so many errors and as many warnings of a step, and drops the others without a word."""
_LEVELS = {Outcome.FAILED: "error", Outcome.ERROR: "error", Outcome.INCONCLUSIVE: "warning", Outcome.LATENT: "notice"}
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


def workflow_commands(result: AnyResult, root: Path | None) -> list[str]:
    """Workflow commands for what failed, what is inconclusive and what is latent, the worst first.

    Args:
        result: Of any kind.
        root: Where the repository is checked out; files are named as seen from there.
    """
    lines = checks_of(result)
    commands: list[str] = []
    for level in dict.fromkeys(_LEVELS.values()):
        found = [line for line in lines if _LEVELS.get(line.outcome) == level]
        commands += _of_one_level(level, found, result.kind, root)
    return commands


def _of_one_level(level: str, lines: Sequence[CheckLine], kind: str, root: Path | None) -> list[str]:
    shown = lines if len(lines) <= MOST_PER_LEVEL else lines[: MOST_PER_LEVEL - 1]
    commands = [_command(level, line, kind, root) for line in shown]
    if len(lines) > len(shown):
        more = f"{len(lines) - len(shown)} more are in the report"
        commands.append(f"::{level} title={_escaped(f'ecbench {kind}', _PROPERTY)}::{more}")
    return commands


def _command(level: str, line: CheckLine, kind: str, root: Path | None) -> str:
    where = f"{line.group} {line.name}" if line.path is None else line.name
    properties = {"title": f"ecbench {kind}: {where}"}
    if line.path is not None:
        place = {"file": _from_workspace(line.path, root), "line": line.line, "col": line.column}
        properties |= {name: str(value) for name, value in place.items() if value is not None}
    named = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    return f"::{level} {named}::{_escaped(line.message or line.label, _DATA)}"


def _from_workspace(path: str, root: Path | None) -> str:
    """The path as GitHub knows it: seen from the repository's root."""
    absolute = Path(path).absolute()
    return absolute.relative_to(root).as_posix() if root is not None and absolute.is_relative_to(root) else path


def _escaped(text: str, table: Mapping[int, str]) -> str:
    return text.translate(table)
