"""Names with quotes, tags, formulas, escape codes and letters that turn a line round."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ecbench.core.records import RoundTripResult, to_json
from ecbench.report.formats.html import Page, render_html
from ecbench.report.formats.junit import render_junit
from ecbench.report.formats.names import ENDINGS, ReportFormat
from ecbench.report.kinds import describe
from ecbench.report.loading import load_result
from ecbench.report.plain_text import printable, printable_record
from ecbench.workflows.reporting import Report, load_report, render_text, report_on, result_stem
from tests.report.hostile import NAME, hostile_result
from tests.report.samples import sample_result

CONTROLS = {chr(code) for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\r"} | set("\u202e\u202c")


@pytest.mark.parametrize("wanted", ENDINGS)
def test_no_format_holds_a_control_character_or_one_that_reorders_text(wanted):
    text = render_text(report_on(hostile_result()), wanted)
    allowed = {"\u202e", "\u202c"} if wanted is ReportFormat.JSON else set()
    assert not (set(text) & CONTROLS - allowed)


def test_html_holds_no_tag_from_a_name():
    text = render_text(Report((hostile_result(), hostile_result()), (NAME, "b")), ReportFormat.HTML)
    assert "<script" not in text
    assert "&lt;script&gt;stolen=1&lt;/script&gt;" in text


def test_html_needs_nothing_from_anywhere():
    text = render_text(report_on(sample_result()), ReportFormat.HTML)
    assert "default-src 'none'" in text
    assert not [word for word in ("src=", "@import", "url(http", '<link rel="stylesheet') if word in text]


def test_markdown_holds_no_tag_from_a_name():
    text = render_text(report_on(hostile_result()), ReportFormat.MARKDOWN)
    assert "<script" not in text.replace("\\<script", "")


def test_file_names_come_from_a_result_but_stay_in_their_folder():
    stem = result_stem(hostile_result())
    assert not set(stem) & set("/\\<>\"'| ")
    assert not stem.startswith(".")
    assert len(stem) <= 80


@given(st.text(max_size=40))
def test_printable_text_is_stable_and_one_line(text):
    shown = printable(text)
    assert printable(shown) == shown
    assert len(shown.splitlines()) <= 1
    assert not set(shown) & CONTROLS


def test_a_record_without_such_letters_is_not_copied():
    result = sample_result()
    assert printable_record(result, RoundTripResult) is result


@given(st.text(max_size=30).filter(lambda text: not any(0xD800 <= ord(letter) < 0xE000 for letter in text)))
def test_any_name_gives_whole_xml_and_html(name):
    case = sample_result().cases[1]
    result = sample_result(cases=[replace(case, case_id=name, legs=[replace(case.legs[0], reason=name)])])
    root = ET.fromstring(render_junit([result]))
    assert len(root.findall(".//testcase")) == 2
    assert render_html([Page(describe(result))]).count("</article>") == 1


def test_files_of_the_same_name_are_told_apart(tmp_path):
    paths = [tmp_path / "a" / "run.json", tmp_path / "b" / "run.json"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(to_json(sample_result()))
    assert load_report(paths).labels == ("a/run", "b/run")
    assert load_report([paths[0], paths[0]]).labels == ("run #1", "run #2")
    assert load_report(paths[:1]).labels == ("run",)
    assert load_result(paths[0]) == sample_result()
