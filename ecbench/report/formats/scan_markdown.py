"""A scan as Markdown, for an issue or a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.formats.markdown import escape, table
from ecbench.report.formats.scan_text import summary_line

if TYPE_CHECKING:
    from ecbench.core.scan_records import Finding, ScanCase, ScanResult

_COLUMNS = ("rule", "severity", "where", "expression", "note")


def render_scan_markdown(result: ScanResult) -> str:
    """A heading, a table of findings, the rules they break, and files that could not be parsed."""
    lines = [f"# ecbench {result.kind}, {result.started_at}", ""]
    for case in result.cases:
        lines += [f"## {escape(case.case_id)}", "", f"**{summary_line(case)}**", ""]
        if case.findings:
            lines += table(_COLUMNS, map(_row, case.findings))
        lines += _rules(case)
        lines += _unparsable(case)
    return "\n".join(lines)


def _row(finding: Finding) -> tuple[str, ...]:
    where = f"{finding.path}:{finding.line}"
    return (finding.rule, finding.severity.value, where, finding.expression, finding.note or "")


def _rules(case: ScanCase) -> list[str]:
    broken = {finding.rule for finding in case.findings}
    lines = [
        f"- **{rule.id}** {escape(rule.title)}. Why: {escape(rule.why)}. Mend: {escape(rule.mend)}."
        for rule in case.rules
        if rule.id in broken
    ]
    return [*lines, ""] if lines else []


def _unparsable(case: ScanCase) -> list[str]:
    lines = [f"- {escape(f'{entry.path}:{entry.line or 1}: {entry.reason}')}" for entry in case.unparsable]
    return ["Not parsed:", "", *lines, ""] if lines else []
