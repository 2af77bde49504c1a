"""Sweeps of KV round trips through the installed vLLM's worker, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.vllm
GRID = """\
workload = "sweep"
cells = "kv"
title = "Small KV cells"
rounds = 2

[axes]
tokens = 1100
layout = ["packed", "per-layer"]
blocks_per_chunk = [1, 4]
block_order = ["in-order", "shuffled"]
"""
COMMAND = (sys.executable, "-m", "ecbench", "sweep", "grid.toml", "--device", "cpu")
ENDLESS_ROUNDS = 10_000


@pytest.fixture
def here(tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def run(here, *arguments):
    return subprocess.run([*COMMAND, *arguments], cwd=here, capture_output=True, text=True, check=False)


def left_behind():
    return [name for name in os.listdir("/dev/shm") if name.startswith("vllm_")]


def test_both_side_by_side_over_layouts_chunks_and_orders(here):
    ran = run(here, "--target", "both", "--json", "-")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    reference, vllm = document["cases"][::2], document["cases"][1::2]
    assert len(vllm) == 8
    for ours, theirs in zip(reference, vllm, strict=True):
        assert theirs["case_id"] == ours["case_id"].replace(",auto", "@vllm")
        for was, is_now in zip(ours["legs"], theirs["legs"], strict=True):
            assert (was["status"], is_now["status"]) == ("passed", "passed")
            assert (was["copied_bytes"], was["blocks"]) == (is_now["copied_bytes"], is_now["blocks"])
            assert was["descriptors"] <= is_now["descriptors"]
    assert any("KV worker" in name for name in document["environment"]["stand_ins"])
    assert left_behind() == []


def test_the_dry_run_says_descriptors_and_memory_of_vllm(here):
    planned = run(here, "--target", "vllm", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    said = [line.split() for line in planned.stdout.splitlines() if "@vllm" in line]
    document = json.loads(run(here, "--target", "vllm", "--json", "-").stdout)
    measured = [[case["case_id"], f"{case['legs'][0]['descriptors']}"] for case in document["cases"]]
    assert [words[:2] for words in said] == measured


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_in_shared_memory_but_the_journal_of_an_ended_sweep_is_kept(here, how):
    command = [*COMMAND, "--target", "both", "--rounds", str(ENDLESS_ROUNDS)]
    with subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert any("on disk" in line for line in process.stderr)
        process.send_signal(how)
        process.communicate(timeout=60)
    assert process.returncode in {130, -how}
    assert left_behind() == []
    (journal,) = (here / "reports").glob("*.journal")
    assert '"targets":["vllm 0.3' in journal.read_text().splitlines()[0]
