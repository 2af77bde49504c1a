from __future__ import annotations

import json
from contextlib import contextmanager

import msgspec
import pytest

from ecbench.core.errors import ExitCode
from ecbench.report.loading import load_result
from ecbench.workflows import selftest as workflow
from ecbench.workflows.selftest_worker import RoundAnswer
from tests.selftest_samples import injected_fault, process_rounds

FOUND = injected_fault()
SHARES = {"save": 0.5, "load": 0.5}


@pytest.fixture
def run(ecbench, tiny, monkeypatch):
    """Runs a self-test with few turns; its process rounds are made up, and its faults too where none are real."""
    monkeypatch.setattr(workflow, "QUICK", workflow.Extent(6, 2, rounds=2))

    def invoke(*arguments, answer=None, faults=(FOUND,)):
        if faults:
            monkeypatch.setattr(workflow, "inject_faults", lambda *_: list(faults))
        by_delay = {}
        for entry in process_rounds(turns=40, rounds=2, noise=0.01):
            by_delay.setdefault(entry.delay, []).append(entry.totals_s)

        class Server:
            def run_round(self, request):
                made_up = RoundAnswer(totals_s=by_delay[request.delay].pop(), engine_shares=SHARES)
                return answer() if answer else made_up

        @contextmanager
        def server():
            yield Server()

        monkeypatch.setattr(workflow, "warm_server", server)
        return ecbench("selftest", tiny, "--quick", "--device", "cpu", *arguments)

    return invoke


def test_a_machine_where_all_is_well_is_exit_code_0_with_every_report(run, here):
    shown = run("--json", "result.json", faults=())
    assert shown.exit_code == ExitCode.OK, shown.output
    assert "18 of 18 injected faults were found, 18 of them under their own name" in shown.stdout
    assert "Which threshold fits this machine?" in shown.stdout
    assert {path.suffix for path in (here / "reports").iterdir()} == {".json", ".md", ".html", ".png"}
    (case,) = load_result(here / "result.json").cases
    assert (case.pairs, case.turns, len(case.process_rounds)) == (6, 12, 72)


def test_json_on_stdout_is_all_there_is_on_stdout(run):
    shown = run("--json", "-", "--quiet")
    assert json.loads(shown.stdout)["kind"] == "selftest"
    assert shown.stderr == ""


def test_quiet_prints_nothing_where_all_is_well(run):
    shown = run("--quiet")
    assert (shown.exit_code, shown.output) == (0, "")


def test_a_missed_fault_is_exit_code_1_and_cannot_be_overlooked(run):
    shown = run("--quiet", faults=[injected_fault(found=False, named=None, counts={})])
    assert shown.exit_code == ExitCode.CHECK_FAILED
    assert "0 of 1 injected faults were found" in shown.stdout
    assert "MISSED" in shown.stdout


def test_more_false_alarms_than_promised_are_exit_code_1(run, monkeypatch):
    judged = workflow.with_rates
    monkeypatch.setattr(workflow, "with_rates", lambda case: msgspec.structs.replace(judged(case), cries_wolf=True))
    assert run().exit_code == ExitCode.CHECK_FAILED


@pytest.mark.parametrize("code", [ExitCode.CHECK_FAILED, ExitCode.USAGE, ExitCode.BAD_DATA])
def test_a_process_round_that_fails_ends_with_its_exit_code_and_one_line(run, code):
    shown = run("--quiet", answer=lambda: RoundAnswer(error="it went wrong: run it again", exit_code=code))
    assert shown.exit_code == code
    assert shown.stderr == "ecbench: a process round failed: it went wrong: run it again\n"


def test_a_device_that_gets_lost_is_exit_code_3(run):
    shown = run("--quiet", answer=lambda: RoundAnswer(error="cuda:0 is gone", exit_code=ExitCode.UNAVAILABLE))
    assert shown.exit_code == ExitCode.UNAVAILABLE
    assert "cuda:0 is gone; nothing was judged" in shown.stderr


def test_ctrl_c_is_exit_code_130_and_saves_what_was_found(run, here):
    def interrupt():
        raise KeyboardInterrupt

    shown = run(answer=interrupt)
    assert shown.exit_code == ExitCode.INTERRUPTED
    assert "interrupted; the turns that were finished are judged" in shown.stderr
    assert "1 of 1 injected faults were found" in shown.stdout
    assert {path.suffix for path in (here / "reports").iterdir()} == {".json", ".md"}


def test_ctrl_c_among_the_faults_saves_nothing(run, here, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow, "run_round_trip", interrupt)
    shown = run(faults=())
    assert shown.exit_code == ExitCode.INTERRUPTED
    assert "interrupted; nothing was judged" in shown.stderr
    assert not list((here / "reports").iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nothing",), ExitCode.USAGE, "unknown scenario 'nothing'"),
        (("ec-block-size",), ExitCode.USAGE, "is a sweep, no round trip"),
        (("--device", "toaster"), ExitCode.USAGE, "unknown device 'toaster'"),
        (("--pairs", "3"), ExitCode.USAGE, "greater than or equal to 6"),
        (("--device", "cuda"), ExitCode.UNAVAILABLE, "cuda"),
        (("--device", "cpu", "--engine", "triton"), ExitCode.UNAVAILABLE, "triton"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_run(ecbench, here, arguments, code, words):
    shown = ecbench("selftest", *arguments)
    assert shown.exit_code == code
    assert words in shown.stderr
    assert not (here / "reports").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_run(run, here):
    (here / "file").write_text("")
    shown = run("--out", "file")
    assert shown.exit_code == ExitCode.USAGE
    assert "cannot be written" in shown.stderr
