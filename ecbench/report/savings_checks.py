"""``dsv4-swa-savings`` as checks: every advertised hit loads, and every copied byte is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ecbench.report.checks import CheckLine, Outcome, leg_checks
from ecbench.report.documents import counted
from ecbench.report.savings_differences import against_words, difference_words
from ecbench.report.savings_figures import WITHOUT, proof_words

if TYPE_CHECKING:
    from ecbench.core.differential_records import FuzzFinding
    from ecbench.core.savings_records import SavingsCase, SavingsResult

_DRAWN = "drawn requests"


def fuzz_checks(result: SavingsResult) -> list[CheckLine]:
    """Drawn requests, where there were any: one check for all that agree, or one for each difference."""
    fuzz = result.fuzz
    if fuzz is None:
        return []
    name = f"{counted(fuzz.masks, 'request')} against {fuzz.scheduler}, seed {fuzz.seed}"
    if fuzz.ok:
        return [CheckLine(_DRAWN, name, Outcome.PASSED)]
    lines = [_finding_check(finding) for finding in fuzz.findings]
    if fuzz.also:
        words = f"{counted(fuzz.also, 'more request')} differ and were not made smaller"
        lines.append(CheckLine(_DRAWN, name, Outcome.FAILED, words, "differs"))
    return lines


def _finding_check(finding: FuzzFinding) -> CheckLine:
    words = f"{finding.request}: {finding.refused or '; '.join(map(difference_words, finding.differences))}"
    return CheckLine(
        _DRAWN, f"request {finding.number}, {finding.check}", Outcome.FAILED, words, "differs", path=finding.scenario
    )


def savings_checks(case: SavingsCase) -> list[CheckLine]:
    """The proof, what a real scheduler does, then a check per leg, with the skip and without.

    What is lost or not used is no failure.
    """
    without = [replace(leg, direction=f"{leg.direction} {WITHOUT}") for leg in case.legs_without_skip]
    return [_proof_check(case), *_against_checks(case), *leg_checks(replace(case, legs=[*case.legs, *without]))]


def _against_checks(case: SavingsCase) -> list[CheckLine]:
    """Whether a real scheduler does the same, where one was asked."""
    if case.against is None:
        return []
    words, name = against_words(case.against), f"against {case.against.scheduler}"
    if case.against.ok:
        return [CheckLine(case.case_id, name, Outcome.PASSED, details=words)]
    return [CheckLine(case.case_id, name, Outcome.FAILED, words, "differs")]


def _proof_check(case: SavingsCase) -> CheckLine:
    words = proof_words(case.proof)
    if case.proof is None:
        return CheckLine(case.case_id, "proof", Outcome.SKIPPED, words, "not proved")
    if not case.proof.ok:
        return CheckLine(case.case_id, "proof", Outcome.FAILED, words, "not loadable")
    return CheckLine(case.case_id, "proof", Outcome.PASSED, details=words)
