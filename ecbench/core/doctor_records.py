"""Results of ``doctor`` and ``list``: what this machine can do, and why not."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.records import Param, Record, RunResult

if TYPE_CHECKING:
    from collections.abc import Mapping


class CheckStatus(StrEnum):
    """How one check of the machine ended, best first."""

    OK = "ok"
    """Nothing to do; also where the thing looked for is simply not here."""
    WARNING = "warning"
    """ecbench or an engine will work, but slower, or not at every size."""
    PROBLEM = "problem"
    """Something will fail."""


class Check(Record, frozen=True, kw_only=True):
    """One finding about the machine. Made by `ok`, `warning` and `problem`, so that a complaint has a mend."""

    name: str
    """What was looked at, unique within a result."""
    status: CheckStatus
    detail: str
    """What was found, in one line."""
    mend: str | None = None
    """What to do about it; null where all is well."""
    values: dict[str, Param] = msgspec.field(default_factory=dict)
    """The figures behind the line, for programs."""


DoctorResult = RunResult[Check]


def ok(name: str, detail: str, values: Mapping[str, Param] | None = None) -> Check:
    """A finding that asks for nothing."""
    return Check(name=name, status=CheckStatus.OK, detail=detail, values={**(values or {})})


def warning(name: str, detail: str, mend: str, values: Mapping[str, Param] | None = None) -> Check:
    """A finding that costs speed or limits sizes."""
    return Check(name=name, status=CheckStatus.WARNING, detail=detail, mend=mend, values={**(values or {})})


def problem(name: str, detail: str, mend: str, values: Mapping[str, Param] | None = None) -> Check:
    """A finding that makes something fail."""
    return Check(name=name, status=CheckStatus.PROBLEM, detail=detail, mend=mend, values={**(values or {})})


class Listed(Record, frozen=True, kw_only=True):
    """One name that a command line can use."""

    name: str
    available: bool
    """It can be used on this machine, now."""
    verified: bool
    """It needs no hardware, or a recorded run on its hardware names it."""
    description: str
    reason: str | None = None
    """Why it is not available; null where it is."""


ListingResult = RunResult[Listed]
