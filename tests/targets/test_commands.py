"""``--target`` on the command line, with a package that only has vLLM's names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from ecbench.cli.app import app
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.workflows import round_trip
from ecbench.workflows.process_rounds import arguments_of
from ecbench.workflows.round_trip import RoundTripOptions
from tests.cli.conftest import TINY

INIT = "__init__.py"
GRID = """\
workload = "sweep"
title = "Four copies"
rounds = 2

[axes]
block_size = ["96B", "4KiB"]
count = [8]
run_length = [1, 4]
"""
WORKER = "distributed/ec_transfer/ec_connector/cpu/worker.py"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def result_of(*arguments):
    ran = run(*arguments, "--device", "cpu", "--json", "-")
    assert ran.exit_code == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("command", [["roundtrip", "tiny.toml"], ["sweep", "grid.toml"]])
@pytest.mark.parametrize("target", ["vllm", "both"])
def test_without_vllm_the_exit_code_is_3_and_the_message_one_line(no_vllm, here, command, target):
    ran = run(*command, "--target", target, "--device", "cpu")
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert len(ran.stderr.splitlines()) == 1
    assert "install vLLM 0.32 or 0.33" in ran.stderr


def test_a_gate_without_vllm_is_exit_code_3_too(no_vllm, here):
    ran = run("gate", "tiny.toml", "--baseline", "base.json", "--update", "--target", "vllm", "--device", "cpu")
    assert ran.exit_code == 3


@pytest.mark.parametrize("command", [["roundtrip", "tiny.toml"], ["sweep", "grid.toml"]])
def test_an_unknown_target_lists_the_choices(here, command):
    ran = run(*command, "--target", "sglang")
    assert ran.exit_code == 2
    assert "choose one of reference, vllm, both" in ran.stderr


def test_a_case_of_vllm_is_named_and_described_as_such(vllm_tree, here):
    document = result_of("roundtrip", "tiny.toml", "--target", "vllm")
    (case,) = document["cases"]
    assert case["case_id"] == "tiny/qwen2-vl-2b@vllm"
    assert (case["params"]["target"], case["params"]["engine"], case["params"]["writer"]) == ("vllm",) * 3
    assert (document["settings"]["target"], document["environment"]["vllm"]) == ("vllm", "0.32.9")
    assert "config object" in document["environment"]["stand_ins"]
    assert [leg["status"] for leg in case["legs"]] == ["passed", "passed"]


def test_the_reference_is_named_as_ever(here):
    document = result_of("roundtrip", "tiny.toml")
    (case,) = document["cases"]
    assert case["case_id"] == "tiny/qwen2-vl-2b"
    assert "target" not in case["params"]
    assert document["settings"]["target"] == "reference"
    assert document["environment"]["stand_ins"] == []


def test_both_run_in_the_same_rounds_and_are_set_side_by_side(vllm_tree, here, monkeypatch):
    order = []
    real = round_trip.measure_rounds

    def noting(copies, **options):
        order.extend((copy.writer, copy.direction) for copy in copies)
        return real(copies, **options)

    monkeypatch.setattr(round_trip, "measure_rounds", noting)
    ran = run("roundtrip", "tiny.toml", "--target", "both", "--device", "cpu", "--rounds", 7)
    assert ran.exit_code == 0
    assert order == [
        ("numpy-batch", "save"),
        ("numpy-batch", "load"),
        ("vllm", "save"),
        ("vllm", "load"),
    ]
    table = ran.stdout[ran.stdout.index("Time over the reference's") :].splitlines()
    assert table[1].split() == ["case", "leg", "total", "fill", "submit", "copy"]
    assert [line.split()[:2] for line in table[2:4]] == [
        ["tiny/qwen2-vl-2b@vllm", "save"],
        ["tiny/qwen2-vl-2b@vllm", "load"],
    ]
    assert table[2].count(" to ") == 4
    assert "importing vllm 0.32.9" in ran.stderr


def test_every_format_shows_the_ratio_and_says_what_stood_in(vllm_tree, here):
    assert run("roundtrip", "tiny.toml", "--target", "both", "--device", "cpu", "--quiet").exit_code == 0
    for ending in ("md", "html"):
        (path,) = (here / "reports").glob(f"*.{ending}")
        text = path.read_text()
        assert "Time over the reference" in text
        assert "torch.Event (host clock)" in text


def test_json_on_stdout_stays_json_whatever_vllm_prints(vllm_tree, here):
    for path in (vllm_tree / INIT, vllm_tree / WORKER):
        path.write_text(path.read_text() + "print('hello')\n")
    assert result_of("roundtrip", "tiny.toml", "--target", "vllm")["complete"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--engine", "gather"], "leave out --engine gather"),
        (["--writer", "setitem"], "leave out --writer setitem"),
        (["--no-coalesce"], "leave out --no-coalesce"),
    ],
)
def test_what_vllm_decides_itself_cannot_be_asked_for(vllm_tree, here, option, said):
    ran = run("roundtrip", "tiny.toml", "--target", "vllm", "--device", "cpu", "--quiet", *option)
    assert ran.exit_code == 2
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_on_an_accelerator_vllm_cannot_be_asked_for_pageable_memory(vllm_tree, here, monkeypatch):
    class Later(CpuDevice):
        copies_inside_submit = False

    monkeypatch.setattr(round_trip, "open_device", lambda *_: Later())
    ran = run("roundtrip", "tiny.toml", "--target", "both", "--pageable")
    assert ran.exit_code == 2
    assert "target vllm pins its region itself: leave out --pageable" in ran.stderr


def test_with_both_an_engine_is_the_reference_s(vllm_tree, here):
    document = result_of("roundtrip", "tiny.toml", "--target", "both", "--engine", "gather")
    assert [case["params"]["engine"] for case in document["cases"]] == ["gather", "vllm"]


def test_a_dry_run_states_the_memory_of_both(vllm_tree, here):
    both, alone = (
        run("roundtrip", "tiny.toml", "--target", name, "--dry-run", "--device", "cpu").stdout
        for name in ("both", "reference")
    )
    assert "872 KiB" in alone
    assert "1.70 MiB" in both


def test_wrong_bytes_of_one_target_are_exit_code_1_and_leave_the_other_alone(vllm_tree, here):
    worker = vllm_tree / WORKER
    worker.write_text(worker.read_text().replace("        swap_blocks_batch(", "        print("))
    ran = run("roundtrip", "tiny.toml", "--target", "both", "--device", "cpu", "--json", "-")
    assert ran.exit_code == 1
    reference, vllm = json.loads(ran.stdout)["cases"]
    assert {leg["status"] for leg in reference["legs"]} == {"passed"}
    assert {leg["verify"]["fault"] for leg in vllm["legs"]} == {"missing"}


def test_ctrl_c_keeps_finished_cases_of_both_and_leaves_no_file(vllm_tree, here, monkeypatch):
    (here / "second.toml").write_text(TINY)
    real = round_trip.measure_rounds

    def interrupted(copies, *, label, **options):
        for legs in real(copies, label=label, **options):
            if label.startswith("second"):
                raise KeyboardInterrupt
            yield legs

    monkeypatch.setattr(round_trip, "measure_rounds", interrupted)
    ran = run("roundtrip", "tiny.toml", "second.toml", "--target", "both", "--device", "cpu", "--json", "-")
    assert ran.exit_code == 130
    assert [case["case_id"] for case in json.loads(ran.stdout)["cases"]] == [
        "tiny/qwen2-vl-2b",
        "tiny/qwen2-vl-2b@vllm",
    ]
    assert [name for name in os.listdir("/dev/shm") if name.startswith("vllm_ec_ecbench")] == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_in_shared_memory_however_the_process_ends(vllm_tree, here, how):
    """Ended once the region is open: the name is gone by then."""
    worker = vllm_tree / WORKER
    loop = "        print('saving', file=__import__('sys').stderr, flush=True)\n        while True: pass\n"
    worker.write_text(worker.read_text().replace("        source, size =", loop + "        source, size ="))
    command = [sys.executable, "-m", "ecbench", "roundtrip", "tiny.toml", "--target", "vllm", "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(vllm_tree.parent)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True) as process:
        assert any("saving" in line for line in process.stderr)
        process.send_signal(how)
        process.wait(timeout=60)
    assert process.returncode in {130, -how}
    assert [name for name in os.listdir("/dev/shm") if name.startswith("vllm_ec_ecbench")] == []


def test_a_gate_compares_vllm_with_a_baseline_of_vllm(vllm_tree, here, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(vllm_tree.parent))
    options = ["--baseline", "base.json", "--target", "vllm", "--device", "cpu", "--rounds", 2]
    assert run("gate", "tiny.toml", *options, "--update", "--processes", 2).exit_code == 0
    assert json.loads((here / "base.json").read_text())["cases"][0]["case_id"] == "tiny/qwen2-vl-2b@vllm"
    ran = run("gate", "tiny.toml", *options, "--json", "-")
    assert ran.exit_code == 0, ran.stderr
    assert [case["case_id"] for case in json.loads(ran.stdout)["cases"]] == ["tiny/qwen2-vl-2b@vllm"]


def test_a_process_round_is_asked_for_the_same_target():
    arguments = arguments_of(RoundTripOptions(target="both"))
    assert ("--target", "both") in pairwise(arguments)


def test_a_sweep_puts_vllm_s_cells_beside_the_reference_s(vllm_tree, here):
    document = result_of("sweep", "grid.toml", "--target", "both")
    names = [case["case_id"] for case in document["cases"]]
    assert "grid/96Bx8,run=4@vllm" in names
    assert "grid/96Bx8,run=4,auto" in names
    assert len(names) == 8
    vllm = [case for case in document["cases"] if case["params"].get("target") == "vllm"]
    assert {(case["params"]["engine"], case["params"]["writer"]) for case in vllm} == {("vllm", "vllm")}
    assert {leg["status"] for case in document["cases"] for leg in case["legs"]} == {"passed"}
    assert (document["settings"]["target"], document["environment"]["vllm"]) == ("both", "0.32.9")
    assert document["environment"]["stand_ins"] != []


def test_a_sweep_of_vllm_alone_has_its_cells_only(vllm_tree, here):
    document = result_of("sweep", "grid.toml", "--target", "vllm")
    assert [case["case_id"].endswith("@vllm") for case in document["cases"]] == [True] * 4


def test_a_sweep_shifts_device_addresses_of_vllm_too(vllm_tree, here):
    document = result_of("sweep", "grid.toml", "--target", "vllm", "--byte-offset", "0,8")
    assert {case["params"]["byte_offset"] for case in document["cases"]} == {0, 8}
    assert {leg["status"] for case in document["cases"] for leg in case["legs"]} == {"passed"}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--writer", "setitem,numpy-batch"], "decides itself what axis writer varies"),
        (["--engine", "gather"], "decides itself what axis engine varies"),
        (["--axis", "coalesce=true,false"], "give coalesce=true"),
    ],
)
def test_a_grid_over_what_vllm_decides_is_refused(vllm_tree, here, option, said):
    ran = run("sweep", "grid.toml", "--target", "vllm", "--device", "cpu", *option)
    assert ran.exit_code == 2
    assert said in ran.stderr


def test_with_both_a_grid_may_have_engines(vllm_tree, here):
    document = result_of("sweep", "grid.toml", "--target", "both", "--engine", "gather,memmove", "--run-length", 1)
    assert document["axes"]["engine"] == ["gather", "memmove", "vllm"]


def test_a_sweep_is_not_resumed_with_another_version_of_the_target(vllm_tree, here, monkeypatch):
    from ecbench.workflows import sweep_rounds

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sweep_rounds.SweepRounds, "_tell", interrupt)
        assert run("sweep", "grid.toml", "--target", "vllm", "--device", "cpu").exit_code == 130
    journal = next((here / "reports").glob("*journal*"))
    journal.write_text(journal.read_text().replace("vllm 0.32.9", "vllm 0.32.1"))
    ran = run("sweep", "grid.toml", "--target", "vllm", "--device", "cpu", "--resume")
    assert ran.exit_code == 4
    assert "targets: ['vllm 0.32.1'] there, ['vllm 0.32.9'] here" in ran.stderr
