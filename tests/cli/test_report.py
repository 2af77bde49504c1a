from __future__ import annotations

import json

import pytest

from ecbench.core.records import to_json
from tests.report.samples import sample_result


@pytest.fixture
def saved(here):
    (here / "result.json").write_bytes(to_json(sample_result()))
    return "result.json"


@pytest.mark.parametrize(("output_format", "word"), [("console", "WRONG: swapped"), ("markdown", "| leg |"), ("json", '"kind"')])
def test_a_saved_result_can_be_shown_again(ecbench, saved, output_format, word):
    result = ecbench("report", saved, "--format", output_format)
    assert result.exit_code == 0
    assert word in result.stdout


def test_the_schema_is_published(ecbench):
    result = ecbench("report", "--schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_nothing_to_show_is_exit_code_two(ecbench):
    result = ecbench("report")
    assert result.exit_code == 2
    assert "ecbench: no result given" in result.stderr


@pytest.mark.parametrize("content", ["", "{", '{"kind": "roundtrip", "schema_version": 99}'])
def test_a_file_that_is_no_result_is_exit_code_four(ecbench, here, content):
    (here / "bad.json").write_text(content)
    result = ecbench("report", "bad.json")
    assert result.exit_code == 4
    assert result.stderr.count("\n") == 1
    assert "bad.json" in result.stderr
