"""Every kind of result that can be loaded and shown. A new kind is one line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ecbench.core.comparison_records import ComparisonResult
from ecbench.core.conformance_records import ConformanceResult
from ecbench.core.doctor_records import DoctorResult, ListingResult
from ecbench.core.probe_records import ProbeResult
from ecbench.core.records import RoundTripResult, RunResult
from ecbench.core.savings_records import SavingsResult
from ecbench.core.scan_records import ScanResult
from ecbench.core.selftest_records import SelftestResult
from ecbench.core.sweep_records import SweepResult
from ecbench.report.checks import leg_checks, listed_checks, machine_checks, probe_checks, scan_checks
from ecbench.report.descriptions.conformance import conformance_checks, describe_conformance
from ecbench.report.descriptions.diagnosis import describe_diagnosis, describe_listing
from ecbench.report.descriptions.pointers import describe_probe, describe_scan
from ecbench.report.descriptions.round_trip import describe_round_trip
from ecbench.report.descriptions.savings import describe_savings
from ecbench.report.descriptions.selftest import describe_selftest, selftest_checks
from ecbench.report.descriptions.sweep import describe_sweep
from ecbench.report.descriptions.verdicts import describe_verdicts, verdict_checks
from ecbench.report.savings_checks import fuzz_checks, savings_checks
from ecbench.report.savings_figures import with_savings_figures
from ecbench.stats.summary import recompute

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.report.checks import CheckLine
    from ecbench.report.documents import Document

AnyResult = RunResult[Any]
"""A result of any kind in `KINDS`."""
R = TypeVar("R", bound=AnyResult)


def _as_stored(result: R) -> R:
    return result


def _no_checks(_: AnyResult) -> list[CheckLine]:
    return []


def _with_model(result: SweepResult) -> SweepResult:
    from ecbench.stats.sweep_model import with_model  # noqa: PLC0415 - imports scipy, which only a sweep needs

    return with_model(result)


def _with_error_rates(result: SelftestResult) -> SelftestResult:
    from ecbench.stats.error_rates import with_error_rates  # noqa: PLC0415 - as above

    return with_error_rates(result)


@dataclass(frozen=True)
class Kind:
    """What there is to know about one kind of result.

    Args:
        result_type: Its record.
        describe: Makes the document that formats show.
        checks: The checks of one case.
        with_figures: Computes anew what samples decide.
        has_legs: Its cases are `CaseResult`, so there are samples to tabulate, plot and compare.
        checks_of_all: Checks of the result as a whole.
    """

    result_type: Any
    describe: Callable[[Any], Document]
    checks: Callable[[Any], list[CheckLine]]
    with_figures: Callable[[Any], Any] = _as_stored
    has_legs: bool = False
    checks_of_all: Callable[[Any], list[CheckLine]] = _no_checks


KINDS = {
    "roundtrip": Kind(RoundTripResult, describe_round_trip, leg_checks, recompute, has_legs=True),
    "sweep": Kind(SweepResult, describe_sweep, leg_checks, _with_model, has_legs=True),
    "dsv4-swa-savings": Kind(
        SavingsResult, describe_savings, savings_checks, with_savings_figures, has_legs=True, checks_of_all=fuzz_checks
    ),
    "compare": Kind(ComparisonResult, describe_verdicts, verdict_checks),
    "gate": Kind(ComparisonResult, describe_verdicts, verdict_checks),
    "ab": Kind(ComparisonResult, describe_verdicts, verdict_checks),
    "selftest": Kind(SelftestResult, describe_selftest, selftest_checks, _with_error_rates),
    "conformance": Kind(ConformanceResult, describe_conformance, conformance_checks),
    "probe-ptr-overflow": Kind(ProbeResult, describe_probe, probe_checks),
    "scan-ptrs": Kind(ScanResult, describe_scan, scan_checks),
    "doctor": Kind(DoctorResult, describe_diagnosis, machine_checks),
    "list": Kind(ListingResult, describe_listing, listed_checks),
}
"""Kinds by `RunResult.kind`."""


def kind_of(result: AnyResult) -> Kind:
    """The kind of a loaded result."""
    return KINDS[result.kind]


def checks_of(result: AnyResult) -> list[CheckLine]:
    """All checks of a result: of the whole, then case by case."""
    kind = kind_of(result)
    return [*kind.checks_of_all(result), *(line for case in result.cases for line in kind.checks(case))]


def describe(result: AnyResult) -> Document:
    """Makes the document of a result."""
    return kind_of(result).describe(result)
