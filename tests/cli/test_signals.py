"""Real signals to real processes: Ctrl-C ends with 130 and keeps what was finished; no kill leaves anything."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import TINY

KILLS = 100
INTERRUPTS = 12

FORK_AND_KILL = """
import os, random, signal, sys, time
from ecbench.measure.stages import StageClock
from ecbench.workflows.round_trip import RoundTripOptions, prepare_round_trip, run_round_trip

draw = random.Random(1)
options = RoundTripOptions(scenarios=(sys.argv[1],), device="xpu-sim", rounds=50)
prepare_round_trip(options)
killed = 0
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        while True:
            run_round_trip(prepare_round_trip(options), StageClock(), lambda *_: None)
    time.sleep(draw.uniform(0, 0.15))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    killed += os.WIFSIGNALED(status)
print(killed)
"""


def _shm():
    usage = os.statvfs("/dev/shm")
    return set(os.listdir("/dev/shm")), (usage.f_blocks - usage.f_bfree) * usage.f_frsize


def test_a_hundred_kills_at_random_moments_leave_nothing_in_shm(here):
    (here / "big.toml").write_text(TINY.replace("count = 2", "count = 40"))
    names, used = _shm()
    run = subprocess.run(
        [sys.executable, "-c", FORK_AND_KILL, "big.toml", str(KILLS)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(KILLS)
    names_after, used_after = _shm()
    assert not {name for name in names_after - names if "ecbench" in name}
    # One region of this scenario is 17 MiB; a hundred that were left would be 1.7 GiB.
    assert used_after - used < 16 << 20


@pytest.fixture
def started(here):
    """A run of many rounds over two cases, in a process of its own."""
    (here / "first.toml").write_text(TINY)
    (here / "second.toml").write_text(TINY.replace("rounds = 1", "rounds = 10000"))
    command = [sys.executable, "-m", "ecbench", "roundtrip", "first.toml", "second.toml", "--device", "cpu"]
    # Its own process group, and the default action for SIGINT, which a shell's background job would have switched off.
    return lambda: subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, restore_signals=True
    )


def test_ctrl_c_in_the_middle_saves_the_finished_case(started, here):
    process = started()
    for line in process.stderr:
        if line.startswith("second"):
            break
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "INTERRUPTED" in output
    (path,) = (here / "reports").glob("*.json")
    document = json.loads(path.read_text())
    assert [case["case_id"] for case in document["cases"]] == ["first/qwen2-vl-2b"]
    assert document["complete"] is False


def test_ctrl_c_at_any_moment_is_exit_code_130_and_no_traceback(started, here):
    draw = random.Random(3)
    for _ in range(INTERRUPTS):
        process = started()
        # From the moment Python has read its own modules; before that, the interpreter answers a signal itself.
        time.sleep(draw.uniform(0.3, 4.0))
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in {130, -signal.SIGINT}
        assert "Traceback" not in errors, errors
        assert not list((here / "reports").glob(".ecbench-*"))
