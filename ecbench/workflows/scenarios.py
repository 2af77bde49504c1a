"""Scenario files: shipped ones by name, others by path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import ecbench
from ecbench.core.errors import ScenarioError, unknown_name
from ecbench.core.toml import parse_table, read_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_PACKAGE = Path(ecbench.__file__).parent
SUFFIX = ".toml"
SWEEP = "sweep"
"""Workload of the scenarios that are grids, which another command runs."""


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario file that was read and parsed, not yet checked.

    Args:
        name: The file's name without its ending.
        where: The file's path, for messages.
        text: Its text.
        table: The parsed text.
    """

    name: str
    where: str
    text: str
    table: dict[str, object]

    @property
    def workload(self) -> str:
        """What the file's ``workload`` key says.

        Raises:
            ScenarioError: The key is missing or no text.
        """
        workload = self.table.get("workload")
        if not isinstance(workload, str):
            raise ScenarioError(f'{self.where}: key "workload" is missing or no text: write workload = "ec"')
        return workload


def shipped_directory() -> Path:
    """Where the shipped scenarios are: inside the package once installed, beside it in a source tree."""
    inside = _PACKAGE / "scenarios"
    return inside if inside.is_dir() else _PACKAGE.parent / "scenarios"


def shipped_names() -> tuple[str, ...]:
    """Names of all shipped scenarios."""
    return tuple(sorted(path.stem for path in shipped_directory().glob(f"*{SUFFIX}")))


def shipped_workload(workload: str) -> tuple[str, ...]:
    """Names of the shipped scenarios of one workload."""
    return tuple(name for name in shipped_names() if read_scenario(name).workload == workload)


def refuse_unknown(names_or_paths: Iterable[str], workloads: Collection[str]) -> None:
    """Refuses names that no shipped scenario has, before anything is read.

    Args:
        names_or_paths: As the user gave them.
        workloads: What the command can run; only scenarios of these are offered.

    Raises:
        EcbenchError: An unknown name; the message lists those that would do.
    """
    for name in names_or_paths:
        if not _is_path(name) and name not in shipped_names():
            fitting = [shipped for workload in workloads for shipped in shipped_workload(workload)]
            raise unknown_name("scenario", name, (*sorted(fitting), "a path to a .toml file"))


def _is_path(name_or_path: str) -> bool:
    return "/" in name_or_path or name_or_path.endswith(SUFFIX)


def read_scenario(name_or_path: str) -> ScenarioFile:
    """Reads a scenario.

    Args:
        name_or_path: A shipped name, or a path: anything with a slash or ending in ``.toml``.

    Raises:
        EcbenchError: No shipped scenario has the name; the message lists them.
        ScenarioError: The file cannot be read, or is not TOML.
    """
    is_path = _is_path(name_or_path)
    if not is_path and name_or_path not in shipped_names():
        raise unknown_name("scenario", name_or_path, (*shipped_names(), "a path to a .toml file"))
    path = Path(name_or_path) if is_path else shipped_directory() / f"{name_or_path}{SUFFIX}"
    text = read_text(path)
    return ScenarioFile(path.stem, str(path), text, parse_table(text, str(path)))
