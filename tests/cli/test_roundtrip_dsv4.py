from __future__ import annotations

import json
import re

import jsonschema
import pytest

from ecbench.report.schema import results_schema
from ecbench.targets import reference_target
from tests.faults import FaultyEngine
from tests.kv_offload.test_scenario import GROUPS

SHORT = """\
workload = "dsv4"
title = "A short prompt"
model = "deepseek-v4-flash"
tokens = 300
rounds = 1
"""


@pytest.fixture
def short(here):
    """A scenario that runs in a fraction of a second."""
    (here / "short.toml").write_text(SHORT)
    return "short.toml"


def _document(here):
    (path,) = (here / "reports").glob("*.json")
    return json.loads(path.read_text())


def _error_line(result):
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("ecbench:")]
    assert "Traceback" not in result.stderr
    return line


def test_a_run_prints_what_identifies_it_and_writes_the_schema_s_json(ecbench, short, here):
    result = ecbench("roundtrip", short, "--device", "cpu")
    assert result.exit_code == 0
    title = "deepseek-v4-flash, 300 tokens, policy vllm-0.33, retention 0, packed caches, blocks_per_chunk 1, tp 1"
    for words in (title, "store", "load", "right", "chunks stored by group: swa-a 2", "blocks loaded by group"):
        assert words in result.stdout
    document = _document(here)
    jsonschema.validate(document, results_schema())
    (case,) = document["cases"]
    assert (case["workload"], case["case_id"]) == ("dsv4", "short/deepseek-v4-flash")
    named = {"model": "deepseek-v4-flash", "tokens": 300, "policy": "vllm-0.33", "retention_interval": 0, "tp": 1}
    assert case["params"].items() >= {**named, "layout": "packed", "blocks_per_chunk": 1}.items()
    assert [(leg["direction"], leg["status"]) for leg in case["legs"]] == [("store", "passed"), ("load", "passed")]
    for leg in case["legs"]:
        assert leg["copied_bytes"] == leg["blocks"] * 1_002_240
        assert leg["verify"]["checked_bytes"] > 2 * leg["copied_bytes"]


def test_the_workload_alone_runs_its_default_set(ecbench, here):
    result = ecbench("roundtrip", "--workload", "dsv4", "--rounds", 1, "--device", "cpu", "--quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    cases = _document(here)["cases"]
    assert [case["params"]["layout"] for case in cases] == ["packed", "per-layer"]
    assert {leg["status"] for case in cases for leg in case["legs"]} == {"passed"}
    assert any(leg["blocks"] == 92 for leg in cases[1]["legs"])


def test_scenarios_of_both_workloads_run_together(ecbench, short, tiny, here):
    assert ecbench("roundtrip", short, tiny, "--device", "xpu-sim").exit_code == 0
    document = _document(here)
    assert [case["workload"] for case in document["cases"]] == ["dsv4", "ec"]
    assert all("no Intel GPU" in leg["notes"][0] for case in document["cases"] for leg in case["legs"])


def test_a_scenario_of_another_workload_than_asked_for_is_exit_code_two(ecbench, short, here):
    result = ecbench("roundtrip", short, "--workload", "ec", "--device", "cpu")
    assert result.exit_code == 2
    assert "short.toml has workload 'dsv4', not 'ec': leave out --workload ec" in _error_line(result)


def test_a_model_chooses_the_workloads_that_know_it(ecbench, here):
    for model, scenarios in (("deepseek-v4-pro", {"kv-dsv4"}), ("gemma3-4b", {"ec-image", "ec-churned"})):
        result = ecbench("roundtrip", "--model", model, "--dry-run", "--device", "cpu")
        assert result.exit_code == 0
        ran = set(re.findall(rf"^(\w+-\w+)\S*/{re.escape(model)}", result.stdout, re.MULTILINE))
        assert ran >= scenarios
        assert len({name.split("-")[0] for name in ran}) == 1


def test_a_model_that_no_workload_knows_lists_those_of_all(ecbench, here):
    result = ecbench("roundtrip", "--model", "gpt-2", "--device", "cpu")
    assert result.exit_code == 2
    assert re.search(r"unknown model 'gpt-2'.*qwen3-vl-8b.*deepseek-v4-pro", _error_line(result))


def test_a_hybrid_of_a_file_runs_with_k_and_v_apart(ecbench, here):
    (here / "hybrid.toml").write_text(GROUPS)
    lines = ['model = "hybrid.toml"', 'layout = "per-layer"', 'retention_interval = "none"', "tokens = 200"]
    kept = [line for line in SHORT.splitlines() if not line.startswith(("model", "tokens"))]
    (here / "apart.toml").write_text("\n".join([*kept, *lines]))
    assert ecbench("roundtrip", "apart.toml", "--device", "cpu", "--no-coalesce").exit_code == 0
    store = _document(here)["cases"][0]["legs"][0]
    assert store["descriptors"] == 12 * 4 + 26 * 3
    assert store["copied_bytes"] == 12 * 2 * 4000 + 26 * 3 * 1000


def test_wrong_bytes_are_exit_code_one(ecbench, short, here, monkeypatch):
    def flip(source, destination, sources, destinations, sizes):
        destination[destinations[0]] ^= 1

    monkeypatch.setattr(reference_target, "open_engine", lambda name, device: FaultyEngine(flip))
    result = ecbench("roundtrip", short, "--device", "cpu")
    assert result.exit_code == 1
    assert "WRONG: corrupt" in result.stdout


@pytest.mark.parametrize("engine", ["memmove", "gather", "per-copy"])
@pytest.mark.parametrize("layout", ["packed", "per-layer"])
def test_every_host_engine_moves_both_layouts(ecbench, here, engine, layout):
    (here / "s.toml").write_text(f'{SHORT}layout = "{layout}"\n')
    assert ecbench("roundtrip", "s.toml", "--device", "cpu", "--engine", engine).exit_code == 0


def test_a_prompt_that_no_memory_holds_is_refused_before_it_is_taken(ecbench, here):
    (here / "huge.toml").write_text(SHORT.replace("300", "4000000") + 'retention_interval = "none"\n')
    result = ecbench("roundtrip", "huge.toml", "--device", "cpu")
    assert result.exit_code == 2
    assert re.search(
        r"needs \d.* GiB, more than .*: use fewer or smaller images, fewer tokens, or", _error_line(result)
    )


def test_shipped_scenarios_are_listed_with_their_workload(ecbench):
    lines = ecbench("list", "scenarios").stdout.splitlines()
    named = [line for line in lines if line.startswith("kv-dsv4-")]
    assert len(named) == 3
    assert all("dsv4: DeepSeek-V4 Flash" in line for line in named)
