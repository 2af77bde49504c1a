"""From the probe's findings to rulings, a recommendation, and what nobody expected."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from ecbench.core.errors import DataError
from ecbench.core.probe_records import (
    ConventionRuling,
    Outcome,
    ProbeCase,
    ProbeFinding,
    ProbeTiming,
    Ruling,
    Unexpected,
)
from ecbench.core.records import Record
from ecbench.pointers.conventions import (
    BEHAVIOURS,
    CONVENTIONS,
    PREFERENCE,
    RECOMMENDED,
    Behaviour,
    Convention,
    Evidence,
    expected_for,
    name_expectation,
)
from ecbench.pointers.probe import PROBE_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FindingsByEvidence = dict[Evidence, list[ProbeFinding]]
_OVERFLOW = "overflow"
_TELLING = "high-unaligned"
"""The class of value whose exception is shown: the most like a real address."""


class FailOn(StrEnum):
    """What makes the command exit 1; each includes the ones below it."""

    FAILS = "fails"
    """A convention raises."""
    CORRUPTION = "corruption"
    """A convention corrupts silently."""
    UNEXPECTED = "unexpected"
    """A behaviour differs from what is known, or the recommended convention is not safe."""
    NEVER = "never"


class ProbeDocument(Record, frozen=True, kw_only=True):
    """What the probe prints."""

    probe_version: int
    torch: str
    numpy: str
    python: str
    findings: list[ProbeFinding]
    timings: list[ProbeTiming]
    elapsed_s: float
    device: str | None = None
    device_addresses: int = 0
    device_addresses_high: int = 0


def read_document(document: Any) -> ProbeDocument:
    """Checks a probe's document.

    Args:
        document: Plain values, as decoded from JSON.

    Raises:
        DataError: It is not a document of this probe.
    """
    try:
        checked = msgspec.convert(document, ProbeDocument)
    except msgspec.ValidationError as error:
        raise DataError(f"the probe's document cannot be read: {error}; run the probe.py of this ecbench") from error
    if checked.probe_version != PROBE_VERSION:
        raise DataError(
            f"the probe's document has version {checked.probe_version}, not {PROBE_VERSION}: run this ecbench's"
        )
    return checked


def judge_document(document: ProbeDocument) -> ProbeCase:
    """Turns one probe's findings into a case: rulings, recommendation and what was not expected."""
    versions = {"torch": document.torch, "numpy": document.numpy}
    findings = _by_evidence(document.findings)
    costs = {Evidence(timing.method, timing.dtype, timing.encoding): timing for timing in document.timings}
    conventions = [_rule(convention, findings, costs, versions) for convention in CONVENTIONS]
    recommended = _recommend(conventions)
    return ProbeCase(
        case_id=case_id(document.torch, document.numpy),
        params={"torch": document.torch, "numpy": document.numpy, "python": document.python},
        conventions=conventions,
        findings=document.findings,
        recommended=recommended,
        unexpected=[*_unexpected_rulings(conventions, versions), *_unexpected_findings(findings, versions)],
        advice=_advise(recommended, conventions),
        expectation=name_expectation(versions),
        timings=document.timings,
        device=document.device,
        device_addresses=document.device_addresses,
        device_addresses_high=document.device_addresses_high,
        probe_s=document.elapsed_s,
    )


def case_id(torch: str, numpy: str) -> str:
    """Names the case of a torch and a NumPy."""
    return f"torch-{torch}-numpy-{numpy}"


def _by_evidence(findings: Iterable[ProbeFinding]) -> FindingsByEvidence:
    grouped: FindingsByEvidence = {}
    for finding in findings:
        grouped.setdefault(Evidence(finding.method, finding.dtype, finding.encoding), []).append(finding)
    return grouped


def _rule(
    convention: Convention,
    findings: FindingsByEvidence,
    costs: dict[Evidence, ProbeTiming],
    versions: dict[str, str],
) -> ConventionRuling:
    evidence = [finding for name in convention.evidence for finding in findings.get(name, [])]
    caveats = [finding for name in convention.caveats for finding in findings.get(name, [])]
    ruling = rule_findings(evidence, caveats)
    timing = costs.get(convention.cost)
    return ConventionRuling(
        name=convention.name,
        ruling=ruling,
        exception=_exception(evidence),
        ns_per_element=None if timing is None or ruling in (None, Ruling.FAILS) else timing.ns_per_element,
        expected=Ruling(expected_for(convention.library, convention.expected, versions).result),
        note=_note(ruling, evidence, caveats),
    )


