"""``ecbench compare``: two result files -> one comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.comparison_records import FailOn, Reason, Verdict
from ecbench.core.errors import ExitCode, unknown_name
from ecbench.core.shares import parse_share
from ecbench.stats.pairing import DEFAULT_METRIC, METRICS
from ecbench.stats.verdicts import DEFAULT_THRESHOLD
from ecbench.workflows.comparable import load_comparable
from ecbench.workflows.comparison import compare_results
from ecbench.workflows.timing_rules import TimingRule

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.core.comparison_records import ComparisonResult

KIND = "compare"


@dataclass(frozen=True)
class CompareOptions:
    """What a user can ask of a comparison.

    Args:
        base: The old result.
        new: The new one.
        metric: What is compared.
        threshold: Accepted slowdown, like "5%".
        under_test: What is meant to differ between the environments.
    """

    base: Path
    new: Path
    metric: str = DEFAULT_METRIC
    threshold: str | float = DEFAULT_THRESHOLD
    under_test: tuple[str, ...] = ()


def run_compare(options: CompareOptions) -> ComparisonResult:
    """Loads and compares two results.

    Raises:
        EcbenchError: A bad threshold, metric or thing under test.
        DataError: A file that cannot be read, or two that cannot be compared.
    """
    if options.metric not in METRICS:
        raise unknown_name("metric", options.metric, tuple(METRICS))
    rule = TimingRule(metric=options.metric, threshold=parse_share(options.threshold))
    return compare_results(
        load_comparable(options.base),
        load_comparable(options.new),
        kind=KIND,
        rules=[rule],
        under_test=options.under_test,
        settings={
            "base": str(options.base),
            "new": str(options.new),
            "metric": rule.metric,
            "threshold": rule.threshold,
            "under_test": list(options.under_test),
        },
    )


def exit_code_of(result: ComparisonResult, fail_on: FailOn) -> ExitCode:
    """The exit code a comparison calls for."""
    if fail_on is FailOn.NEVER:
        return ExitCode.OK
    verdicts = {leg.verdict for case in result.cases for leg in case.legs}
    if Verdict.REGRESSED in verdicts:
        return ExitCode.CHECK_FAILED
    if fail_on is FailOn.ANY and _anything_changed(result):
        return ExitCode.CHECK_FAILED
    wants_certainty = fail_on in {FailOn.INCONCLUSIVE, FailOn.ANY}
    return ExitCode.INCONCLUSIVE if wants_certainty and Verdict.INCONCLUSIVE in verdicts else ExitCode.OK


def _anything_changed(result: ComparisonResult) -> bool:
    changes = {Reason.ADDED, Reason.MISSING, Reason.EXACT_FIGURES_IMPROVED, Reason.IMPROVED_BEYOND_THRESHOLD}
    return any(
        case.base_case_id is not None or leg.differences or leg.reason in changes
        for case in result.cases
        for leg in case.legs
    )
