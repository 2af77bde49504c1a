"""Results of every kind in every text format."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from ecbench.core.doctor_records import Listed, ok, problem, warning
from ecbench.core.probe_records import ProbeResult, Ruling, Unexpected
from ecbench.core.records import RunResult, to_json
from ecbench.report.checks import Outcome, probe_checks
from ecbench.report.formats.names import ENDINGS, ReportFormat
from ecbench.report.kinds import KINDS, kind_of
from ecbench.report.loading import load_result
from ecbench.report.schema import results_schema
from ecbench.workflows.reporting import Report, render_text, report_on
from tests.conftest import GOLDEN
from tests.report.samples import sample_result
from tests.report.sweeps import sweep_result
from tests.report.test_scan_formats import result as scan_result

PROBE = msgspec.json.decode((GOLDEN / "probe_result.json").read_bytes(), type=ProbeResult)


def _of_kind(kind, cases):
    fields = {name: getattr(sample_result(), name) for name in RunResult.__struct_fields__}
    return RunResult(**{**fields, "kind": kind, "cases": cases})


DOCTOR = _of_kind(
    "doctor",
    [ok("torch", "2.13.0"), warning("=NUMA", "two nodes", "bind <it>"), problem("/dev/shm", "full", "make room")],
)
LISTING = _of_kind(
    "list",
    [
        Listed(name="memmove", available=True, verified=True, description="one memmove per descriptor"),
        Listed(name="triton", available=False, verified=False, description="a kernel", reason="runs on cuda only"),
    ],
)
RESULTS = {
    "roundtrip": sample_result(),
    "sweep": sweep_result(sizes=[4096, 8192], counts=[8, 16], engines=["memmove"]),
    "probe-ptr-overflow": PROBE,
    "scan-ptrs": scan_result(),
    "doctor": DOCTOR,
    "list": LISTING,
}
WORDS = {
    "roundtrip": ("swapped", "not asked for"),
    "sweep": ("torn", "no room: use less"),
    "probe-ptr-overflow": ("numpy-view-uint64", "uint64-setitem-raw"),
    "scan-ptrs": ("torch.tensor([x.data_ptr() for x in tensors])", "invalid syntax"),
    "doctor": ("make room", "NUMA"),
    "list": ("runs on cuda only", "memmove"),
}
"""Of each result, what every format must show."""


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("wanted", ENDINGS)
def test_every_kind_is_shown_in_every_text_format(kind, wanted):
    text = render_text(report_on(RESULTS[kind]), wanted)
    for word in WORDS[kind]:
        assert word in text.replace("\\", "").replace("&#39;", "'")


@pytest.mark.parametrize("kind", RESULTS)
def test_every_kind_comes_back_from_its_file_and_fits_the_published_schema(kind, tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(to_json(RESULTS[kind]))
    assert load_result(path) == RESULTS[kind]
    jsonschema.validate(json.loads(path.read_bytes()), results_schema())


def test_the_schema_holds_a_result_to_its_own_kind():
    schema = results_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["kind"]["enum"] == list(KINDS)
    document = json.loads(to_json(sample_result()))
    for broken in ({**document, "kind": "doctor"}, {**document, "kind": "bake"}, {**document, "cases": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


@pytest.mark.parametrize("kind", RESULTS)
def test_junit_has_a_case_per_check(kind):
    root = ET.fromstring(render_text(report_on(RESULTS[kind]), ReportFormat.JUNIT))
    checks = [check for case in RESULTS[kind].cases for check in kind_of(RESULTS[kind]).checks(case)]
    assert len(root.findall(".//testcase")) == len(checks) + (not RESULTS[kind].complete)
    failed = sum(check.outcome is Outcome.FAILED for check in checks)
    assert len(root.findall(".//failure")) == failed


def test_a_convention_passes_where_it_does_what_is_known_of_it():
    case = PROBE.cases[0]
    first = case.conventions[0]
    assert all(check.outcome is Outcome.PASSED for check in probe_checks(case))
    other = Ruling.CORRUPTS if first.expected is not Ruling.CORRUPTS else Ruling.SAFE
    changed = replace(case, conventions=[replace(first, ruling=other), replace(first, name="x", ruling=None)])
    assert [check.outcome for check in probe_checks(changed)] == [Outcome.FAILED, Outcome.SKIPPED]
    (missing,) = probe_checks(replace(case, reason="no such version"))
    assert (missing.outcome, missing.message) == (Outcome.ERROR, "no such version")
    surprise = Unexpected(name="index_put uint64 raw high", expected="raises", found="exact")
    assert (
        probe_checks(replace(case, conventions=[], unexpected=[surprise]))[0].message == "expected raises, found exact"
    )


def test_rows_of_a_csv_name_their_section_and_start_no_formula():
    text = render_text(report_on(DOCTOR), ReportFormat.CSV)
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["section", "check", "status", "found", "mend"]
    assert rows[1] == ["Checks", "'=NUMA", "warning", "two nodes", "bind <it>"]


def test_results_of_different_kinds_are_shown_one_after_the_other():
    report = Report((DOCTOR, sample_result()), ("machine", "run"))
    assert report.comparison is None
    text = render_text(report, ReportFormat.HTML)
    assert text.count("<article>") == 2
    assert [document["kind"] for document in json.loads(render_text(report, ReportFormat.JSON))] == [
        "doctor",
        "roundtrip",
    ]
