from __future__ import annotations

import json

import pytest

from ecbench.core.errors import UnavailableError
from ecbench.report.loading import load_result
from ecbench.stats.pairing import Side
from tests.comparison_samples import leg as made_leg
from tests.workflows.ab_replay import UNREADABLE, Replay, with_leg


@pytest.fixture
def run(ecbench, here, monkeypatch):
    """Runs `ab` on two replayed installations."""

    def invoke(replay, *arguments):
        replay.install(monkeypatch)
        return ecbench("ab", "a", "--base", "old", "--new", "fresh", *arguments)

    return invoke


@pytest.mark.parametrize(
    ("slowdown", "code", "word"), [(0.5, 1, "REGRESSED"), (0.0, 0, "PASSED"), (-0.5, 0, "IMPROVED")]
)
def test_a_slowdown_fails_and_no_change_passes(run, slowdown, code, word):
    shown = run(Replay(slowdown=slowdown), "--strict")
    assert shown.exit_code == code
    assert word in shown.stdout
    assert "paired: process rounds that were run in turn" in shown.stdout


def test_what_differs_between_the_sides_comes_first(run):
    shown = run(Replay(environments={Side.NEW: {"torch": "2.14.1"}}))
    first, second, *_ = shown.stdout.splitlines()
    assert first.startswith("roundtrip of")
    assert second == "differs: torch: 2.13.0 (base), 2.14.1 (new); under test"


def test_inconclusive_warns_and_exits_5_when_strict(run):
    still = Replay(still=True)
    assert run(still, "--budget", 6).exit_code == 0
    shown = run(Replay(still=True), "--budget", 6, "--strict")
    assert shown.exit_code == 5
    assert "constant samples" in shown.stdout


def test_wrong_bytes_exit_1(run):
    spoiled = Replay(spoil={3: with_leg(lambda _: made_leg(status="failed", reason="bytes are wrong: swapped"))})
    shown = run(spoiled)
    assert shown.exit_code == 1
    assert "byte fault" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--threshold", "much"), "threshold 'much'"),
        (("--config", "none.toml"), "none.toml"),
        (("--config", "none.toml", "--threshold", "5%"), "give one of the two"),
        (("--new", ""), "new (): the command is empty"),
    ],
)
def test_bad_input_is_one_line_and_exits_2(run, arguments, words):
    refused = run(Replay(), *arguments)
    assert refused.exit_code == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith("ecbench: ")
    assert words in line


def test_too_small_a_budget_exits_2(run):
    refused = run(Replay(), "--budget", 5)
    assert refused.exit_code == 2
    assert "--budget" in refused.stderr


@pytest.mark.parametrize(
    ("replay", "code", "line"),
    [
        (Replay(spoil={1: UnavailableError("device 'cuda' is not available")}), 3, "new (fresh): device 'cuda' is"),
        (Replay(spoil={0: UNREADABLE}), 4, "base (old): result.json: schema_version 2 is above 1"),
        (Replay(environments={Side.NEW: {"device": "cuda:0"}}), 4, "base and new are not comparable: device cpu and"),
    ],
)
def test_sides_that_cannot_be_compared_are_named_in_one_line(run, replay, code, line):
    refused = run(replay, "--quiet")
    assert (refused.exit_code, refused.stdout) == (code, "")
    (only,) = refused.stderr.splitlines()
    assert only.startswith(f"ecbench: {line}")


def test_a_command_that_is_no_ecbench_exits_3(ecbench, tiny):
    refused = ecbench("ab", tiny, "--base", "/bin/true", "--new", "/no/such/python", "--quiet")
    assert refused.exit_code == 3
    assert refused.stderr.startswith("ecbench: base (/bin/true): is no ecbench")


def test_ctrl_c_saves_the_pairs_that_were_finished_and_exits_130(run, here):
    stopped = run(Replay(slowdown=0.5, spoil={2 + 2 * 6: KeyboardInterrupt()}))
    assert stopped.exit_code == 130
    assert "REGRESSED" in stopped.stdout
    assert stopped.stderr.splitlines()[-1] == "ecbench: interrupted; pairs judged: 6"
    (path,) = here.glob("reports/ab-*Z.json")
    assert load_result(path).complete is False


def test_ctrl_c_before_the_first_pair_saves_nothing(run, here):
    stopped = run(Replay(spoil={2: KeyboardInterrupt()}))
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-1] == "ecbench: interrupted"
    assert not list(here.glob("reports/*"))


def test_both_results_are_written_beside_the_report_and_can_be_compared_again(run, ecbench, here):
    replay = Replay(slowdown=0.5, environments={Side.NEW: {"torch": "2.14.1"}})
    run(replay, "--out", "out")
    (base,), (new,) = here.glob("out/ab-*-base.json"), here.glob("out/ab-*-new.json")
    assert base.name.removesuffix("-base.json") == new.name.removesuffix("-new.json")
    again = ecbench("compare", base, new, "--under-test", "torch", "--fail-on", "regressed")
    assert again.exit_code == 1
    assert "paired" in again.stdout
    (report,) = here.glob("out/ab-*Z.json")
    shown = ecbench("report", report)
    assert "REGRESSED" in shown.stdout


def test_json_is_all_of_stdout_and_progress_is_on_stderr(run):
    shown = run(Replay(slowdown=0.5), "--json", "-", "--budget", 6)
    document = json.loads(shown.stdout)
    assert (document["kind"], document["settings"]["looks"], document["settings"]["pairs"]) == ("ab", [6], 6)
    lines = shown.stderr.splitlines()
    assert lines[:3] == ["warm-up, base", "warm-up, new", "pair 1 of 6 (looks after 6), base"]
    assert sum(line.startswith("pair ") for line in lines) == 12


def test_quiet_says_nothing_when_all_is_well(run):
    shown = run(Replay(), "--quiet")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "")


def test_every_option_reaches_both_sides(run):
    replay = Replay()
    run(
        replay,
        *("--device", "xpu-sim", "--workload", "ec", "--model", "m", "--engine", "gather", "--writer", "setitem"),
        *("--target", "both", "--rounds", 9, "--seed", 4, "--coalesce", "--pageable", "--budget", 6),
    )
    assert {side for side, _ in replay.asked} == set(Side)
    for _, options in replay.asked[2:]:
        assert (options.device, options.workload, options.model, options.engine) == ("xpu-sim", "ec", "m", "gather")
        assert (options.writer, options.target, options.rounds, options.seed) == ("setitem", "both", 9, 4)
        assert (options.coalesce, options.host_memory.value) == (True, "pageable")
