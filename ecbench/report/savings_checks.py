"""``dsv4-swa-savings`` as checks: every advertised hit loads, and every copied byte is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ecbench.report.checks import CheckLine, Outcome, leg_checks
from ecbench.report.savings_differences import against_words
from ecbench.report.savings_figures import WITHOUT, proof_words

if TYPE_CHECKING:
    from ecbench.core.savings_records import SavingsCase


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
