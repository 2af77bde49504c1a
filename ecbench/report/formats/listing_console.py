"""A listing as one line per name: name, availability, description, and the reason where it is not available."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ecbench.core.doctor_records import Listed


def print_listing(entries: Sequence[Listed], console: Console) -> None:
    """Prints aligned lines that are never folded, so that they can be searched."""
    name_columns = max((len(entry.name) for entry in entries), default=0)
    state_columns = max((len(state(entry)) for entry in entries), default=0)
    for entry in entries:
        what = ": ".join(part for part in (entry.description, entry.reason) if part)
        line = Text.assemble(
            f"{entry.name:<{name_columns}}  ",
            (f"{state(entry):<{state_columns}}", "green" if entry.available else "yellow"),
            f"  {what}",
        )
        console.print(line, soft_wrap=True)


def state(entry: Listed) -> str:
    """Availability, and whether anyone has seen it run."""
    available = "available" if entry.available else "not available"
    return available if entry.verified else f"{available}, unverified here"
