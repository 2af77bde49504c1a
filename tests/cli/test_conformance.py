"""``ecbench conformance``: every exit code, every format, and real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.report.loading import load_result
from tests.conftest import ROOT

FAULTY = "tests.workflows.conformance_targets"


@pytest.fixture
def run(ecbench, here, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return lambda *arguments: ecbench("conformance", *arguments)


def test_a_target_that_conforms_exits_0_and_writes_its_reports(run, here):
    result = run("region.*", "--json", "found.json")
    assert result.exit_code == 0
    assert "7 checks, 5 of 36 behaviours: 7 passed." in result.stdout
    assert "target reference: importing" in result.stderr
    assert {case.outcome for case in load_result(here / "found.json").cases} == {ConformanceOutcome.PASSED}
    assert sorted(path.suffix for path in (here / "reports").iterdir()) == [".html", ".json", ".md"]


def test_a_failed_check_exits_1_and_shows_expected_happened_and_input(run):
    checks = ("allocator.pins-nest", "cycle.only-touched-load")
    result = run(*checks, "--target", f"{FAULTY}:ManyFaults", "--limit", "1")
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "allocator.pins-nest held until the last pin is off" in words
    assert "the target's process was ended by SIGSEGV pins=1" in words
    assert "did not end within 1 s" in words


def test_json_alone_goes_to_stdout_whatever_the_target_prints(run):
    result = run("allocator.zero-blocks", "--target", f"{FAULTY}:LeavesThingsBehind", "--json", "-")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["cases"][0]["check"] == "allocator.zero-blocks"


def test_quiet_prints_nothing_of_a_target_that_conforms(run):
    result = run("allocator.zero-blocks", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.such"], "no check is called 'no.such'"),
        (["--target", "vlm"], "unknown target 'vlm': choose one of reference, vllm, module:Class"),
        (["--limit", "0"], "limit of 0 s"),
        (["--target", f"{FAULTY}:NoWorker"], "target NoWorker has no 'worker'"),
    ],
)
def test_bad_input_exits_2_in_one_line(run, arguments, message):
    result = run(*arguments, "--quiet")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_target_that_cannot_be_imported_exits_3_in_one_line(run):
    result = run("--target", "no_such_module:Target", "--quiet")
    assert result.exit_code == 3
    assert "no_such_module" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_end_of_the_targets_process_exits_3_with_what_was_finished(run, here):
    result = run("worker.no-loads", "allocator.*", "--target", f"{FAULTY}:KillsItsHolder", "--json", "found.json")
    assert result.exit_code == 3
    assert "finished checks: 1" in result.stderr
    stored = load_result(here / "found.json")
    assert (stored.complete, len(stored.cases)) == (False, 1)


def _start(here, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "ecbench", "conformance", *arguments],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _files(process):
    """Files that a check has made; those of the first look at the target are none of them."""
    mine = f"ecbench-{process.pid}-"
    return {name for name in os.listdir("/dev/shm") if name.startswith(mine) and "-parts-" not in name}


def _until(holds, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        os.sched_yield()


HANGING = ("worker.no-loads", "region.second-opener-shares", "--target", f"{FAULTY}:LeavesThingsBehind")
"""One check that passes, then one that makes a file and hangs."""


def test_ctrl_c_exits_130_with_what_was_finished_and_leaves_nothing(here):
    process = _start(here, *HANGING, "--limit", "1000", "--json", "found.json")
    _until(lambda: _files(process))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; finished checks: 1" in errors
    assert len(load_result(here / "found.json").cases) == 1
    assert not _files(process)


def test_a_kill_of_the_command_ends_the_target_and_leaves_no_file(here):
    process = _start(here, *HANGING, "--limit", "1000")
    _until(lambda: _files(process))
    process.kill()
    process.communicate(timeout=60)
    _until(lambda: not _files(process))
