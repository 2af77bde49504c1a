"""What a forked process says, and what is left when it ends."""

from __future__ import annotations

import os
import signal
import sys

import psutil
import pytest

from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.workflows.check_isolation import OUTPUT_CHARACTERS, _messages, run_forked
from ecbench.workflows.conformance_messages import Trying, Verdict

PASSED = Verdict(outcome=ConformanceOutcome.PASSED, happened=None, smallest_input=None, reason=None, inputs=1)


@pytest.fixture(autouse=True)
def _no_child_is_left():
    # What other tests of this process keep, such as a server of shared memory, is not ours.
    before = {child.pid for child in psutil.Process().children()}
    yield
    assert {child.pid for child in psutil.Process().children()} <= before


def test_what_it_says_is_heard_in_order_and_its_verdict_counts():
    def work(say):
        say(Trying(given="size=1"))
        say(PASSED)

    end = run_forked(work, 10)
    assert end.messages == [Trying(given="size=1"), PASSED]
    assert end.verdict == PASSED


def test_much_is_heard_whole():
    def work(say):
        for number in range(5000):
            say(Trying(given=f"{'x' * 100} {number}"))
        say(PASSED)

    end = run_forked(work, 30)
    assert len(end.messages) == 5001
    assert end.verdict == PASSED


@pytest.mark.parametrize(
    ("end_it", "happened"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGUSR1), "the target's process was ended by SIGUSR1"),
        (lambda: os._exit(0), "the target ended its process with exit status 0"),
        (lambda: sys.exit(3), "the target ended its process with exit status 1"),
        (signal.pause, "did not end within 0.3 s and was killed"),
    ],
)
def test_an_end_without_a_verdict_is_a_failure_at_the_input_tried_last(end_it, happened):
    def work(say):
        say(Trying(given="size=1"))
        say(Trying(given="size=2"))
        end_it()

    verdict = run_forked(work, 0.3 if "0.3" in happened else 10).verdict
    assert (verdict.outcome, verdict.happened) == (ConformanceOutcome.FAILED, happened)
    assert (verdict.smallest_input, verdict.inputs) == ("size=2", 2)


def test_a_line_that_is_cut_is_not_heard():
    said = b'{"type":"trying","given":"size=1"}\n{"type":"verdict","outc'
    assert _messages(said) == [Trying(given="size=1")]


def test_the_end_of_what_it_prints_is_kept(capfd):
    def work(say):
        os.write(1, b"x" * 10 * OUTPUT_CHARACTERS)
        os.write(2, b" the end\n")
        say(PASSED)

    end = run_forked(work, 10)
    assert len(end.output) <= OUTPUT_CHARACTERS
    assert end.output.endswith("x the end")
    assert capfd.readouterr() == ("", "")
