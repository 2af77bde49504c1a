from __future__ import annotations

import io
import json

import jsonschema
import msgspec
import pytest
from rich.console import Console

from ecbench.core.errors import DataError
from ecbench.core.records import to_json
from ecbench.report.formats.console import print_round_trip
from ecbench.report.formats.markdown import escape, render_markdown, table
from ecbench.report.loading import load_result, load_round_trip
from ecbench.report.schema import results_schema
from tests.golden_files import assert_matches_golden
from tests.report.samples import sample_result


def _console_text(result, width=200, **options):
    stream = io.StringIO()
    print_round_trip(result, Console(file=stream, width=width, highlight=False, **options))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def test_console_golden():
    assert_matches_golden("roundtrip.txt", _console_text(sample_result()))


def test_console_golden_in_eighty_columns():
    text = _console_text(sample_result(), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert_matches_golden("roundtrip-80.txt", text)


def test_markdown_golden():
    assert_matches_golden("roundtrip.md", render_markdown(sample_result()))


def test_json_golden():
    assert_matches_golden("roundtrip.json", to_json(sample_result()).decode())


@pytest.mark.parametrize("show", [_console_text, render_markdown])
def test_what_is_not_plainly_right_cannot_be_missed(show):
    text = show(sample_result())
    for word in (
        "EMULATED",
        "INTERRUPTED",
        "STAND-INS",
        "WRONG: swapped",
        "ERROR",
        "SKIPPED",
        "2 of 4 legs",
        "32.0 MiB",
    ):
        assert word in text


@pytest.mark.parametrize("show", [_console_text, render_markdown])
def test_an_unremarkable_result_makes_no_noise(show):
    result = sample_result()
    environment = msgspec.structs.replace(result.environment, device="cuda:0", emulation=None, stand_ins=[])
    case = msgspec.structs.replace(result.cases[0], legs=[msgspec.structs.replace(result.cases[0].legs[0], notes=[])])
    text = show(sample_result(environment=environment, cases=[case], complete=True))
    assert not any(word in text for word in ("EMULATED", "INTERRUPTED", "Host to host", "note:", "WRONG"))
    assert "every byte is right (256 MiB checked); 1 case in 2.00 s" in text


def test_a_host_result_says_that_it_is_no_accelerators_bandwidth():
    result = sample_result()
    environment = msgspec.structs.replace(result.environment, device="cpu", emulation=None)
    assert "no accelerator's bandwidth" in _console_text(sample_result(environment=environment))


def test_markdown_cells_cannot_break_the_table():
    assert table(["a"], [["x|y\n<b>"]]) == ["| a |", "| --- |", "| x\\|y \\<b\\> |", ""]
    assert escape("`*_[x]") == "\\`\\*\\_\\[x\\]"


def test_results_fit_the_published_schema_and_wrong_ones_do_not():
    schema = results_schema()
    document = json.loads(to_json(sample_result()))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    document["cases"][0]["legs"][0]["status"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_a_result_survives_the_way_through_a_file(tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(to_json(sample_result()))
    assert load_round_trip(path) == sample_result()


def test_forged_figures_are_computed_anew_on_loading(tmp_path):
    document = json.loads(to_json(sample_result()))
    leg = document["cases"][0]["legs"][0]
    honest = leg["median_s"]
    leg.update(median_s=1e-9, ceiling_ratio=99, bandwidth_bytes_per_s=1e18)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document))
    loaded = load_round_trip(path).cases[0].legs[0]
    assert loaded.median_s == honest
    assert loaded.ceiling_ratio < 1


def test_unknown_fields_of_a_later_minor_version_are_ignored(tmp_path):
    document = json.loads(to_json(sample_result()))
    document["from_the_future"] = document["cases"][0]["more"] = 1
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document))
    assert load_round_trip(path) == sample_result()


def _damaged():
    good = json.loads(to_json(sample_result()))
    sample = good["cases"][0]["legs"][0]["samples"][0]
    yield "truncated", to_json(sample_result())[:500], "damaged result"
    yield "truncated in the head", to_json(sample_result())[:30], "no ecbench result"
    yield (
        "two kinds",
        to_json(sample_result())
        .replace(b'"kind"', b'"kind": "roundtrip", "kind"')
        .replace(b'"kind": "roundtrip",\n', b'"kind": "sweep",\n'),
        "damaged result",
    )
    yield "deep", b"[" * 100_000, "no ecbench result"
    yield "empty", b"", "no ecbench result"
    yield "foreign", b'{"benchmarks": []}', "no ecbench result"
    yield "binary", b"\x89PNG\xff\xfe", "no ecbench result"
    yield "array", b"[]", "no ecbench result"
    yield "newer", json.dumps({**good, "schema_version": 2}).encode(), "read it with a newer ecbench"
    yield (
        "unknown kind",
        json.dumps({**good, "kind": "bake"}).encode(),
        "a result of 'bake', known are roundtrip, sweep",
    )
    yield "other kind", json.dumps({**good, "kind": "doctor"}).encode(), "damaged result"
    yield "wrong type", json.dumps({**good, "cases": 5}).encode(), "damaged result"
    sample["total_s"] = 0
    yield "zero time", json.dumps(good).encode(), "total_s = 0"


@pytest.mark.parametrize(("content", "message"), [row[1:] for row in _damaged()], ids=[row[0] for row in _damaged()])
def test_what_is_no_whole_result_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refused:
        load_round_trip(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.json: cannot be read"):
        load_round_trip(tmp_path / "nothing.json")


def test_a_result_of_another_kind_is_no_round_trip(tmp_path):
    path = tmp_path / "scan.json"
    path.write_bytes(to_json(sample_result(kind="scan-ptrs", cases=[])))
    assert load_result(path).cases == []
    with pytest.raises(DataError, match=r"scan\.json: a result of 'scan-ptrs' cannot be shown as a round trip"):
        load_round_trip(path)
