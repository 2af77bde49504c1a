"""A scan as text, Markdown and SARIF."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest

from ecbench.core.records import Environment, RunResult, to_json
from ecbench.core.scan_records import Finding, ScanCase, ScanResult, ScanRule, Severity, UnparsableFile
from ecbench.report.formats.sarif import FINGERPRINT, render_sarif
from ecbench.report.formats.scan_markdown import render_scan_markdown
from ecbench.report.formats.scan_text import finding_line, render_scan_text
from ecbench.report.schema import results_schema
from tests.conftest import GOLDEN
from tests.golden_files import assert_matches_golden

SARIF_SCHEMA = json.loads((GOLDEN / "sarif-schema-2.1.0.json").read_text())
ENVIRONMENT = Environment(
    device="none",
    device_name="nothing ran: sources were read",
    torch="2.13.0",
    numpy="2.4.6",
    python="3.11.7",
    ecbench="0.1.0",
    driver=None,
    host_cpu="x86_64",
    host_cpus=2,
    host_memory_bytes=2**33,
    last_level_cache_bytes=None,
    kernel="6.1.0",
    pinning="none",
    emulation=None,
)
RULES = [
    ScanRule(id="R1", title="addresses become an int64 tensor", why="torch refuses it", mend="use torch.uint64"),
    ScanRule(id="R4", title="address added to signed integers", why="it is float64 then", mend="use np.uint64"),
    ScanRule(id="R7", title="address converted to float", why="53 bits", mend="keep it an int"),
]


def finding(**changes):
    values = {
        "rule": "R1",
        "severity": Severity.CRASH,
        "path": "src/engine/table.py",
        "line": 12,
        "column": 9,
        "end_line": 14,
        "expression": "torch.tensor([x.data_ptr() for x in tensors])",
        "why": "torch refuses it",
        "mend": "use torch.uint64",
        "qualified_name": "Table.make",
        "identity": "0123456789abcdef01234567",
    }
    return Finding(**(values | changes))


def result(**changes) -> ScanResult:
    values = {
        "case_id": "src",
        "params": {"path": "src"},
        "findings": [
            finding(),
            finding(rule="R4", severity=Severity.CORRUPTION, line=20, end_line=20, expression="base + a | b"),
            finding(severity=Severity.LATENT, note="in the platform-bound folder 'nvidia'", path="src/nvidia/a b.py"),
        ],
        "files_scanned": 31,
        "unparsable": [UnparsableFile(path="src/bad.py", line=3, reason="invalid syntax")],
        "suppressed": 2,
        "suppressed_without_reason": 1,
        "baselined": 4,
        "rules": RULES,
    }
    return RunResult(
        schema_version=1,
        kind="scan-ptrs",
        started_at="2026-01-02T03:04:05+00:00",
        environment=ENVIRONMENT,
        settings={"path": "src", "fail_on": "crash"},
        cases=[ScanCase(**(values | changes))],
    )


EMPTY = result(findings=[], unparsable=[], suppressed=0, suppressed_without_reason=0, baselined=0, files_scanned=1)


@pytest.mark.parametrize(
    ("render", "name"),
    [(render_scan_text, "scan.txt"), (render_scan_markdown, "scan.md"), (render_sarif, "scan.sarif")],
)
def test_formats_look_as_they_did(render, name):
    assert_matches_golden(name, render(result()))


def test_text_has_one_line_for_each_finding_that_starts_with_path_and_line():
    lines = render_scan_text(result()).splitlines()
    assert lines[0].startswith("src/engine/table.py:12:9: R1 crash: torch.tensor(")
    assert lines[2].startswith("src/nvidia/a b.py:12:9: R1 latent (in the platform-bound folder 'nvidia'): ")


def test_text_explains_only_the_rules_that_are_broken():
    text = render_scan_text(result())
    assert text.count("mend: ") == 2
    assert "R7" not in text


def test_text_without_findings_is_one_line():
    assert render_scan_text(EMPTY) == "0 findings, 1 file scanned\n"


def test_markdown_escapes_what_would_break_a_table():
    assert r"base + a \| b" in render_scan_markdown(result())


@pytest.mark.parametrize("scan", [result(), EMPTY, result(rules=[])], ids=["full", "empty", "no-rules"])
def test_sarif_follows_its_schema(scan):
    jsonschema.Draft4Validator(SARIF_SCHEMA).validate(json.loads(render_sarif(scan)))


def test_the_sarif_schema_would_notice_a_mistake():
    log = json.loads(render_sarif(result()))
    log["runs"][0]["results"][0]["level"] = "crash"
    assert not jsonschema.Draft4Validator(SARIF_SCHEMA).is_valid(log)


def test_sarif_names_rule_place_severity_and_identity():
    run = json.loads(render_sarif(result()))["runs"][0]
    crash, _, latent = run["results"]
    assert run["tool"]["driver"]["rules"][crash["ruleIndex"]]["id"] == crash["ruleId"] == "R1"
    location = crash["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "src/engine/table.py"
    assert location["region"] == {"startLine": 12, "startColumn": 9, "endLine": 14}
    assert crash["partialFingerprints"] == {FINGERPRINT: "0123456789abcdef01234567"}
    assert (crash["level"], latent["level"]) == ("error", "note")
    assert latent["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/nvidia/a%20b.py"


def test_sarif_names_absolute_paths_as_file_uris():
    run = json.loads(render_sarif(result(findings=[finding(path="/opt/src/é.py")])))["runs"][0]
    location = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location["uri"] == "file:///opt/src/%C3%A9.py"


def test_sarif_reports_files_that_could_not_be_parsed():
    run = json.loads(render_sarif(result()))["runs"][0]
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"] == "not parsed: invalid syntax"


def test_json_comes_back_as_the_same_records_and_follows_the_published_schema():
    encoded = to_json(result())
    assert msgspec.json.decode(encoded, type=ScanResult) == result()
    jsonschema.validate(json.loads(encoded), results_schema())


def test_json_has_the_fields_that_others_rely_on():
    case = json.loads(to_json(result()))["cases"][0]
    first = case["findings"][0]
    assert {"rule", "severity", "path", "line", "expression", "mend"} <= set(first)
    assert [entry["severity"] for entry in case["findings"]] == ["crash", "corruption", "latent"]


def test_severities_are_ordered_from_latent_to_corruption():
    assert sorted(Severity, key=lambda severity: severity.rank) == [
        Severity.LATENT,
        Severity.CRASH,
        Severity.CORRUPTION,
    ]


def test_a_finding_without_a_note_has_no_parentheses():
    assert finding_line(finding(expression="x")) == "src/engine/table.py:12:9: R1 crash: x"
