"""A scan as SARIF 2.1.0, which code hosts and editors show beside the source."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ecbench.core.scan_records import Severity

if TYPE_CHECKING:
    from ecbench.core.scan_records import Finding, ScanCase, ScanResult, ScanRule, UnparsableFile

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "ecbenchIdentity/v1"
_LEVELS = {Severity.CORRUPTION: "error", Severity.CRASH: "error", Severity.LATENT: "note"}


def render_sarif(result: ScanResult) -> str:
    """The scan as a SARIF log with one run for each case."""
    version = result.environment.ecbench
    log = {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [_run(case, version) for case in result.cases]}
    return json.dumps(log, indent=2) + "\n"


def _run(case: ScanCase, version: str) -> dict[str, Any]:
    positions = {rule.id: position for position, rule in enumerate(case.rules)}
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if case.unparsable:
        invocation["toolExecutionNotifications"] = [_notification(entry) for entry in case.unparsable]
    driver = {"name": "ecbench scan-ptrs", "version": version, "rules": [_rule(rule) for rule in case.rules]}
    return {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": [_result(finding, positions) for finding in case.findings],
    }


def _rule(rule: ScanRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.why}."},
        "help": {"text": f"{rule.mend}."},
    }


def _result(finding: Finding, positions: dict[str, int]) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": _physical(finding.path, finding.line, finding.column)}
    location["physicalLocation"]["region"]["endLine"] = finding.end_line
    if finding.qualified_name:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.qualified_name}]
    note = f" ({finding.note})" if finding.note else ""
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.severity.value}{note}: {finding.expression}. {finding.why}. {finding.mend}."},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: finding.identity},
        "properties": {"severity": finding.severity.value},
    }
    if finding.rule in positions:
        result["ruleIndex"] = positions[finding.rule]
    return result


def _notification(entry: UnparsableFile) -> dict[str, Any]:
    return {
        "level": "warning",
        "message": {"text": f"not parsed: {entry.reason}"},
        "locations": [{"physicalLocation": _physical(entry.path, entry.line or 1, 1)}],
    }


def _physical(path: str, line: int, column: int) -> dict[str, Any]:
    region = {"startLine": max(line, 1), "startColumn": max(column, 1)}
    return {"artifactLocation": {"uri": _uri(path)}, "region": region}


def _uri(path: str) -> str:
    quoted = quote(PurePosixPath(path).as_posix())
    return f"file://{quoted}" if path.startswith("/") else quoted
