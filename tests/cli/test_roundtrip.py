from __future__ import annotations

import errno
import json
import os
import re

import jsonschema
import pytest
import torch

from ecbench.engine import registry
from ecbench.report.schema import results_schema
from ecbench.targets import reference_target
from ecbench.transfer.shared_region import shm_free_bytes
from ecbench.transfer.writers import WRITERS
from ecbench.workflows import round_trip
from ecbench.workflows.scenarios import shipped_workload
from ecbench.workflows.workloads import default_scenarios
from tests.cli.conftest import TINY
from tests.faults import FaultyEngine


def _error_line(result):
    lines = [line for line in result.stderr.splitlines() if line.startswith("ecbench:")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


def _document(here):
    (path,) = (here / "reports").glob("*.json")
    return json.loads(path.read_text())


def test_a_run_prints_a_table_and_writes_json_markdown_and_a_page(ecbench, tiny, here):
    result = ecbench("roundtrip", tiny, "--device", "cpu")
    assert result.exit_code == 0
    for word in ("tiny/qwen2-vl-2b", "288 blocks of 3.00 KiB", "save", "load", "of ceiling", "right", "95% interval"):
        assert word in result.stdout
    assert {path.suffix for path in (here / "reports").iterdir()} == {".json", ".md", ".html"}
    document = _document(here)
    jsonschema.validate(document, results_schema())
    assert document["kind"] == "roundtrip"
    assert document["schema_version"] == 1
    assert document["environment"]["device"] == "cpu"
    (case,) = document["cases"]
    assert case["params"]["model"] == "qwen2-vl-2b"
    for leg in case["legs"]:
        assert leg["status"] == "passed"
        assert leg["blocks"] == 288
        assert leg["copied_bytes"] == 288 * 3072
        assert len(leg["samples"]) == 1
        assert leg["verify"]["ok"] is True
        assert leg["verify"]["checked_bytes"] > 2 * leg["copied_bytes"]
        assert leg["notes"] == [note for note in leg["notes"] if "last-level cache" in note]
    assert [leg["direction"] for leg in case["legs"]] == ["save", "load"]


def test_the_default_set_covers_one_run_churn_and_deepstack_and_skips_nothing(ecbench, here):
    result = ecbench("roundtrip", "--rounds", 1, "--device", "cpu", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    cases = _document(here)["cases"]
    assert {(case["params"]["model"], case["params"]["placement"]) for case in cases if case["workload"] == "ec"} == {
        ("qwen2.5-vl-7b", "one-run"),
        ("qwen2.5-vl-7b", "churned"),
        ("qwen3-vl-8b", "one-run"),
    }
    assert {(case["params"]["model"], case["params"]["layout"]) for case in cases if case["workload"] == "dsv4"} == {
        ("deepseek-v4-flash", "packed"),
        ("deepseek-v4-flash", "per-layer"),
    }
    legs = [leg for case in cases for leg in case["legs"]]
    assert {leg["status"] for leg in legs} == {"passed"}
    churned = next(case for case in cases if case["params"].get("placement") == "churned")
    assert all(leg["descriptors"] > 2 * churned["params"]["entries"] for leg in churned["legs"])


def test_emulated_results_say_so_everywhere(ecbench, tiny, here):
    result = ecbench("roundtrip", tiny, "--device", "xpu-sim")
    assert result.exit_code == 0
    assert "EMULATED" in result.stdout
    (markdown,) = (here / "reports").glob("*.md")
    assert "EMULATED" in markdown.read_text()
    document = _document(here)
    assert "no Intel GPU" in document["environment"]["emulation"]
    assert all(any("no Intel GPU" in note for note in leg["notes"]) for leg in document["cases"][0]["legs"])


def test_json_on_stdout_is_only_json(ecbench, tiny, here):
    result = ecbench("roundtrip", tiny, "--json", "-", "--device", "cpu")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["cases"][0]["case_id"] == "tiny/qwen2-vl-2b"


def test_json_goes_where_it_is_told_and_out_gets_the_reports(ecbench, tiny, here):
    result = ecbench("roundtrip", tiny, "--json", "x/result.json", "--out", "y/z", "--quiet", "--device", "cpu")
    assert result.exit_code == 0
    assert json.loads((here / "x" / "result.json").read_text())["complete"] is True
    assert len(list((here / "y" / "z").iterdir())) == 3
    assert not (here / "reports").exists()


@pytest.mark.parametrize("engine", registry.ENGINE_NAMES)
@pytest.mark.parametrize("coalesce", ["--coalesce", "--no-coalesce"])
def test_every_engine_with_and_without_coalescing(ecbench, tiny, here, engine, coalesce):
    result = ecbench("roundtrip", tiny, "--device", "cpu", "--engine", engine, coalesce)
    if result.exit_code == 3:
        assert f"engine {engine!r}" in _error_line(result)
        return
    assert result.exit_code == 0
    legs = _document(here)["cases"][0]["legs"]
    wanted = {"--coalesce": (2, 1), "--no-coalesce": (288, 288)}[coalesce]
    assert tuple(leg["descriptors"] for leg in legs) == wanted
    assert all(engine in {"auto", leg["engine"]} for leg in legs)


def _torch_takes_high(value):
    try:
        torch.zeros(1, dtype=torch.uint64)[0] = value
    except (ValueError, OverflowError, RuntimeError):
        return False
    return True


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_works_or_gives_a_leg_with_the_exception_and_the_mend(ecbench, tiny, here, writer):
    result = ecbench("roundtrip", tiny, "--device", "xpu-sim", "--writer", writer)
    values = {"setitem": 2**63, "setitem-twos": -(2**63)}
    works = writer not in values or _torch_takes_high(values[writer])
    assert result.exit_code == (0 if works else 1)
    for leg in _document(here)["cases"][0]["legs"]:
        assert leg["status"] == ("passed" if works else "error")
        if not works:
            assert "Error" in leg["reason"]
            assert "use --writer numpy-batch" in leg["reason"]
    assert "Traceback" not in result.output


def test_wrong_bytes_are_exit_code_one_and_are_named(ecbench, tiny, here, monkeypatch):
    def flip(source, destination, sources, destinations, sizes):
        destination[destinations[0]] ^= 1

    monkeypatch.setattr(reference_target, "open_engine", lambda name, device: FaultyEngine(flip))
    result = ecbench("roundtrip", tiny, "--device", "cpu")
    assert result.exit_code == 1
    assert "WRONG: corrupt" in result.stdout
    leg = _document(here)["cases"][0]["legs"][0]
    assert leg["status"] == "failed"
    assert leg["verify"]["fault"] == "corrupt"
    assert leg["verify"]["mismatched_bytes"] == 1


def test_the_same_seed_gives_the_same_blocks(ecbench, here):
    placed = []
    for _ in range(2):
        ecbench("roundtrip", "ec-churned", "--rounds", 1, "--seed", 5, "--json", "r.json", "-q", "--device", "cpu")
        case = json.loads((here / "r.json").read_text())["cases"][0]
        placed.append([leg["descriptors"] for leg in case["legs"]])
    assert placed[0] == placed[1]


def test_a_dry_run_states_memory_and_takes_none(ecbench, here):
    free = shm_free_bytes()
    result = ecbench("roundtrip", "--dry-run", "--device", "cpu")
    assert result.exit_code == 0
    for column in ("host region", "device buffers", "peak host memory"):
        assert column in result.stdout
    assert len(re.findall(r"\d MiB|\d GiB", result.stdout)) == 3 * len(default_scenarios("all", None))
    assert os.listdir(here) == []
    assert abs(shm_free_bytes() - free) < 8 << 20


BAD_INPUT = {
    "device": (["--device", "tpu"], "unknown device 'tpu': choose one of auto, cpu"),
    "engine": (["--engine", "warp"], "unknown engine 'warp'.*memmove"),
    "writer": (["--writer", "pen"], "unknown writer 'pen'.*numpy-batch"),
    "model": (["--model", "gpt-2"], "unknown model 'gpt-2'.*qwen3-vl-8b"),
    "workload": (["--workload", "video"], "unknown workload 'video'.*ec"),
    "scenario": (["nothing"], "unknown scenario 'nothing'.*ec-image-set"),
    "path": (["./nothing.toml"], "nothing.toml: cannot be read"),
    "folder": (["./"], "cannot be read"),
    "twice": (["ec-image-set", "ec-image-set"], "asked for twice"),
    "limit without unit": (["--memory-limit", "12 apples"], "unknown unit 'apples'"),
    "limit of zero": (["--memory-limit", "0"], "give one from 1"),
    "negative limit": (["--memory-limit=-1GiB"], "give one from 1"),
    "limit": (["--memory-limit", "1MiB"], r"needs \d+.* MiB, more than the memory limit, 1.00 MiB"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_exit_code_two_and_one_line(ecbench, here, arguments, message):
    result = ecbench("roundtrip", "--device", "cpu", *arguments)
    assert result.exit_code == 2
    assert re.search(message, _error_line(result))
    assert os.listdir(here) == []


BAD_SCENARIOS = {
    "no TOML": ("workload = = 1", "line 1"),
    "unknown key": (TINY + "colour = 1\n", r"line 6, key 'colour'.*unknown field 'colour'"),
    "unknown nested key": (TINY.replace("count = 2", "count = 2, zoom = 1"), "line 4, key 'zoom'"),
    "missing key": (TINY.replace('model = "qwen2-vl-2b"\n', ""), "missing required field 'model'"),
    "no workload": (TINY.replace('workload = "ec"\n', ""), 'key "workload" is missing'),
    "other workload": (TINY.replace('"ec"', '"video"'), "unknown workload .*'video'"),
    "wrong type": (TINY.replace("rounds = 1", 'rounds = "many"'), "line 5, key 'rounds'"),
    "zero rounds": (TINY.replace("rounds = 1", "rounds = 0"), "line 5, key 'rounds'"),
    "negative count": (TINY.replace("count = 2", "count = -2"), "line 4, key 'count'"),
    "huge count": (TINY.replace("count = 2", "count = 99999999999"), "line 4, key 'count'"),
    "no images": (TINY.replace('[{ size = "336x336", count = 2 }]', "[]"), "line 4, key 'images'"),
    "unknown size": (TINY.replace("336x336", "3x3"), "unknown image size .* '3x3'.*1024x1024"),
    "unknown model": (TINY.replace("qwen2-vl-2b", "gpt"), "unknown model 'gpt'"),
    "unknown placement": (TINY + 'placement = "messy"\n', "line 6, key 'placement'.*messy"),
    "odd offset": (TINY + "source_offset_bytes = 3\n", "line 6, key 'source_offset_bytes'"),
    "region too small": (TINY + 'region_bytes = "1KiB"\n', "below one block of 3072 bytes"),
    "negative region": (TINY + "region_bytes = -4096\n", "give one from 1"),
    "region without unit": (TINY + 'region_bytes = "1 apple"\n', "unknown unit 'apple'"),
    "region below its entries": (TINY + 'region_bytes = "16KiB"\n', "need 288 blocks.*holds 5"),
    "region above everything": (TINY + 'region_bytes = "1PiB"\n', "1.00 PiB, more than what /dev/shm has free"),
    "not UTF-8": (b"title = '\xff'", "byte 9 is not UTF-8"),
    "too large": ("#" * (2 << 20), "larger than"),
}


@pytest.mark.parametrize(("text", "message"), BAD_SCENARIOS.values(), ids=BAD_SCENARIOS)
def test_a_bad_scenario_is_exit_code_two_and_names_key_and_line(ecbench, here, text, message):
    (here / "bad.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    result = ecbench("roundtrip", "bad.toml", "--device", "cpu")
    assert result.exit_code == 2
    line = _error_line(result)
    assert "bad" in line
    assert re.search(message, line), line
    assert os.listdir(here) == ["bad.toml"]


def test_a_region_size_in_a_scenario_is_used(ecbench, here):
    (here / "big.toml").write_text(TINY + 'region_bytes = "4MiB"\n')
    assert ecbench("roundtrip", "big.toml", "--device", "cpu").exit_code == 0
    assert _document(here)["cases"][0]["params"]["region_bytes"] == "4MiB"


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_a_device_that_is_not_here_is_exit_code_three_and_says_what_to_do(ecbench, here, device):
    if torch.accelerator.is_available():
        pytest.skip("this machine has an accelerator")
    result = ecbench("roundtrip", "--device", device)
    assert result.exit_code == 3
    assert re.search(f"device '{device}' is not available.*install", _error_line(result))
    assert os.listdir(here) == []


def test_an_unknown_option_is_exit_code_two(ecbench, here):
    assert ecbench("roundtrip", "--colour").exit_code == 2
    assert ecbench("roundtrip", "--rounds", "0").exit_code == 2
    assert ecbench("roundtrip", "--rounds", "many").exit_code == 2


def test_a_folder_that_cannot_be_written_is_found_before_the_run(ecbench, tiny, here, monkeypatch):
    (here / "file").touch()
    monkeypatch.setattr(round_trip, "_run_case", lambda *_: pytest.fail("ran first"))
    result = ecbench("roundtrip", tiny, "--out", "file/reports", "--device", "cpu")
    assert result.exit_code == 2
    assert "file/reports: cannot be written" in _error_line(result)


def test_a_disk_that_fills_up_costs_no_numbers_on_the_screen(ecbench, tiny, here, monkeypatch):
    from ecbench.report import files

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    result = ecbench("roundtrip", tiny, "--device", "cpu")
    assert result.exit_code == 2
    assert "No space left on device" in _error_line(result)
    assert "every byte is right" in result.stdout
    assert list((here / "reports").iterdir()) == []


def test_ctrl_c_keeps_the_finished_cases(ecbench, tiny, here, monkeypatch):
    (here / "second.toml").write_text(TINY)
    real, ran = round_trip._run_case, []

    def interrupt_the_second(*arguments):
        ran.append(arguments)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(round_trip, "_run_case", interrupt_the_second)
    result = ecbench("roundtrip", tiny, "second.toml", "--device", "cpu")
    assert result.exit_code == 130
    assert "INTERRUPTED" in result.stdout
    assert "finished cases saved: 1" in result.stderr
    document = _document(here)
    assert document["complete"] is False
    assert [case["case_id"] for case in document["cases"]] == ["tiny/qwen2-vl-2b"]


def test_ctrl_c_before_the_first_case_is_done_leaves_no_report(ecbench, tiny, here, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(round_trip, "_run_case", interrupt)
    result = ecbench("roundtrip", tiny, "--device", "cpu")
    assert result.exit_code == 130
    assert list((here / "reports").iterdir()) == []


@pytest.mark.parametrize("name", shipped_workload("ec"))
def test_every_shipped_scenario_is_valid(ecbench, here, name):
    assert ecbench("roundtrip", name, "--dry-run", "--device", "cpu").exit_code == 0


def test_one_default_case_uses_device_addresses_that_are_no_multiples_of_2048():
    from ecbench.engine.devices.xpu_sim import XpuSimDevice
    from ecbench.workflows.encoder_cache_case import _DeviceLayout

    options = round_trip.RoundTripOptions(device="xpu-sim", workload="ec")
    cases = round_trip._load_cases(options)
    base = XpuSimDevice().empty(4096).data_ptr()
    offsets = {case.case_id: _DeviceLayout.of(case).entry_offsets.values() for case in cases}
    assert any(all((base + offset) % 2048 for offset in entries) for entries in offsets.values())


@pytest.mark.parametrize("model", ["gemma3-4b", "qwen3-vl-8b"])
def test_the_model_of_a_scenario_can_be_replaced(ecbench, tiny, here, model):
    assert ecbench("roundtrip", tiny, "--model", model, "--device", "cpu").exit_code == 0
    (case,) = _document(here)["cases"]
    assert case["case_id"] == f"tiny/{model}"
    assert case["legs"][0]["blocks"] == {"gemma3-4b": 512, "qwen3-vl-8b": 800}[model]
