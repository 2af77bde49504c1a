"""Whole commands with ``--target vllm`` and ``--target both``, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.vllm
SCENARIO = """\
workload = "ec"
title = "Two small images"
model = "qwen2-vl-2b"
images = [{ size = "336x336", count = 2 }]
placement = "scattered"
rounds = 7
"""
GRID = """\
workload = "sweep"
title = "Four copies"
rounds = 2

[axes]
block_size = ["97B", "4KiB"]
count = [16]
run_length = [1, 4]
"""
ECBENCH = (sys.executable, "-m", "ecbench")
ENDLESS_ROUNDS = 10_000


@pytest.fixture
def here(tmp_path):
    (tmp_path / "small.toml").write_text(SCENARIO)
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def run(here, *arguments):
    command = [*ECBENCH, *map(str, arguments), "--device", "cpu"]
    return subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)


def result_of(here, *arguments):
    ran = run(here, *arguments, "--json", "-")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def left_behind():
    return [name for name in os.listdir("/dev/shm") if name.startswith("vllm_")]


def test_both_side_by_side_on_both_workloads(here):
    document = result_of(here, "roundtrip", "small.toml", "kv-dsv4-flash", "--target", "both")
    names = [case["case_id"] for case in document["cases"]]
    assert [name.endswith("@vllm") for name in names] == [False, True, False, True]
    for reference, vllm in (document["cases"][:2], document["cases"][2:]):
        assert vllm["params"]["target"] == "vllm"
        for was, is_now in zip(reference["legs"], vllm["legs"], strict=True):
            assert (was["status"], is_now["status"]) == ("passed", "passed")
            assert was["copied_bytes"] == is_now["copied_bytes"]
    assert document["environment"]["vllm"].startswith("0.3")
    assert document["environment"]["stand_ins"] != []
    assert left_behind() == []


def test_the_table_sets_the_target_against_the_reference(here):
    ran = run(here, "roundtrip", "small.toml", "--target", "both")
    assert ran.returncode == 0
    assert "Time over the reference's" in ran.stdout
    assert "importing vllm 0.3" in ran.stderr
    assert "WARNING" not in ran.stderr


def test_a_sweep_through_the_worker(here):
    document = result_of(here, "sweep", "grid.toml", "--target", "vllm")
    assert len(document["cases"]) == 4
    assert {leg["status"] for case in document["cases"] for leg in case["legs"]} == {"passed"}
    assert {case["legs"][0]["descriptors"] for case in document["cases"]} == {4, 16}
    assert left_behind() == []


def test_a_gate_of_vllm_against_its_own_baseline(here):
    options = ["gate", "small.toml", "--baseline", "base.json", "--target", "vllm", "--processes", 1]
    assert run(here, *options, "--update").returncode == 0
    judged = run(here, *options)
    assert judged.returncode in {0, 1}, judged.stderr
    assert "small/qwen2-vl-2b@vllm" in judged.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_in_shared_memory_when_the_run_is_ended(here, how):
    command = [*ECBENCH, "roundtrip", "small.toml", "--target", "vllm", "--device", "cpu", "--rounds"]
    with subprocess.Popen(
        [*command, str(ENDLESS_ROUNDS)], cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert any("warm-up included" in line for line in process.stderr)
        process.send_signal(how)
        process.wait(timeout=60)
    assert process.returncode in {130, -how}
    assert left_behind() == []
