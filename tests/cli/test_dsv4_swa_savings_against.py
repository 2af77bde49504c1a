from __future__ import annotations

import json

import msgspec
import pytest
import typer
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from ecbench.cli import dsv4_swa_savings as command
from ecbench.core.errors import UnavailableError
from ecbench.core.savings_records import SavingsResult
from ecbench.report.formats.names import ReportFormat
from ecbench.report.schema import results_schema
from ecbench.targets.vllm import kv_scheduler
from ecbench.workflows import savings_against
from tests.kv_offload.fake_scheduler import FakeScheduler, flip

APP = typer.Typer(pretty_exceptions_enable=False)
APP.command()(command.dsv4_swa_savings)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command with a fake in place of vLLM's scheduler."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "REPORTS", (ReportFormat.JSON,))

    def invoke(*arguments: object, scheduler: FakeScheduler | None = None):
        if scheduler is not None:
            monkeypatch.setattr(savings_against, "load_registered", lambda *_: lambda: scheduler)
        arguments = ("--against", "vllm", "--no-measure", *arguments)
        return CliRunner().invoke(APP, [*map(str, arguments)])

    return invoke


def test_equal_plans_exit_0_and_say_so(run):
    done = run("--tokens", 2048, scheduler=FakeScheduler())
    assert done.exit_code == 0
    assert "Does vllm 0.33.0 do the same? Yes, in 2 cases." in done.stdout
    assert "deepseek-v4-flash/2048/vllm-0.33/retention-none against vllm 0.33.0" in done.stdout
    assert "importing vllm, which can take seconds" in done.stderr


def test_a_difference_exits_1_and_shows_its_first_chunk(run):
    scheduler = FakeScheduler(change=lambda _, scheduled: flip(scheduled, 0, 3))
    done = run("--tokens", 2048, "--quiet", scheduler=scheduler)
    assert done.exit_code == 1
    assert "stored chunks of swa-a: 16 planned, 15 by the scheduler, first chunk 3" in done.stdout


def test_json_alone_is_on_stdout_and_follows_the_schema(run):
    done = run("--tokens", 2048, "--json", "-", scheduler=FakeScheduler())
    result = json.loads(done.stdout)
    Draft202012Validator(results_schema()).validate(result)
    assert result["cases"][0]["against"]["scheduler"] == "vllm 0.33.0"
    assert result["environment"]["stand_ins"] == ["config object"]
    assert msgspec.json.decode(done.stdout, type=SavingsResult).cases[0].against.ok


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "pr"), "policy pr cannot be held against vllm: it implements vllm-0.33"),
        (("--alignment-tokens", 512), "alignment of 512 tokens cannot be held against vllm"),
        (("--against", "sglang"), "unknown scheduler 'sglang': choose one of vllm"),
        (("--fuzz", 0), "--fuzz 0: give 1 to 10,000,000 requests"),
        (("--fuzz", 5, "--tokens", 64), "leave out --model and --tokens"),
        (("--step-tokens", 0), "step of 0 tokens: give at least 1"),
    ],
)
def test_bad_input_exits_2(run, arguments, said):
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_fuzz_without_a_scheduler_exits_2(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(APP, ["--fuzz", "5"])
    assert (done.exit_code, done.stderr) == (2, "ecbench: --fuzz needs a scheduler to ask: add --against vllm\n")


@pytest.mark.parametrize("arguments", [("--tokens", 2048), ("--fuzz", 5)])
def test_no_vllm_exits_3_with_what_to_install(run, monkeypatch, arguments):
    def absent():
        raise UnavailableError("target vllm: vLLM is not installed: install vLLM 0.32 or 0.33")

    monkeypatch.setattr(kv_scheduler, "load_vllm", absent)
    done = run("--quiet", *arguments)
    assert done.exit_code == 3
    assert done.stderr == "ecbench: target vllm: vLLM is not installed: install vLLM 0.32 or 0.33\n"


def test_a_fuzz_run_without_differences_exits_0_and_writes_its_page(run, tmp_path):
    done = run("--fuzz", 30, "--seed", 3, scheduler=FakeScheduler())
    assert done.exit_code == 0
    assert "Does vllm 0.33.0 do the same with drawn requests? Yes: 30 requests" in done.stdout
    assert "seed 3" in done.stdout
    assert "30 requests; time:" in done.stdout
    endings = {path.suffix for path in (tmp_path / "reports").iterdir()}
    assert endings == {".json", ".md", ".html"}


def test_a_fuzz_run_that_finds_something_exits_1_and_saves_a_scenario_that_shows_it_again(run, tmp_path):
    def hits_less(request, scheduled):
        return flip(scheduled, 0, 0) if request.tokens > 20 and len(scheduled.groups[0].stored) else scheduled

    scheduler = FakeScheduler(change=hits_less)
    done = run("--fuzz", 20, "--json", "-", "--quiet", scheduler=scheduler)
    assert done.exit_code == 1
    result = json.loads(done.stdout)
    Draft202012Validator(results_schema()).validate(result)
    scenario = result["fuzz"]["findings"][0]["scenario"]
    again = run("--model", scenario, "--no-prove", scheduler=scheduler)
    assert again.exit_code == 1
    assert "first chunk 0" in again.stdout
    (only,) = scheduler.asked[-1:]
    assert only.tokens == 21


def test_ctrl_c_exits_130_and_saves_what_was_found(run, tmp_path):
    def interrupt(_):
        raise KeyboardInterrupt

    done = run("--fuzz", 50, "--quiet", scheduler=FakeScheduler(before=interrupt))
    assert done.exit_code == 130
    assert "interrupted; what was found is saved" in done.stderr
    assert [path.suffix for path in (tmp_path / "reports").iterdir()].count(".json") == 1


def test_ctrl_c_between_cases_exits_130(run):
    def interrupt(request):
        if request.settings.retention_interval == 0:
            raise KeyboardInterrupt

    done = run("--tokens", 2048, "--quiet", scheduler=FakeScheduler(before=interrupt))
    assert done.exit_code == 130
    assert "finished cases saved: 1" in done.stderr
