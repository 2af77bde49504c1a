"""The words and numbers that every format of a comparison shows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ecbench.core.comparison_records import DifferenceEffect, Pairing, Reason, Verdict
from ecbench.core.units import format_seconds

if TYPE_CHECKING:
    from ecbench.core.comparison_records import (
        CaseComparison,
        ComparisonResult,
        EnvironmentDifference,
        LegComparison,
        TimeComparison,
    )

ABSENT = "-"
COLUMNS = ("case", "leg", "base", "new", "ratio", "90% interval", "limit", "rounds", "verdict", "why")
NARROW_COLUMNS = ("case", "leg", "ratio", "90% interval", "verdict", "why")
"""What is shown where there is no room for all."""
NUMERIC_COLUMNS = frozenset({"base", "new", "ratio", "90% interval", "limit", "rounds"})
SECONDS_SUFFIX = "_s"
MAX_DIFFERENCES = 20
"""Exact differences that are listed per leg; the JSON has all."""
_EFFECTS = {
    DifferenceEffect.SAID: "times are compared",
    DifferenceEffect.UNDER_TEST: "under test",
    DifferenceEffect.TIMES_REFUSED: "times are not comparable",
}
_PAIRINGS = {
    Pairing.PAIRED: "paired: process rounds that were run in turn",
    Pairing.UNPAIRED: "unpaired: process rounds of different times, so the threshold is widened",
    Pairing.WITHIN_PROCESS: (
        "within one process: what differs from process to process cannot be seen, so the threshold is widened; several "
        "processes tell more"
    ),
}


def title(result: ComparisonResult) -> str:
    """What was compared, in one line."""
    return f"{result.compared_kind} of {result.base_started_at} (base) and {result.new_started_at} (new)"


def difference_line(difference: EnvironmentDifference) -> str:
    """What differs between two environments, and what that does."""
    return f"{difference.name}: {difference.base} (base), {difference.new} (new); {_EFFECTS[difference.effect]}"


def case_names(case: CaseComparison) -> str:
    """A case's name, with its old one where it was renamed."""
    return f"{case.case_id} (renamed from {case.base_case_id})" if case.base_case_id else case.case_id


def leg_row(case: CaseComparison, leg: LegComparison) -> tuple[str, ...]:
    """One leg as text, in the order of `COLUMNS`."""
    return (case_names(case), leg.name, *_time_cells(leg.times), leg.verdict.value.upper(), reason_words(leg.reason))


def _time_cells(times: TimeComparison | None) -> tuple[str, ...]:
    if times is None:
        return (ABSENT,) * 6
    known = times.ratio is not None and times.ratio_low is not None and times.ratio_high is not None
    return (
        _value(times.metric, times.base_median),
        _value(times.metric, times.new_median),
        f"{times.ratio:.3f}" if known else ABSENT,
        f"{times.ratio_low:.3f} to {times.ratio_high:.3f}" if known else ABSENT,
        f"+{times.threshold:.3g}" if times.threshold >= 1 else f"+{times.threshold:.3%}".replace(".000%", "%"),
        f"{times.base_rounds}, {times.new_rounds}",
    )


def _value(metric: str, value: float | None) -> str:
    if value is None:
        return ABSENT
    return format_seconds(value) if metric.endswith(SECONDS_SUFFIX) else f"{value:.3f}"


def reason_words(reason: Reason) -> str:
    """A reason code as words."""
    return reason.value.replace("_", " ")


def details(result: ComparisonResult) -> list[str]:
    """What the table has no room for: exact differences, and reasons in full."""
    return [line for case in result.cases for leg in case.legs for line in _leg_details(case, leg)]


def _leg_details(case: CaseComparison, leg: LegComparison) -> list[str]:
    where = f"{case_names(case)} {leg.name}"
    lines = [
        f"{where}: {entry.figure}: {entry.base} before, {entry.new} now ({entry.verdict.value})"
        for entry in leg.differences[:MAX_DIFFERENCES]
    ]
    if len(leg.differences) > MAX_DIFFERENCES:
        lines.append(f"{where}: {len(leg.differences) - MAX_DIFFERENCES} more exact figures differ")
    if leg.detail and not leg.differences:
        lines.append(f"{where}: {leg.detail}")
    return lines


def remarks(result: ComparisonResult) -> list[str]:
    """How times were compared."""
    times = [leg.times for case in result.cases for leg in case.legs if leg.times]
    lines = [
        f"{metric}, {_PAIRINGS[pairing]}" for metric, pairing in dict.fromkeys((t.metric, t.pairing) for t in times)
    ]
    if len(times) > 1:
        lines.append(f"{len(times)} times were judged together (Holm); intervals are for one time each")
    return lines


def summary(result: ComparisonResult) -> str:
    """How it ended, in one line."""
    legs = [leg for case in result.cases for leg in case.legs]
    counts = Counter(leg.verdict for leg in legs)
    words = [f"{counts[verdict]} {verdict.value}" for verdict in reversed(Verdict) if counts[verdict]]
    exact = sum(leg.exact_figures for leg in legs)
    differing = sum(len(leg.differences) for leg in legs)
    parts = [", ".join(words), f"{exact} exact figures compared, {differing} differ"]
    if result.geometric_mean_ratio is not None:
        parts.append(f"geometric mean of the ratios {result.geometric_mean_ratio:.3f} (informs only)")
    return "; ".join(parts)
