"""A round trip as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.records import LegStatus
from ecbench.report.answers import answers
from ecbench.report.documents import Document, FactGroup, Row, Section, Table, Tone, fact_groups, shown, title_of
from ecbench.report.figures import (
    LEG_COLUMNS,
    case_title,
    environment_line,
    leg_row,
    remarks,
    stage_line,
    summary,
    warnings,
)
from ecbench.report.target_figures import PARTS, TARGET_COLUMNS, TARGET_HEADING, TARGET_LEAD, target_rows

if TYPE_CHECKING:
    from ecbench.core.records import CaseResult, RoundTripResult

NUMERIC_LEG_COLUMNS = frozenset({"descr.", "bandwidth", "95% interval", "of ceiling", "fill", "submit", "copy"})
LEG_TONES = {
    LegStatus.PASSED: Tone.GOOD,
    LegStatus.FAILED: Tone.BAD,
    LegStatus.ERROR: Tone.BAD,
    LegStatus.SKIPPED: Tone.CAUTION,
}


def describe_round_trip(result: RoundTripResult) -> Document:
    """Answers, a table per case, and all that was recorded about the machine and the cases."""
    parameters = [_parameters(case) for case in result.cases]
    return Document(
        title=title_of(result),
        subtitle=environment_line(result),
        warnings=tuple(warnings(result)),
        answers=answers(result),
        sections=(*(_section(case, result) for case in result.cases), *_targets(result)),
        facts=(*fact_groups(result), *parameters),
        footer=f"{summary(result)}; {stage_line(result)}",
    )


def _section(case: CaseResult, result: RoundTripResult) -> Section:
    rows = tuple(Row(leg_row(leg), LEG_TONES[leg.status]) for leg in case.legs)
    table = Table(LEG_COLUMNS, rows, NUMERIC_LEG_COLUMNS)
    return Section(case.case_id, case_title(case), table, tuple(remarks(case, result)))


def _targets(result: RoundTripResult) -> tuple[Section, ...]:
    rows = tuple(map(Row, target_rows(result)))
    if not rows:
        return ()
    return (Section(TARGET_HEADING, TARGET_LEAD, Table(TARGET_COLUMNS, rows, frozenset(PARTS))),)


def _parameters(case: CaseResult) -> FactGroup:
    facts = (("workload", case.workload), *((name, shown(value)) for name, value in case.params.items()))
    return FactGroup(f"Parameters of {case.case_id}", facts)
