"""Results of ``conformance``: one case per check of a target."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ecbench.core.records import Record, RunResult


class ConformanceOutcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    """The target does what is expected, with every input."""
    FAILED = "failed"
    """It does not; `ConformanceCase.expected` and `happened` say what."""
    KNOWN_DIFFERENCE = "known_difference"
    """It does not, and the target's adapter says why that is meant to be so."""
    NOT_APPLICABLE = "not_applicable"
    """The check cannot be made here, or says nothing about this target; the reason says why."""


class ConformanceCase(Record, frozen=True, kw_only=True):
    """One check of one target."""

    check: str
    """Name of the check, for example ``worker.exact-fit``."""
    behaviour: int | None
    """Number of the behaviour that it belongs to, 1 to 36; null for an edge case."""
    description: str
    """What is checked, in one line."""
    outcome: ConformanceOutcome
    expected: str
    """What a target must do."""
    happened: str | None = None
    """What this one did; null where it did what was expected."""
    smallest_input: str | None = None
    """The smallest input that shows it."""
    reason: str | None = None
    """Why a difference is known, or why the check is not applicable."""
    inputs: int = 0
    """Inputs that were tried."""
    seconds: float = 0.0
    """Wall time of the check."""
    output: str = ""
    """The end of what the target printed meanwhile."""
    removed_files: list[str] = msgspec.field(default_factory=list)
    """Files that the target left behind and that were removed after the check."""


ConformanceResult = RunResult[ConformanceCase]
