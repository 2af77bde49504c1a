"""The two installations that ``ab`` compares: how each is started, what they differ in, and what must not differ."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ecbench.core.errors import DataError, EcbenchError, UnavailableError
from ecbench.workflows.comparability import UNDER_TEST_NAMES, environment_differences, times_refusal

if TYPE_CHECKING:
    from collections.abc import Collection

    from ecbench.core.records import Environment

_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*")
_MODULE = ("-P", "-m", "ecbench")
"""-P: without it, an ecbench in the working directory hides the one that is installed."""
OF_THE_MACHINE = frozenset({"driver", "kernel"})
"""What no installation brings with it. A user may still name it as the thing under test."""


def command_of(text: str) -> tuple[str, ...]:
    """The command that starts an ecbench.

    Args:
        text: An interpreter, the folder of a virtual environment, or a command line as a shell would split it. A
            command line that ends with an interpreter runs the ecbench of that one.

    Raises:
        EcbenchError: Nothing is there, quotes are left open, or a folder is no environment.
        UnavailableError: A folder has no interpreter.
    """
    folder = Path(text).expanduser()
    if text.strip() and folder.is_dir():
        return _command_of_environment(folder)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise EcbenchError(f"{text!r} is no command line ({error}): close the quotes") from error
    if not words:
        raise EcbenchError("the command is empty: name an interpreter, a venv or a command line")
    words[0] = str(Path(words[0]).expanduser()) if words[0].startswith("~") else words[0]
    return (*words, *_MODULE) if _INTERPRETER.fullmatch(Path(words[-1]).name) else tuple(words)


def _command_of_environment(folder: Path) -> tuple[str, ...]:
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        raise UnavailableError(f"{folder}: has no bin/python: name the folder of a virtual environment")
    return (str(interpreter), *_MODULE)


def things_under_test(base: Environment, new: Environment, named: Collection[str] = ()) -> tuple[str, ...]:
    """What differs between two installations and is therefore under test.

    Args:
        base: Of the old side.
        new: Of the new one.
        named: What the user says is under test as well.
    """
    differing = [entry.name for entry in environment_differences(base, new)]
    installed = [name for name in UNDER_TEST_NAMES if name in differing and name not in OF_THE_MACHINE]
    return tuple(dict.fromkeys([*installed, *named]))


def refuse_other_differences(base: Environment, new: Environment, under_test: Collection[str]) -> None:
    """Holds the sides to one machine, one device and one way to hold memory.

    Args:
        base: Of the old side.
        new: Of the new one.
        under_test: What may differ.

    Raises:
        DataError: Something else differs that times depend on; all of it is named.
        EcbenchError: A name that cannot be under test.
    """
    refusal = times_refusal(environment_differences(base, new, under_test))
    if refusal is not None:
        raise DataError(f"base and new are {refusal}: only versions of what is installed may differ")
