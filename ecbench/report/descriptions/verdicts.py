"""``compare``, ``gate`` and ``ab`` as documents and as checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.comparison_records import Verdict
from ecbench.report.checks import CheckLine, Outcome
from ecbench.report.comparison_figures import (
    COLUMNS,
    NUMERIC_COLUMNS,
    case_names,
    details,
    difference_line,
    leg_row,
    reason_words,
    remarks,
    summary,
    title,
)
from ecbench.report.documents import Answer, Document, Row, Section, Table, Tone, fact_groups, title_of

if TYPE_CHECKING:
    from ecbench.core.comparison_records import CaseComparison, ComparisonResult, LegComparison

_TONES = {
    Verdict.IMPROVED: Tone.GOOD,
    Verdict.PASSED: Tone.GOOD,
    Verdict.INCONCLUSIVE: Tone.CAUTION,
    Verdict.REGRESSED: Tone.BAD,
}
_OUTCOMES = {
    Verdict.IMPROVED: Outcome.PASSED,
    Verdict.PASSED: Outcome.PASSED,
    Verdict.INCONCLUSIVE: Outcome.INCONCLUSIVE,
    Verdict.REGRESSED: Outcome.FAILED,
}


def describe_verdicts(result: ComparisonResult) -> Document:
    """What the environments differ in, how it ended, and a row per leg."""
    worst = max((case.verdict for case in result.cases), key=lambda verdict: verdict.rank, default=Verdict.PASSED)
    rows = tuple(Row(leg_row(case, leg), _TONES[leg.verdict]) for case in result.cases for leg in case.legs)
    notes = (*details(result), *(f"times: {line}" for line in remarks(result)))
    return Document(
        title=title_of(result),
        subtitle=title(result),
        warnings=(*map(difference_line, result.differences), *result.notes),
        answers=(Answer("Did it get worse?", summary(result), _TONES[worst]),),
        sections=(Section("Verdicts", table=Table(COLUMNS, rows, NUMERIC_COLUMNS), notes=notes),),
        facts=fact_groups(result),
    )


def verdict_checks(case: CaseComparison) -> list[CheckLine]:
    """A check per leg: it did not regress. What is inconclusive says why."""
    return [_verdict_check(case, leg) for leg in case.legs]


def _verdict_check(case: CaseComparison, leg: LegComparison) -> CheckLine:
    outcome = _OUTCOMES[leg.verdict]
    cells = zip(COLUMNS, leg_row(case, leg), strict=True)
    return CheckLine(
        group=case_names(case),
        name=leg.name,
        outcome=outcome,
        message="" if outcome is Outcome.PASSED else leg.detail or reason_words(leg.reason),
        label=leg.reason.value,
        details=", ".join(f"{column} {cell}" for column, cell in cells),
    )
