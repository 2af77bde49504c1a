"""Markdown for the page of a GitHub Actions step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLE = "GITHUB_STEP_SUMMARY"
MAX_BYTES = 1024 * 1024
"""GitHub refuses a step's summary above 1 MiB, all of it."""
_CUT = "\n\n(Cut here: a summary holds 1 MiB. The whole report is in the files.)\n"


def append_step_summary(make_markdown: Callable[[], str], environment: Mapping[str, str] | None = None) -> Path | None:
    """Appends a report to the step's summary.

    Args:
        make_markdown: Renders the report; called only inside GitHub Actions.
        environment: Stands for the process's environment.

    Returns:
        The file, or nothing outside GitHub Actions.

    Raises:
        EcbenchError: The file cannot be written.
    """
    name = (os.environ if environment is None else environment).get(VARIABLE)
    if not name:
        return None
    path = Path(name)
    try:
        _append(path, make_markdown())
    except OSError as error:
        raise EcbenchError(
            f"{VARIABLE}={path}: cannot be written ({error.strerror}): unset it or name a file that may be written"
        ) from error
    return path


def _append(path: Path, markdown: str) -> None:
    used = path.stat().st_size if path.exists() else 0
    with path.open("ab") as file:
        file.write(_fitting(f"{markdown}\n".encode(), MAX_BYTES - used))


def _fitting(content: bytes, room: int) -> bytes:
    if len(content) <= room:
        return content
    kept = content[: max(0, room - len(_CUT.encode()))]
    whole_lines = kept[: kept.rfind(b"\n") + 1]
    return whole_lines + _CUT.encode() if room >= len(_CUT.encode()) else b""
