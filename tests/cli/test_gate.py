from __future__ import annotations

import json

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from ecbench.cli.gate import gate
from ecbench.core.records import to_json
from ecbench.report.loading import load_round_trip
from ecbench.workflows import gate as gates
from tests.faults import FaultyEngine


@pytest.fixture
def run(tiny):
    """Runs the gate on a tiny scenario, in one process round."""
    app = typer.Typer()
    app.command()(gate)

    def invoke(*arguments):
        defaults = [tiny, "--baseline", "baseline.json", "--device", "cpu", "--processes", "1"]
        return CliRunner().invoke(app, [*defaults, *map(str, arguments)])

    return invoke


@pytest.fixture
def baseline(run, here):
    """A stored baseline of the scenario."""
    assert run("--update", "--quiet").exit_code == 0
    return here / "baseline.json"


def _replayed(result, factor, rounds):
    """The same result with times made up: so many times 1 ms, and a little more from round to round."""
    cases = []
    for case in result.cases:
        legs = [msgspec.structs.replace(leg, samples=_samples(leg.samples[0], factor, rounds)) for leg in case.legs]
        cases.append(msgspec.structs.replace(case, legs=legs))
    return msgspec.structs.replace(result, cases=cases)


def _samples(sample, factor, rounds):
    return [
        msgspec.structs.replace(sample, round=number, total_s=1e-3 * factor * (1 + number / 100))
        for number in range(rounds)
    ]


@pytest.fixture
def replay(baseline, monkeypatch):
    """Replaces the baseline's times by 1 ms, and those of the next run by a multiple of it."""
    stored = load_round_trip(baseline)

    def use(factor, rounds=7, **changes):
        baseline.write_bytes(to_json(_replayed(stored, 1.0, rounds)))
        changed = msgspec.structs.replace(_replayed(stored, factor, rounds), **changes)
        monkeypatch.setattr(gates, "run_round_trip", lambda *_: changed)

    return use


def test_update_writes_a_baseline_that_the_next_gate_can_be_held_against(run, baseline):
    shown = run()
    assert shown.exit_code == 0
    assert "tiny/qwen2-vl-2b" in shown.stdout
    assert "8 exact figures compared, 0 differ" in shown.stdout
    document = json.loads(run("--json", "-").stdout)
    assert document["kind"] == "gate"
    assert document["settings"]["processes"] == 1


@pytest.mark.parametrize(("factor", "code", "word"), [(1.5, 1, "REGRESSED"), (1.0, 0, "PASSED"), (0.5, 0, "IMPROVED")])
def test_a_slowdown_fails_and_no_change_passes(run, replay, factor, code, word):
    replay(factor)
    shown = run("--strict")
    assert shown.exit_code == code
    assert word in shown.stdout
    assert "within one process" in shown.stdout


def test_too_few_rounds_warn_and_exit_5_when_strict(run, replay):
    replay(1.0, rounds=4)
    assert run().exit_code == 0
    shown = run("--strict")
    assert shown.exit_code == 5
    assert "INCONCLUSIVE" in shown.stdout
    assert "too few rounds" in shown.stdout


def test_wrong_bytes_fail_and_are_no_baseline(run, baseline, here, monkeypatch):
    def corrupt(source, destination, sources, destinations, sizes):
        destination[destinations[0]] ^= 1

    monkeypatch.setattr("ecbench.targets.reference_target.open_engine", lambda *_: FaultyEngine(corrupt))
    shown = run()
    assert shown.exit_code == 1
    assert "byte fault" in shown.stdout
    (here / "baseline.json").unlink()
    refused = run("--update", "--quiet")
    assert refused.exit_code == 1
    assert "a baseline has right bytes only" in refused.stderr
    assert not (here / "baseline.json").exists()


def test_another_machine_has_exact_gates_only_and_says_so(run, baseline):
    stored = load_round_trip(baseline)
    environment = msgspec.structs.replace(stored.environment, host_cpu="another CPU")
    baseline.write_bytes(to_json(msgspec.structs.replace(stored, environment=environment)))
    shown = run()
    assert shown.exit_code == 0
    assert "Times are not comparable: host CPU another CPU" in shown.stdout
    assert "Exact figures are compared." in shown.stdout
    assert run("--strict").exit_code == 5


def test_another_workload_and_a_broken_baseline_exit_4(run, baseline):
    assert run("--seed", 5).exit_code == 4
    baseline.write_text("{")
    broken = run()
    assert broken.exit_code == 4
    assert broken.stderr.startswith("ecbench: baseline.json")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--device", "tpu"), 2, "unknown device"),
        (("--device", "cuda"), 3, "cuda"),
        (("--config", "none.toml"), 2, "none.toml"),
        (("--engine", "warp"), 2, "unknown engine"),
    ],
)
def test_bad_input_is_one_line(run, baseline, arguments, code, words):
    refused = run(*arguments)
    assert refused.exit_code == code
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("ecbench: ")]
    assert words in line


def test_a_config_with_an_unknown_key_names_key_and_line(run, baseline, here):
    (here / "gate.toml").write_text('[[timing]]\ncases = ["*"]\nlimit = "5%"\n')
    refused = run("--config", "gate.toml")
    assert refused.exit_code == 2
    assert "gate.toml, line 3, key 'limit'" in refused.stderr


@pytest.mark.parametrize(("ended_by", "code"), [(None, 130), ("cuda: the device is lost", 3)])
def test_a_run_that_ends_early_is_compared_as_far_as_it_came(run, replay, here, ended_by, code):
    replay(1.5, complete=False, ended_by=ended_by)
    ended = run("--json", "gate.json")
    assert ended.exit_code == code
    assert "The new result was interrupted" in ended.stdout
    ending = "compared what was finished: 1 of 1 process rounds"
    assert f"ecbench: {ended_by or 'interrupted'}; {ending}" in ended.stderr
    document = json.loads((here / "gate.json").read_text())
    assert (document["complete"], document["ended_by"]) == (False, ended_by)


@pytest.mark.parametrize(("ended_by", "code"), [(None, 130), ("cuda: the device is lost", 3)])
def test_a_run_that_ends_before_any_case_compares_nothing(run, replay, ended_by, code):
    replay(1.0, complete=False, ended_by=ended_by, cases=[])
    ended = run()
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert f"ecbench: {ended_by or 'interrupted'}; nothing was compared" in ended.stderr


def test_an_update_that_ends_early_keeps_the_old_baseline_and_saves_what_was_finished(run, replay, here):
    replay(1.0, complete=False)
    before = (here / "baseline.json").read_bytes()
    ended = run("--update", "--json", "run.json")
    assert ended.exit_code == 130
    assert "ecbench: interrupted; no baseline was written" in ended.stderr
    assert (here / "baseline.json").read_bytes() == before
    assert json.loads((here / "run.json").read_text())["complete"] is False


def test_a_failing_step_on_github_is_annotated_on_stderr_and_stdout_stays_json(run, replay, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    replay(1.5)
    shown = run("--json", "-")
    assert json.loads(shown.stdout)["kind"] == "gate"
    (first, *_) = [line for line in shown.stderr.splitlines() if line.startswith("::")]
    assert first.startswith("::error title=ecbench gate%3A tiny/qwen2-vl-2b save::")
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert "::error" not in run().stderr


def test_quiet_says_nothing_when_all_is_well(run, replay):
    replay(1.0)
    shown = run("--quiet")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "")
