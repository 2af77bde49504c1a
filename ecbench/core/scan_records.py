"""Results of ``scan-ptrs`` as they are kept."""

from __future__ import annotations

from enum import StrEnum

from ecbench.core.records import Param, Record, RunResult


class Severity(StrEnum):
    """What happens at a site when an address is >= 2**63, least bad first."""

    LATENT = "latent"
    """Nothing today: the code runs only where addresses are low, or the address is of host memory."""
    CRASH = "crash"
    """An exception."""
    CORRUPTION = "corruption"
    """A wrong address without an exception."""

    @property
    def rank(self) -> int:
        """Position from least to most severe, from 0."""
        return list(Severity).index(self)


class FailOn(StrEnum):
    """The least severity that makes the command fail."""

    CORRUPTION = "corruption"
    CRASH = "crash"
    LATENT = "latent"
    NEVER = "never"


class ScanRule(Record, frozen=True, kw_only=True):
    """A rule of the scanner."""

    id: str
    title: str
    why: str
    mend: str


class Finding(Record, frozen=True, kw_only=True):
    """A site that an address >= 2**63 breaks."""

    rule: str
    severity: Severity
    path: str
    """As the scan was given it, so that it can be opened from the same folder; with forward slashes."""
    line: int
    """From 1."""
    column: int
    """In characters, from 1."""
    end_line: int
    expression: str
    """The source of the expression, on one line."""
    why: str
    mend: str
    qualified_name: str = ""
    """The function or class around it; empty at module level."""
    note: str | None = None
    """Why a severity was lowered to latent."""
    identity: str = ""
    """Stays the same when lines move."""


class UnparsableFile(Record, frozen=True, kw_only=True):
    """A file that could not be read as Python."""

    path: str
    line: int | None
    reason: str


class ScanCase(Record, frozen=True, kw_only=True):
    """One scan of a source tree."""

    case_id: str
    params: dict[str, Param]
    findings: list[Finding]
    files_scanned: int
    """Files read and parsed."""
    unparsable: list[UnparsableFile]
    suppressed: int = 0
    """Findings that a comment in the source accepts."""
    suppressed_without_reason: int = 0
    """Those of them whose comment gives no reason."""
    baselined: int = 0
    """Findings that the baseline already holds."""
    rules: list[ScanRule]
    """All rules that were looked for."""


ScanResult = RunResult[ScanCase]
