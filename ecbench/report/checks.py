"""Results as checks that end one way or another, for CI systems that count them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import CheckStatus
from ecbench.core.probe_records import Ruling
from ecbench.core.records import LegStatus
from ecbench.core.scan_records import Severity
from ecbench.report.figures import leg_row
from ecbench.report.formats.scan_text import finding_line
from ecbench.report.probe_figures import RULING_WORDS

if TYPE_CHECKING:
    from ecbench.core.doctor_records import Check, Listed
    from ecbench.core.probe_records import ConventionRuling, ProbeCase, Unexpected
    from ecbench.core.records import CaseResult, LegResult
    from ecbench.core.scan_records import ScanCase


class Outcome(StrEnum):
    """How a check ended. JUnit knows the first four; the others are skipped there, which fails nothing either."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    INCONCLUSIVE = "inconclusive"
    """The data cannot tell."""
    LATENT = "latent"
    """Wrong, and without effect where it stands today."""


@dataclass(frozen=True)
class CheckLine:
    """One check."""

    group: str
    """What was checked: a case, a machine, a file."""
    name: str
    outcome: Outcome
    message: str = ""
    """Why it did not pass, in one line."""
    label: str = ""
    """The class of the failure, for example ``swapped``."""
    details: str = ""
    """What else a reader may want, whatever the outcome."""
    seconds: float = 0.0
    path: str | None = None
    """The source file it is about, as the command was given it."""
    line: int | None = None
    """From 1."""
    column: int | None = None
    """From 1."""


_LEG_OUTCOMES = {
    LegStatus.PASSED: Outcome.PASSED,
    LegStatus.FAILED: Outcome.FAILED,
    LegStatus.ERROR: Outcome.ERROR,
    LegStatus.SKIPPED: Outcome.SKIPPED,
}


def leg_checks(case: CaseResult) -> list[CheckLine]:
    """A check per leg: its bytes are right."""
    return [_leg_check(case, leg) for leg in case.legs]


def _leg_check(case: CaseResult, leg: LegResult) -> CheckLine:
    _, descriptors, bandwidth, interval, ceiling, *_ = leg_row(leg)
    speed = f"{bandwidth} (95% interval {interval}), {ceiling} of the ceiling, {descriptors} descriptors per round"
    fault = leg.verify.fault.value if leg.verify and leg.verify.fault else leg.status.value
    return CheckLine(
        group=case.case_id,
        name=leg.direction,
        outcome=_LEG_OUTCOMES[leg.status],
        message=leg.reason or "",
        label=fault,
        details="\n".join([*([speed] if leg.samples else []), *leg.notes]),
        seconds=sum(sample.total_s for sample in leg.samples),
    )


def probe_checks(case: ProbeCase) -> list[CheckLine]:
    """A check per convention: it does what its generation of torch and NumPy is known to do."""
    if case.reason is not None:
        return [CheckLine(case.case_id, "probe", Outcome.ERROR, case.reason, "not probed")]
    findings = [_surprise(case, surprise) for surprise in case.unexpected if not _is_convention(case, surprise)]
    return [*(_convention_check(case, convention) for convention in case.conventions), *findings]


def _is_convention(case: ProbeCase, surprise: Unexpected) -> bool:
    return any(convention.name == surprise.name for convention in case.conventions)


def _surprise(case: ProbeCase, surprise: Unexpected) -> CheckLine:
    message = f"expected {surprise.expected}, found {surprise.found}"
    return CheckLine(case.case_id, surprise.name, Outcome.FAILED, message, "unexpected")


def _convention_check(case: ProbeCase, convention: ConventionRuling) -> CheckLine:
    words = RULING_WORDS[convention.ruling]
    details = "; ".join(text for text in (words, convention.note, convention.exception) if text)
    if convention.ruling is None:
        outcome, message = Outcome.SKIPPED, convention.exception or "could not be tried"
    elif convention.ruling is convention.expected:
        outcome, message = Outcome.PASSED, ""
    else:
        outcome, message = Outcome.FAILED, f"expected {RULING_WORDS[convention.expected]}, found {words}"
    label = Ruling(convention.ruling).value if convention.ruling else "not tried"
    return CheckLine(case.case_id, convention.name, outcome, message, label, details)


def scan_checks(case: ScanCase) -> list[CheckLine]:
    """A check per finding, and one that passes where there is none; latent findings do not fail."""
    lines = [
        CheckLine(
            group=finding.path,
            name=f"{finding.rule} line {finding.line}",
            outcome=Outcome.LATENT if finding.severity is Severity.LATENT else Outcome.FAILED,
            message=finding_line(finding),
            label=finding.severity.value,
            details=f"why: {finding.why}\nmend: {finding.mend}",
            path=finding.path,
            line=finding.line,
            column=finding.column,
        )
        for finding in case.findings
    ]
    lines += [
        CheckLine(
            group=entry.path,
            name=f"parse line {entry.line or 1}",
            outcome=Outcome.ERROR,
            message=entry.reason,
            label="not parsed",
            path=entry.path,
            line=entry.line,
        )
        for entry in case.unparsable
    ]
    return lines or [CheckLine(case.case_id, "no finding", Outcome.PASSED)]


_CHECK_OUTCOMES = {
    CheckStatus.OK: Outcome.PASSED,
    CheckStatus.WARNING: Outcome.SKIPPED,
    CheckStatus.PROBLEM: Outcome.FAILED,
}


def machine_checks(check: Check) -> list[CheckLine]:
    """One check of ``doctor``; a warning is skipped, not failed: nothing breaks by it."""
    complaint = f"{check.detail}; mend: {check.mend}" if check.mend else ""
    return [CheckLine("doctor", check.name, _CHECK_OUTCOMES[check.status], complaint, check.status.value, check.detail)]


def listed_checks(entry: Listed) -> list[CheckLine]:
    """A name that can be used passes; one that cannot is skipped with the reason."""
    outcome = Outcome.PASSED if entry.available else Outcome.SKIPPED
    return [CheckLine("list", entry.name, outcome, entry.reason or "", "not available", entry.description)]
