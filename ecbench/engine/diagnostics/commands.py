"""Vendors' tools, asked briefly."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

TIMEOUT_S = 1.5
"""A tool that initialises a sleeping GPU can take seconds; a diagnosis should not."""
_TIMED_OUT = 124
"""As ``timeout(1)`` exits."""


@dataclass(frozen=True)
class CommandOutput:
    """What a tool answered.

    Args:
        code: Its exit code.
        text: Its standard output, and its standard error where it failed.
    """

    code: int
    text: str

    @property
    def timed_out(self) -> bool:
        """The tool was given up."""
        return self.code == _TIMED_OUT

    @property
    def first_line(self) -> str:
        """The first line that is not empty."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")


RunCommand = Callable[..., CommandOutput | None]
"""Called with the words of a command; None where there is no such tool."""


def run_command(*words: str) -> CommandOutput | None:
    """Runs a tool that is on the PATH, for at most `TIMEOUT_S`.

    Args:
        *words: The tool's name and its arguments.

    Returns:
        Its answer, or None where it is not installed.
    """
    path = shutil.which(words[0])
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command line
            [path, *words[1:]], capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return CommandOutput(_TIMED_OUT, f"no answer within {TIMEOUT_S:g} s")
    except OSError as error:
        return CommandOutput(error.errno or 1, str(error.strerror))
    return CommandOutput(done.returncode, done.stdout if done.returncode == 0 else f"{done.stdout}\n{done.stderr}")
