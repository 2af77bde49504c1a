"""``probe-ptr-overflow`` and ``scan-ptrs`` as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.probe_records import Ruling, safe_everywhere
from ecbench.core.scan_records import Severity
from ecbench.report.documents import Answer, Document, Row, Section, Table, Tone, fact_groups, title_of
from ecbench.report.formats.scan_text import severity_counts, summary_line
from ecbench.report.probe_figures import (
    RULING_COLUMNS,
    case_notes,
    case_title,
    matrix_columns,
    matrix_notes,
    matrix_rows,
    not_probed_lines,
    probed,
    ruling_row,
    unexpected_lines,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.probe_records import ProbeCase, ProbeResult
    from ecbench.core.scan_records import Finding, ScanCase, ScanResult

_RULING_TONES = {
    Ruling.SAFE: Tone.GOOD,
    Ruling.WARN: Tone.CAUTION,
    Ruling.FAILS: Tone.BAD,
    Ruling.CORRUPTS: Tone.BAD,
    None: Tone.CAUTION,
}
_SEVERITY_TONES = {Severity.LATENT: Tone.CAUTION, Severity.CRASH: Tone.BAD, Severity.CORRUPTION: Tone.BAD}


def describe_probe(result: ProbeResult) -> Document:
    """What is safe, the matrix of versions where there are several, and the rulings of each."""
    cases = probed(result.cases)
    surprises = [f"{case_title(case)}: {line}" for case in cases for line in unexpected_lines(case)]
    matrix = (_matrix(cases),) if len(cases) > 1 else ()
    return Document(
        title=title_of(result),
        subtitle=", ".join(case_title(case) for case in result.cases[:1]) or "nothing was probed",
        warnings=(*not_probed_lines(result.cases), *surprises),
        answers=(_what_is_safe(cases),),
        sections=(*matrix, *(_rulings(case) for case in cases)),
        facts=fact_groups(result),
    )


def _what_is_safe(cases: Sequence[ProbeCase]) -> Answer:
    question = "Which convention keeps addresses >= 2**63?"
    safe = safe_everywhere(cases)
    advice = " ".join(dict.fromkeys(case.advice for case in cases))
    if not safe:
        return Answer(question, f"None that was tried. {advice}".strip(), Tone.BAD)
    return Answer(question, f"{', '.join(safe)}. {advice}", Tone.GOOD)


def _matrix(cases: Sequence[ProbeCase]) -> Section:
    rows = tuple(Row((name, *(cell.text for cell in cells))) for name, cells in matrix_rows(cases))
    return Section("By version", table=Table(tuple(matrix_columns(cases)), rows), notes=tuple(matrix_notes(cases)))


def _rulings(case: ProbeCase) -> Section:
    rows = tuple(Row(ruling_row(convention), _RULING_TONES[convention.ruling]) for convention in case.conventions)
    table = Table(RULING_COLUMNS, rows, frozenset({"ns/element"}))
    return Section(case_title(case), case.advice, table, tuple(case_notes(case)))


def describe_scan(result: ScanResult) -> Document:
    """Findings, and the rules they break."""
    return Document(
        title=title_of(result),
        subtitle=f"Python {result.environment.python}, ecbench {result.environment.ecbench}",
        answers=tuple(_what_was_found(case) for case in result.cases),
        sections=tuple(
            section for case in result.cases for section in (_findings(case), _rules(case), _unparsed(case))
        ),
        facts=fact_groups(result),
    )


def _what_was_found(case: ScanCase) -> Answer:
    counts = severity_counts(case)
    if counts[Severity.CRASH] or counts[Severity.CORRUPTION]:
        tone = Tone.BAD
    else:
        tone = Tone.CAUTION if case.findings or case.unparsable else Tone.GOOD
    return Answer(f"Is {case.case_id} safe for addresses >= 2**63?", f"{summary_line(case)}.", tone)


def _findings(case: ScanCase) -> Section:
    rows = tuple(Row(_finding_row(finding), _SEVERITY_TONES[finding.severity]) for finding in case.findings)
    columns = ("rule", "severity", "where", "expression", "note")
    return Section(f"Findings in {case.case_id}", summary_line(case), Table(columns, rows))


def _finding_row(finding: Finding) -> tuple[str, ...]:
    where = f"{finding.path}:{finding.line}"
    return finding.rule, finding.severity.value, where, finding.expression, finding.note or ""


def _rules(case: ScanCase) -> Section:
    broken = {finding.rule for finding in case.findings}
    rows = tuple(Row((rule.id, rule.title, rule.why, rule.mend)) for rule in case.rules if rule.id in broken)
    return Section("Rules broken", table=Table(("rule", "what", "why", "mend"), rows))


def _unparsed(case: ScanCase) -> Section:
    rows = tuple(Row((entry.path, str(entry.line or 1), entry.reason), Tone.BAD) for entry in case.unparsable)
    return Section("Not parsed", table=Table(("path", "line", "reason"), rows))
