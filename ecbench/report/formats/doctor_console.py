"""A diagnosis as one line per check, with the mend under each complaint."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from ecbench.core.doctor_records import CheckStatus

if TYPE_CHECKING:
    from rich.console import Console

    from ecbench.core.doctor_records import Check, DoctorResult

_STYLES = {CheckStatus.OK: "green", CheckStatus.WARNING: "yellow", CheckStatus.PROBLEM: "bold red"}
_STATUS_COLUMNS = max(map(len, CheckStatus))


def print_diagnosis(result: DoctorResult, console: Console) -> None:
    """Prints every check and how many there are of each kind. Lines are never folded, so that they can be searched."""
    _print_checks(result.cases, console)
    console.print(Text(summary(result), style="bold"), soft_wrap=True)


def print_complaints(result: DoctorResult, console: Console) -> None:
    """Prints only warnings and problems."""
    _print_checks([check for check in result.cases if check.status is not CheckStatus.OK], console)


def _print_checks(checks: list[Check], console: Console) -> None:
    name_columns = max((len(check.name) for check in checks), default=0)
    for check in checks:
        status = f"{check.status:<{_STATUS_COLUMNS}}"
        line = Text.assemble((status, _STYLES[check.status]), f"  {check.name:<{name_columns}}  {check.detail}")
        console.print(line, soft_wrap=True)
        if check.mend is not None:
            console.print(Text(f"{'':{_STATUS_COLUMNS}}  {'':{name_columns}}  mend: {check.mend}"), soft_wrap=True)


def summary(result: DoctorResult) -> str:
    """How many checks ended in which way, in one line."""
    counts = Counter(check.status for check in result.cases)
    complaints = [_counted(counts[status], status) for status in (CheckStatus.WARNING, CheckStatus.PROBLEM)]
    return ", ".join([f"{counts[CheckStatus.OK]} ok", *complaints])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
