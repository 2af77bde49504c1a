"""``conformance`` as a document and as checks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.report.checks import CheckLine, Outcome
from ecbench.report.documents import Answer, Document, Row, Section, Table, Tone, counted, fact_groups, shown, title_of

if TYPE_CHECKING:
    from ecbench.core.conformance_records import ConformanceCase, ConformanceResult

_BEHAVIOURS = 36
_WORDS = {
    ConformanceOutcome.PASSED: "passed",
    ConformanceOutcome.FAILED: "FAILED",
    ConformanceOutcome.KNOWN_DIFFERENCE: "known difference",
    ConformanceOutcome.NOT_APPLICABLE: "not applicable",
}
_TONES = {
    ConformanceOutcome.PASSED: Tone.GOOD,
    ConformanceOutcome.FAILED: Tone.BAD,
    ConformanceOutcome.KNOWN_DIFFERENCE: Tone.CAUTION,
    ConformanceOutcome.NOT_APPLICABLE: Tone.CAUTION,
}
_OUTCOMES = {
    ConformanceOutcome.PASSED: Outcome.PASSED,
    ConformanceOutcome.FAILED: Outcome.FAILED,
    ConformanceOutcome.KNOWN_DIFFERENCE: Outcome.SKIPPED,
    ConformanceOutcome.NOT_APPLICABLE: Outcome.SKIPPED,
}
_EXPLAINED = frozenset({ConformanceOutcome.KNOWN_DIFFERENCE, ConformanceOutcome.NOT_APPLICABLE})


def describe_conformance(result: ConformanceResult) -> Document:
    """What failed first, then every check."""
    failed = [case for case in result.cases if case.outcome is ConformanceOutcome.FAILED]
    others = [case for case in result.cases if case.outcome in _EXPLAINED]
    return Document(
        title=title_of(result),
        subtitle=f"target {shown(result.settings.get('target'))}: {shown(result.settings.get('version'))}",
        warnings=_warnings(result),
        answers=(_answer(result),),
        sections=(
            Section("Failed", table=Table(("check", "expected", "happened", "smallest input"), _failures(failed))),
            Section("Known differences and checks that do not apply", table=_explained(others)),
            Section("All checks", table=_all_checks(result)),
            Section("Files that the target left behind", notes=_left_files(result)),
        ),
        facts=fact_groups(result),
    )


def _warnings(result: ConformanceResult) -> tuple[str, ...]:
    stand_ins = result.environment.stand_ins
    replaced = (f"Replaced parts of the target or its device: {'; '.join(stand_ins)}.",) if stand_ins else ()
    if result.complete:
        return replaced
    return (f"Not complete: {result.ended_by or 'interrupted'}. Only finished checks are here.", *replaced)


def _answer(result: ConformanceResult) -> Answer:
    counts = Counter(case.outcome for case in result.cases)
    total = len(result.cases)
    parts = [f"{counts[outcome]} {_WORDS[outcome].lower()}" for outcome in ConformanceOutcome if counts[outcome]]
    applied = [case for case in result.cases if case.outcome is not ConformanceOutcome.NOT_APPLICABLE]
    covered = len({case.behaviour for case in applied} - {None})
    text = f"{counted(total, 'check')}, {covered} of {_BEHAVIOURS} behaviours: {', '.join(parts) or 'none was run'}."
    tone = Tone.BAD if counts[ConformanceOutcome.FAILED] else Tone.GOOD
    return Answer("Does the target conform?", text, tone)


def _failures(cases: list[ConformanceCase]) -> tuple[Row, ...]:
    return tuple(
        Row((case.check, case.expected, case.happened or "", case.smallest_input or "any"), Tone.BAD) for case in cases
    )


def _explained(cases: list[ConformanceCase]) -> Table:
    rows = tuple(
        Row((case.check, _WORDS[case.outcome], case.happened or "", case.reason or ""), Tone.CAUTION) for case in cases
    )
    return Table(("check", "outcome", "happened", "reason"), rows)


def _all_checks(result: ConformanceResult) -> Table:
    rows = tuple(
        Row(
            (
                case.check,
                str(case.behaviour or "edge"),
                case.description,
                f"{case.inputs:,}",
                f"{case.seconds * 1e3:.0f}",
                _WORDS[case.outcome],
            ),
            _TONES[case.outcome],
        )
        for case in result.cases
    )
    columns = ("check", "behaviour", "what is checked", "inputs", "ms", "outcome")
    return Table(columns, rows, frozenset({"behaviour", "inputs", "ms"}))


def _left_files(result: ConformanceResult) -> tuple[str, ...]:
    return tuple(
        f"{case.check} left {', '.join(case.removed_files)}: removed" for case in result.cases if case.removed_files
    )


def conformance_checks(case: ConformanceCase) -> list[CheckLine]:
    """One check; a known difference is skipped, not failed."""
    where = f", with {case.smallest_input}" if case.smallest_input else ""
    found = f"expected {case.expected}; happened: {case.happened}{where}" if case.happened else ""
    message = "; ".join(part for part in (case.reason, found) if part)
    details = "\n".join(part for part in (case.description, case.output) if part)
    group = f"behaviour {case.behaviour}" if case.behaviour else "edge case"
    return [CheckLine(group, case.check, _OUTCOMES[case.outcome], message, case.outcome.value, details, case.seconds)]
