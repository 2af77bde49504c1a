"""A scan as plain text: one finding per line, as editors and terminals can follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.scan_records import Severity

if TYPE_CHECKING:
    from ecbench.core.scan_records import Finding, ScanCase, ScanResult


def render_scan_text(result: ScanResult) -> str:
    """Findings, the rules they break, files that could not be parsed, and a summary."""
    lines: list[str] = []
    for case in result.cases:
        lines += [finding_line(finding) for finding in case.findings]
        lines += _rule_lines(case)
        lines += [f"{entry.path}:{entry.line or 1}: not parsed: {entry.reason}" for entry in case.unparsable]
        lines.append(summary_line(case))
    return "\n".join(lines) + "\n"


def finding_line(finding: Finding) -> str:
    """One finding: where, which rule, how bad, and the expression."""
    note = f" ({finding.note})" if finding.note else ""
    where = f"{finding.path}:{finding.line}:{finding.column}"
    return f"{where}: {finding.rule} {finding.severity.value}{note}: {finding.expression}"


def summary_line(case: ScanCase) -> str:
    """What was found, scanned, skipped and set aside."""
    counts = severity_counts(case)
    found = ", ".join(f"{count} {severity.value}" for severity, count in counts.items() if count)
    total = _counted(len(case.findings), "finding")
    parts = [f"{total} ({found})" if found else total, f"{_counted(case.files_scanned, 'file')} scanned"]
    if case.unparsable:
        parts.append(f"{_counted(len(case.unparsable), 'file')} not parsed")
    if case.suppressed:
        unexplained = case.suppressed_without_reason
        parts.append(f"{case.suppressed} suppressed" + (f" ({unexplained} without a reason)" if unexplained else ""))
    if case.baselined:
        parts.append(f"{case.baselined} in the baseline")
    return ", ".join(parts)


def severity_counts(case: ScanCase) -> dict[Severity, int]:
    """Findings by severity, worst first."""
    ordered = sorted(Severity, key=lambda severity: -severity.rank)
    return {severity: sum(finding.severity is severity for finding in case.findings) for severity in ordered}


def _rule_lines(case: ScanCase) -> list[str]:
    broken = {finding.rule for finding in case.findings}
    lines: list[str] = []
    for rule in case.rules:
        if rule.id in broken:
            lines += [f"{rule.id} {rule.title}", f"   why:  {rule.why}", f"   mend: {rule.mend}"]
    return ["", *lines, ""] if lines else []


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
