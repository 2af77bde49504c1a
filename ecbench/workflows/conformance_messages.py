"""What the process that holds a target and the one that runs the suite say to each other: JSON, a line each."""

from __future__ import annotations

import msgspec

from ecbench.core.conformance_records import ConformanceOutcome  # noqa: TC001 - msgspec reads annotations
from ecbench.core.records import Record


class Opened(Record, frozen=True, kw_only=True, tag="opened"):
    """The target is imported, made and complete."""

    version: str
    device: str
    stand_ins: list[str]
    known_differences: dict[str, str]


class Refused(Record, frozen=True, kw_only=True, tag="refused"):
    """The target cannot be checked."""

    message: str
    exit_code: int


class Request(Record, frozen=True, kw_only=True, tag="request"):
    """Run a check."""

    check: str
    label: str
    """Unique to this check on this machine; part of every name that the target is given."""
    seed: int
    limit_s: float


class Starting(Record, frozen=True, kw_only=True, tag="starting"):
    """A check is about to run."""

    files: list[str]
    """Every file that it may leave."""


class Judged(Record, frozen=True, kw_only=True, tag="judged"):
    """A check has ended, one way or another."""

    outcome: ConformanceOutcome
    happened: str | None
    smallest_input: str | None
    reason: str | None
    inputs: int
    seconds: float
    output: str
    removed_files: list[str]


class Trying(Record, frozen=True, kw_only=True, tag="trying"):
    """The process of a check tries an input."""

    given: str


class Verdict(Record, frozen=True, kw_only=True, tag="verdict"):
    """The process of a check came to its end."""

    outcome: ConformanceOutcome
    happened: str | None
    smallest_input: str | None
    reason: str | None
    inputs: int


FromServer = Opened | Refused | Starting | Judged
FromCheck = Trying | Verdict


def to_line(message: Record) -> bytes:
    """Encodes a message."""
    return msgspec.json.encode(message) + b"\n"
