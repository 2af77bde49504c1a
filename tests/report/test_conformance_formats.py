"""A conformance result in every text format."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from ecbench.core.conformance_records import ConformanceCase, ConformanceOutcome, ConformanceResult
from ecbench.core.records import RunResult, to_json
from ecbench.report.checks import Outcome
from ecbench.report.descriptions.conformance import conformance_checks, describe_conformance
from ecbench.report.documents import Tone
from ecbench.report.formats.names import ENDINGS, ReportFormat
from ecbench.report.loading import load_result
from ecbench.report.schema import results_schema
from ecbench.workflows.reporting import render_text, report_on
from tests.report.samples import sample_result

PASSED = ConformanceCase(
    check="worker.exact-fit",
    behaviour=1,
    description="an output that fills its blocks",
    outcome=ConformanceOutcome.PASSED,
    expected="the bytes are there",
    inputs=3,
    seconds=0.0625,
)
FAILED = replace(
    PASSED,
    check="edge.killed",
    behaviour=None,
    outcome=ConformanceOutcome.FAILED,
    happened="files: <one>",
    smallest_input="bytes=1",
    output="a last word",
    removed_files=["/dev/shm/name.mmap"],
)
DIFFERENT = replace(
    FAILED, check="cycle.repeated", behaviour=34, outcome=ConformanceOutcome.KNOWN_DIFFERENCE, reason="by design"
)
NOT_APPLICABLE = replace(
    PASSED, check="edge.shm", behaviour=None, outcome=ConformanceOutcome.NOT_APPLICABLE, reason="no mounts"
)


def result(*cases, **changes) -> ConformanceResult:
    fields = {name: getattr(sample_result(), name) for name in RunResult.__struct_fields__}
    settings = {"target": "vllm", "version": "vLLM 0.0"}
    return RunResult(
        **{**fields, "kind": "conformance", "settings": settings, "cases": list(cases), "complete": True, **changes}
    )


ALL = result(PASSED, FAILED, DIFFERENT, NOT_APPLICABLE)


@pytest.mark.parametrize("wanted", ENDINGS)
def test_every_format_shows_outcome_expectation_and_reason(wanted):
    text = render_text(report_on(ALL), wanted).replace("\\", "")
    for word in ("worker.exact-fit", "the bytes are there", "bytes=1", "by design", "no mounts", "edge.killed"):
        assert word in text


def test_the_answer_counts_outcomes_and_behaviours():
    (answer,) = describe_conformance(ALL).answers
    assert answer.text == ("4 checks, 2 of 36 behaviours: 1 passed, 1 failed, 1 known difference, 1 not applicable.")
    assert answer.tone is Tone.BAD
    (good,) = describe_conformance(result(PASSED, NOT_APPLICABLE)).answers
    assert good.tone is Tone.GOOD


def test_nothing_checked_is_said():
    assert "none was run" in describe_conformance(result()).answers[0].text


def test_stand_ins_and_interruptions_are_said_first():
    replaced = msgspec.structs.replace(ALL.environment, stand_ins=["an event", "an operator"])
    interrupted = result(PASSED, environment=replaced, complete=False)
    first, second = describe_conformance(interrupted).warnings
    assert first == "Not complete: interrupted. Only finished checks are here."
    assert second == "Replaced parts of the target or its device: an event; an operator."


def test_files_that_were_left_are_listed():
    sections = {section.heading: section for section in describe_conformance(ALL).shown_sections}
    notes = sections["Files that the target left behind"].notes
    assert notes[0] == "edge.killed left /dev/shm/name.mmap: removed"
    assert "Failed" not in {section.heading for section in describe_conformance(result(PASSED)).shown_sections}


@pytest.mark.parametrize(
    ("case", "outcome", "message"),
    [
        (PASSED, Outcome.PASSED, ""),
        (FAILED, Outcome.FAILED, "expected the bytes are there; happened: files: <one>, with bytes=1"),
        (DIFFERENT, Outcome.SKIPPED, "by design; expected the bytes are there; happened: files: <one>, with bytes=1"),
        (NOT_APPLICABLE, Outcome.SKIPPED, "no mounts"),
    ],
)
def test_a_check_is_a_check_for_ci(case, outcome, message):
    (line,) = conformance_checks(case)
    assert (line.outcome, line.message) == (outcome, message)


def test_junit_counts_failures_and_skipped_checks():
    root = ET.fromstring(render_text(report_on(ALL), ReportFormat.JUNIT))
    assert len(root.findall(".//testcase")) == 4
    assert len(root.findall(".//failure")) == 1
    assert len(root.findall(".//skipped")) == 2
    assert "a last word" in root.find(".//testcase[@name='edge.killed']/system-out").text


def test_a_result_comes_back_from_its_file_and_fits_the_published_schema(tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(to_json(ALL))
    assert load_result(path) == ALL
    jsonschema.validate(msgspec.json.decode(path.read_bytes()), results_schema())
