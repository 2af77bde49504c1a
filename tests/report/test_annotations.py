from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.scan_records import Severity
from ecbench.report.checks import CheckLine, Outcome
from ecbench.report.formats import annotations as formats
from ecbench.report.formats.annotations import MOST_PER_LEVEL, workflow_commands
from ecbench.workflows.comparable import comparable
from ecbench.workflows.comparison import compare_results
from ecbench.workflows.reporting import report_on, step_annotations
from ecbench.workflows.timing_rules import TimingRule
from tests.comparison_samples import base_result, noisy_result, slower_result
from tests.report.samples import sample_result
from tests.report.test_scan_formats import result as scan_result

COMMAND = re.compile(r"::(?P<level>error|warning|notice) (?P<properties>[^\r\n]*?)::(?P<message>[^\r\n]*)")


def _parsed(line):
    """A workflow command as GitHub's runner reads it."""
    match = COMMAND.fullmatch(line)
    properties = dict(entry.split("=", 1) for entry in match["properties"].split(","))
    return match["level"], {name: unquote(value) for name, value in properties.items()}, unquote(match["message"])


def _compared(new):
    return compare_results(
        comparable(base_result()), comparable(new), kind="gate", rules=[TimingRule()], under_test=(), settings={}
    )


def test_a_regression_is_an_error_and_what_is_inconclusive_a_warning():
    (error,) = workflow_commands(_compared(slower_result(0.5)), None)
    level, properties, message = _parsed(error)
    assert (level, properties) == ("error", {"title": "ecbench gate: tiny/example save"})
    assert message == "slower beyond threshold"
    (warning,) = workflow_commands(_compared(noisy_result()), None)
    assert _parsed(warning)[0] == "warning"
    assert _parsed(warning)[2] == "too noisy"
    assert workflow_commands(_compared(slower_result(0.0)), None) == []


def test_wrong_bytes_and_refused_copies_are_errors():
    levels = [_parsed(line)[0] for line in workflow_commands(sample_result(), None)]
    assert levels
    assert set(levels) == {"error"}


def test_findings_of_a_scan_have_file_line_and_column(tmp_path):
    scanned = scan_result()
    found = [_parsed(line) for line in workflow_commands(scanned, None)]
    findings = {(entry.path, entry.line): entry for case in scanned.cases for entry in case.findings}
    placed = [(level, entry) for level, entry, _ in found if "col" in entry]
    assert len(placed) == len(findings)
    for level, entry in placed:
        finding = findings[entry["file"], int(entry["line"])]
        assert int(entry["col"]) == finding.column
        assert level == ("notice" if finding.severity is Severity.LATENT else "error")
    unparsable = [entry for case in scanned.cases for entry in case.unparsable]
    assert sum("parse line" in entry["title"] for _, entry, _ in found) == len(unparsable) > 0


def test_files_are_named_as_seen_from_the_checkout(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    scanned = scan_result()
    line = workflow_commands(scanned, tmp_path)[0]
    path = scanned.cases[0].findings[0].path
    assert _parsed(line)[1]["file"] == f"sub/{path}"
    assert _parsed(workflow_commands(scanned, Path("/elsewhere"))[0])[1]["file"] == path
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert step_annotations(report_on(scanned))[0] == line
    monkeypatch.setenv("GITHUB_WORKSPACE", "")
    assert _parsed(step_annotations(report_on(scanned))[0])[1]["file"] == path


def _with_findings(count):
    scanned = scan_result()
    finding = next(entry for entry in scanned.cases[0].findings if entry.severity is not Severity.LATENT)
    findings = [msgspec.structs.replace(finding, line=number + 1) for number in range(count)]
    return msgspec.structs.replace(
        scanned, cases=[msgspec.structs.replace(scanned.cases[0], findings=findings, unparsable=[])]
    )


@pytest.mark.parametrize(("findings", "last"), [(10, "R"), (11, "2 more are in the report"), (30, "21 more are in")])
def test_what_github_would_drop_is_counted(findings, last):
    lines = workflow_commands(_with_findings(findings), None)
    assert len(lines) == MOST_PER_LEVEL
    assert last in _parsed(lines[-1])[2]


@given(st.text(), st.text(), st.text())
def test_no_text_can_break_out_of_its_command(group, message, path):
    check = CheckLine(group, "save", Outcome.FAILED, message, "why", path=path or None, line=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "checks_of", lambda _: [check])
        (line,) = workflow_commands(base_result(), None)
    assert "\n" not in line
    assert "\r" not in line
    _, properties, shown = _parsed(line)
    assert properties["title"] == ("ecbench roundtrip: save" if path else f"ecbench roundtrip: {group} save")
    assert shown == (message or "why")
    assert properties.get("file", "") == path
