from __future__ import annotations

import io

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from ecbench.core.probe_records import ProbeCase, ProbeResult, Ruling, Unexpected
from ecbench.core.records import to_json
from ecbench.report.formats.probe_console import print_probe, print_probe_details
from ecbench.report.formats.probe_markdown import render_probe_markdown
from ecbench.report.schema import results_schema
from tests.conftest import GOLDEN

RESULT = msgspec.json.decode((GOLDEN / "probe_result.json").read_bytes(), type=ProbeResult)
OLDER, NEWER = RESULT.cases
FAILED = ProbeCase(
    case_id="torch-9.9.9-numpy-2.4.6", params={"torch": "9.9.9", "numpy": "2.4.6"}, reason="no such version"
)


def printed(result: ProbeResult, show=print_probe) -> str:
    stream = io.StringIO()
    show(result, Console(file=stream, width=200, highlight=False))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def with_cases(*cases: ProbeCase) -> ProbeResult:
    return replace(RESULT, cases=list(cases))


def ruled(case: ProbeCase, name: str, ruling: Ruling) -> ProbeCase:
    return replace(case, conventions=[replace(c, ruling=ruling) if c.name == name else c for c in case.conventions])


@pytest.mark.parametrize(
    ("golden", "text"),
    [
        ("probe_one.txt", printed(with_cases(OLDER))),
        ("probe_matrix.txt", printed(RESULT)),
        ("probe_details.txt", printed(with_cases(OLDER), print_probe_details)),
        ("probe_one.md", render_probe_markdown(with_cases(OLDER))),
        ("probe_matrix.md", render_probe_markdown(RESULT)),
    ],
)
def test_each_format_shows_a_result_as_its_golden_file_does(golden, text):
    assert text == (GOLDEN / golden).read_text()


def test_the_matrix_marks_what_changed_between_neighbours():
    (line,) = [line for line in printed(RESULT).splitlines() if line.startswith("uint64-setitem-twos")]
    assert line.split(maxsplit=1)[1].endswith("fails (OverflowError) *")
    unchanged = printed(with_cases(OLDER, OLDER))
    assert not [line for line in unchanged.splitlines() if line.endswith(" *")]


def test_the_matrix_names_what_is_safe_everywhere():
    mixed = with_cases(ruled(OLDER, "struct-bytes", Ruling.FAILS), NEWER)
    (line,) = [line for line in printed(mixed).splitlines() if line.startswith("Safe everywhere: ")]
    assert "numpy-view-uint64" in line
    assert "struct-bytes" not in line
    assert "uint64-setitem-raw" not in line


def test_different_advice_is_given_per_version():
    text = printed(with_cases(OLDER, replace(NEWER, advice="Use something else.")))
    assert "torch 2.14.1+cu130, NumPy 2.4.6, Python 3.11.7: Use something else." in text


@pytest.mark.parametrize("render", [printed, render_probe_markdown])
def test_what_nobody_expected_is_shown(render):
    surprise = Unexpected(name="uint64-setitem-raw", expected="fails ValueError", found="safe")
    text = render(with_cases(replace(OLDER, unexpected=[surprise])))
    assert "UNEXPECTED uint64-setitem-raw: expected fails ValueError, found safe" in text
    assert "All as expected" not in text


@pytest.mark.parametrize("render", [printed, render_probe_markdown])
def test_a_version_that_could_not_be_probed_says_why_and_leaves_the_others_a_table(render):
    text = render(with_cases(OLDER, FAILED))
    assert "NOT PROBED torch 9.9.9, NumPy 2.4.6: no such version" in text
    assert "numpy-view-uint64" in text
    assert "NOT PROBED" in render(with_cases(FAILED))


def test_device_addresses_are_counted():
    text = printed(with_cases(replace(OLDER, device="xpu", device_addresses=16, device_addresses_high=15)))
    assert "Device xpu: 15 of 16 addresses have bit 63 set; one of them was probed too." in text


def test_a_plain_pipe_gets_no_colour_and_a_terminal_does():
    stream = io.StringIO()
    print_probe(RESULT, Console(file=stream, width=200, force_terminal=True, color_system="standard"))
    assert "\x1b[" in stream.getvalue()
    assert "\x1b[" not in printed(RESULT)


def test_a_result_comes_back_from_json_as_it_was():
    assert msgspec.json.decode(to_json(RESULT), type=ProbeResult) == RESULT


def test_the_schema_holds_for_a_result():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(msgspec.json.decode(to_json(RESULT)), results_schema())
