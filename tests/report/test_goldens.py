"""Every format of one fixed result, held against a file; plots by the words in them, which no font changes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from junitparser import JUnitXml

from ecbench.report.formats.names import ReportFormat
from ecbench.report.plots.rendering import render_svg
from ecbench.version import __version__
from ecbench.workflows.reporting import Report, render_files, render_text
from tests.golden_files import assert_matches_golden
from tests.report.samples import sample_result
from tests.report.sweeps import sweep_result

_SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)
ROUND_TRIP = Report((sample_result(),), ("one",))
SWEEP = Report((sweep_result(sizes=[4096, 16384, 65536], counts=[64, 512], rounds=4),), ("grid",))
COMPARISON = Report((sample_result(), sample_result()), ("before", "after"))


def words(drawing):
    root = ET.fromstring(render_svg(drawing))
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    ("report", "name"),
    [(ROUND_TRIP, "roundtrip"), (SWEEP, "sweep"), (COMPARISON, "comparison")],
    ids=lambda part: str(part)[:10],
)
@pytest.mark.parametrize("wanted", [ReportFormat.CONSOLE, ReportFormat.MARKDOWN, ReportFormat.HTML, ReportFormat.CSV])
def test_texts_look_as_they_did(report, name, wanted):
    text = _SVG.sub("<svg/>", render_text(report, wanted)).replace("\r\n", "\n")
    text = text.replace(f'content="ecbench {__version__}"', 'content="ecbench VERSION"')
    ending = {"console": "report.txt", "markdown": "md"}.get(wanted, wanted.value)
    assert_matches_golden(f"{name}.{ending}", text)


def test_junit_looks_as_it_did():
    assert_matches_golden("roundtrip.junit.xml", render_text(ROUND_TRIP, ReportFormat.JUNIT).replace("><", ">\n<"))


@pytest.mark.parametrize(
    ("report", "name"),
    [(ROUND_TRIP, "roundtrip"), (SWEEP, "sweep"), (COMPARISON, "comparison")],
    ids=lambda part: str(part)[:10],
)
def test_plots_say_what_they_did(report, name):
    lines = []
    for drawings in report.drawings:
        for drawing in drawings:
            lines += [f"== {drawing.name}", drawing.caption, *words(drawing)]
    assert_matches_golden(f"{name}.plots.txt", "\n".join(lines) + "\n")


UNMISSABLE = {
    ReportFormat.CONSOLE: ("EMULATED", "INTERRUPTED", "WRONG: swapped", "ERROR", "SKIPPED"),
    ReportFormat.MARKDOWN: ("EMULATED", "INTERRUPTED", "WRONG: swapped", "ERROR", "SKIPPED"),
    ReportFormat.HTML: ("EMULATED", "INTERRUPTED", "WRONG: swapped", "ERROR", "SKIPPED", "NO. 2 of 4 legs"),
    ReportFormat.CSV: (",failed,", ",error,", ",skipped,", "no Intel GPU took part"),
    ReportFormat.JSON: ('"failed"', '"error"', '"skipped"', '"complete": false', "no Intel GPU took part"),
    ReportFormat.JUNIT: ("<failure", "<error", "<skipped", "EMULATED", "interrupted"),
}


@pytest.mark.parametrize("wanted", UNMISSABLE)
def test_what_is_not_plainly_right_cannot_be_missed(wanted):
    text = render_text(ROUND_TRIP, wanted)
    for word in UNMISSABLE[wanted]:
        assert word in text


def test_what_is_not_plainly_right_cannot_be_missed_in_plots():
    (drawings,) = ROUND_TRIP.drawings
    text = " ".join(words(drawings[0]))
    for word in ("WRONG: swapped", "ERROR, not measured", "SKIPPED, not measured", "EMULATED"):
        assert word in text


def test_junit_counts_a_case_per_leg_and_one_for_the_interruption():
    (suite,) = JUnitXml.fromstring(render_text(ROUND_TRIP, ReportFormat.JUNIT).encode())
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (5, 1, 2, 1)
    whole = Report((sample_result(complete=True),), ("one",))
    (suite,) = JUnitXml.fromstring(render_text(whole, ReportFormat.JUNIT).encode())
    assert (suite.tests, suite.errors) == (4, 1)


@pytest.mark.parametrize("report", [ROUND_TRIP, COMPARISON], ids=["roundtrip", "comparison"])
def test_the_same_result_gives_the_same_bytes(report):
    formats = list(ReportFormat)
    first, again = (render_files(each, formats) for each in (report, Report(report.stored, report.labels)))
    assert [name for name, content in first.items() if content != again[name]] == []
