"""Small files of /proc and /sys, which may be missing, unreadable or gone while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_line(path: Path) -> str | None:
    """The file's text without surrounding space; None where it cannot be read or is empty."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def read_field(path: Path, field: str) -> str | None:
    """The value of a ``field: value`` line, as in /proc/meminfo and /proc/self/status; None where there is none."""
    for line in (read_line(path) or "").splitlines():
        name, found, value = line.partition(":")
        if found and name.strip() == field:
            return value.strip()
    return None


def chosen_word(path: Path) -> str | None:
    """The word in brackets of a choice such as ``always [madvise] never``; None where there is none."""
    words = (read_line(path) or "").split()
    return next((word.strip("[]") for word in words if word.startswith("[") and word.endswith("]")), None)


def parse_id_list(text: str) -> tuple[int, ...]:
    """Numbers of a kernel list such as ``0-3,8``."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)
