from __future__ import annotations

import json

import jsonschema
import pytest
from msgspec.structs import replace

from ecbench.core.records import Fault, to_json
from ecbench.report.checks import Outcome
from ecbench.report.descriptions.selftest import describe_selftest, selftest_checks
from ecbench.report.documents import Tone
from ecbench.report.formats.names import ENDINGS, ReportFormat
from ecbench.report.loading import load_result
from ecbench.report.plots.power_curve import draw_power_curve
from ecbench.report.plots.rendering import render_png, render_svg
from ecbench.report.schema import results_schema
from ecbench.report.selftest_figures import percent
from ecbench.workflows.reporting import render_text, report_on
from tests.golden_files import assert_matches_golden
from tests.selftest_samples import injected_fault, process_rounds, selftest_case, selftest_result

FAULTS = [
    injected_fault(Fault.SWAPPED),
    injected_fault(Fault.TORN, "load", named=Fault.TRUNCATED, counts={"truncated": 1}),
    injected_fault(Fault.OVERRUN, injected=False, found=False, named=None, counts={}),
]
MISSED = injected_fault(Fault.STALE, found=False, named=None, counts={})
CASE = selftest_case(faults=FAULTS)
NOISY = selftest_case(rounds=process_rounds(noise=0.2), faults=FAULTS)
SHORT = selftest_case(rounds=process_rounds(turns=4), faults=FAULTS)
RESULT = selftest_result(CASE)


def _answers(case):
    return {answer.question: answer for answer in describe_selftest(selftest_result(case)).answers}


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (ReportFormat.CONSOLE, "selftest.txt"),
        (ReportFormat.MARKDOWN, "selftest.md"),
    ],
)
def test_texts_look_as_they_did(wanted, name):
    assert_matches_golden(name, render_text(report_on(RESULT), wanted))


@pytest.mark.parametrize("wanted", ENDINGS)
def test_every_text_format_shows_rates_and_faults(wanted):
    text = render_text(report_on(RESULT), wanted)
    for word in ("tiny/example", "swapped", "torn"):
        assert word in text
    if wanted is not ReportFormat.JUNIT:
        assert "95%" in text or "failed_apart" in text


def test_a_result_comes_back_from_its_file_and_fits_the_published_schema(tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(to_json(RESULT))
    assert load_result(path) == RESULT
    jsonschema.validate(json.loads(path.read_bytes()), results_schema())


def test_a_missed_fault_is_unmistakable():
    case = selftest_case(faults=[*FAULTS, MISSED])
    assert _answers(case)["Is every byte fault found?"].tone is Tone.BAD
    text = render_text(report_on(selftest_result(case)), ReportFormat.CONSOLE)
    assert "2 of 3 injected faults were found, 1 of them under their own name" in text
    assert "MISSED" in text


def test_false_alarms_beyond_the_promise_are_unmistakable():
    answer = _answers(replace(CASE, cries_wolf=True))["Does the gate cry wolf here?"]
    assert answer.tone is Tone.BAD
    assert "promised are at most 5%" in answer.text


def test_a_machine_without_a_fitting_threshold_is_told_what_to_do():
    answer = _answers(NOISY)["Which threshold fits this machine?"]
    assert answer.tone is Tone.CAUTION
    assert "None of 1.5%, 2.5%, 5%, 10%" in answer.text
    assert "--pairs" in answer.text


def test_few_turns_are_called_too_few_everywhere():
    for question, answer in _answers(SHORT).items():
        if question != "Is every byte fault found?":
            assert answer.text.startswith("Unknown: fewer turns"), question
    drawing = draw_power_curve(selftest_result(SHORT))
    assert drawing.figure is None
    assert drawing.caption == "Not drawn: too few turns were run."


def test_what_the_rates_rest_on_is_said():
    text = render_text(report_on(RESULT), ReportFormat.MARKDOWN)
    assert "200 re-paired gates of 10 pairs, drawn from 24 turns, with 144 process rounds" in text
    assert "only 2 gates share none of them" in text


def test_an_emulated_device_is_unmistakable():
    environment = replace(RESULT.environment, emulation="xpu-sim: no Intel GPU took part")
    text = render_text(report_on(replace(RESULT, environment=environment)), ReportFormat.CONSOLE)
    assert "EMULATED: xpu-sim" in text


def test_a_curve_per_threshold_with_its_intervals():
    drawing = draw_power_curve(RESULT)
    failed, undecided = drawing.figure.axes
    assert [line.get_label() for line in failed.get_lines() if line.get_marker() != "None"] == [
        "threshold 1.5%",
        "threshold 2.5%",
        "threshold 5%",
        "threshold 10%",
    ]
    assert [label.get_text() for label in failed.get_xticklabels()] == ["none", "3%", "5%", "10%", "20%"]
    assert len(failed.collections) == len(undecided.collections) == 4
    assert render_png(drawing).startswith(b"\x89PNG\r\n")
    assert b"inconclusive gates" in render_svg(drawing)


def test_checks_are_one_per_fault_and_two_on_the_gate():
    checks = {check.name: check for check in selftest_checks(selftest_case(faults=[*FAULTS, MISSED]))}
    assert {name: check.outcome for name, check in checks.items()} == {
        "swapped save": Outcome.PASSED,
        "torn load": Outcome.PASSED,
        "overrun save": Outcome.SKIPPED,
        "stale save": Outcome.FAILED,
        "false alarms": Outcome.PASSED,
        "a threshold fits": Outcome.PASSED,
    }
    assert checks["torn load"].details == "found, named truncated"
    assert checks["stale save"].message == "MISSED"


@pytest.mark.parametrize(
    ("case", "alarms", "threshold"),
    [
        (NOISY, Outcome.PASSED, Outcome.SKIPPED),
        (SHORT, Outcome.SKIPPED, Outcome.SKIPPED),
        (replace(CASE, cries_wolf=True), Outcome.FAILED, Outcome.PASSED),
    ],
    ids=["noisy", "short", "crying wolf"],
)
def test_checks_on_the_gate(case, alarms, threshold):
    outcomes = {check.name: check.outcome for check in selftest_checks(case)}
    assert (outcomes["false alarms"], outcomes["a threshold fits"]) == (alarms, threshold)


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0%"), (0.05, "5%"), (0.025, "2.5%"), (0.0034, "0.3%"), (1, "100%"), (0.1, "10%")]
)
def test_shares_have_no_digits_that_say_nothing(share, words):
    assert percent(share) == words