def rule_findings(evidence: Sequence[ProbeFinding], caveats: Sequence[ProbeFinding] = ()) -> Ruling | None:
    """Rules on findings: the worst of them decides.

    To refuse 2**64 is right, since it is no address; to store anything for it is corruption.

    Args:
        evidence: What the convention itself did.
        caveats: What is done later with the bits it stored.

    Returns:
        The ruling, or None where nothing could be tried.
    """
    tried = [finding for finding in evidence if finding.outcome is not Outcome.UNAVAILABLE]
    if not tried:
        return None
    if any(finding.outcome is Outcome.CORRUPTS for finding in tried):
        return Ruling.CORRUPTS
    addresses = [finding for finding in tried if finding.value_class != _OVERFLOW]
    if any(finding.outcome is Outcome.RAISES for finding in addresses):
        return Ruling.FAILS
    doubtful = any(finding.warning or finding.outcome is Outcome.NEGATIVE for finding in addresses)
    misread = any(finding.outcome not in (Outcome.EXACT, Outcome.UNAVAILABLE) for finding in caveats)
    return Ruling.WARN if doubtful or misread else Ruling.SAFE


def _exception(evidence: Sequence[ProbeFinding]) -> str | None:
    addresses = [finding for finding in evidence if finding.value_class != _OVERFLOW]
    telling = [finding.exception or finding.warning for finding in addresses if finding.value_class == _TELLING]
    others = [finding.exception for finding in addresses]
    return next((text for text in [*telling, *others] if text), None)


def _note(ruling: Ruling | None, evidence: Sequence[ProbeFinding], caveats: Sequence[ProbeFinding]) -> str | None:
    if ruling is Ruling.CORRUPTS:
        damage = sorted({finding.damage for finding in evidence if finding.damage})
        return f"no exception: {', '.join(damage)}"
    if ruling is Ruling.WARN:
        misread = [f"{finding.method} {finding.damage or finding.outcome}" for finding in caveats
                   if finding.value_class == _TELLING and finding.outcome is not Outcome.EXACT]  # fmt: skip
        return "; ".join(["bits are right", *(misread or ["shown as address - 2**64"])])
    return None


def _recommend(conventions: Sequence[ConventionRuling]) -> str | None:
    safe = {convention.name for convention in conventions if convention.ruling is Ruling.SAFE}
    return next((name for name in PREFERENCE if name in safe), None)


def _advise(recommended: str | None, conventions: Sequence[ConventionRuling]) -> str:
    if recommended is None:
        return "No convention stores addresses at or above 2**63 safely here: do not run with this torch and NumPy."
    code = next(convention.code for convention in CONVENTIONS if convention.name == recommended)
    if recommended == RECOMMENDED:
        return f"Use {recommended}: {code}."
    ruling = next(convention.ruling for convention in conventions if convention.name == RECOMMENDED)
    return f"{RECOMMENDED} {ruling or 'could not be tried'} here; use {recommended}: {code}."


def _unexpected_rulings(conventions: Sequence[ConventionRuling], versions: dict[str, str]) -> list[Unexpected]:
    differences = []
    for convention, ruled in zip(CONVENTIONS, conventions, strict=True):
        if ruled.ruling is None:
            continue
        expected = expected_for(convention.library, convention.expected, versions)
        found = ruled.ruling.value
        if found != expected.result or _raised_other(ruled.exception, expected.exception):
            exception = f" {ruled.exception}" if ruled.exception else ""
            differences.append(Unexpected(name=ruled.name, expected=_text(expected), found=found + exception))
    return differences


def _unexpected_findings(findings: FindingsByEvidence, versions: dict[str, str]) -> list[Unexpected]:
    differences = []
    for behaviour in BEHAVIOURS:
        expected = expected_for(behaviour.library, behaviour.expected, versions)
        for finding in _of(behaviour, findings):
            other = finding.outcome != expected.result or _raised_other(finding.exception, expected.exception)
            if expected.result != "?" and finding.outcome is not Outcome.UNAVAILABLE and other:
                exception = f" {finding.exception}" if finding.exception else ""
                name = " ".join([*behaviour.evidence, behaviour.value_class])
                differences.append(
                    Unexpected(name=name, expected=_text(expected), found=finding.outcome.value + exception)
                )
    return differences


def _of(behaviour: Behaviour, findings: FindingsByEvidence) -> list[ProbeFinding]:
    return [finding for finding in findings.get(behaviour.evidence, []) if finding.value_class == behaviour.value_class]


def _raised_other(seen: str | None, expected: str | None) -> bool:
    return expected is not None and (seen or "").partition(":")[0] != expected


def _text(expected: tuple[str, str | None]) -> str:
    result, exception = expected
    return f"{result} {exception}" if exception else result


def must_fail(case: ProbeCase, fail_on: FailOn) -> bool:
    """Says whether a case is a failed check under what the user asked for."""
    if fail_on is FailOn.NEVER or case.reason is not None:
        return False
    if case.unexpected or case.recommended != RECOMMENDED:
        return True
    rulings = {convention.ruling for convention in case.conventions}
    return bool(rulings & _BAD_RULINGS[fail_on])


_BAD_RULINGS: dict[FailOn, set[Ruling | None]] = {
    FailOn.FAILS: {Ruling.FAILS, Ruling.CORRUPTS},
    FailOn.CORRUPTION: {Ruling.CORRUPTS},
    FailOn.UNEXPECTED: set(),
}
