from __future__ import annotations

import sys
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.comparison_records import DifferenceEffect, Pairing, Reason, Verdict
from ecbench.core.errors import DataError, EcbenchError, ExitCode, ScenarioError, UnavailableError
from ecbench.core.records import LegStatus
from ecbench.stats.pairing import PAIRING_SETTING, Side
from ecbench.workflows.ab import AbOptions, exit_code_of, prepare_ab, run_ab
from ecbench.workflows.ab_sides import command_of, things_under_test
from ecbench.workflows.comparable import comparable
from ecbench.workflows.comparison import compare_results
from ecbench.workflows.round_trip import RoundTripOptions
from ecbench.workflows.timing_rules import TimingRule
from ecbench.workflows.workloads import default_scenarios
from tests.cli.conftest import TINY
from tests.comparison_samples import ENVIRONMENT
from tests.workflows.ab_replay import UNREADABLE, Replay, with_leg

ONE = RoundTripOptions(scenarios=("a",))
SWAPPED = {
    Verdict.REGRESSED: Verdict.IMPROVED,
    Verdict.IMPROVED: Verdict.REGRESSED,
}
OTHER_TORCH = {Side.NEW: {"torch": "2.14.1"}}


def _nothing(*_):
    pass


def _options(**changes):
    return AbOptions(**{"base": "old", "new": "fresh", "round_trip": ONE, **changes})


def _run(monkeypatch, replay, report=_nothing, **changes):
    replay.install(monkeypatch)
    return run_ab(prepare_ab(_options(**changes)), report)


def _legs(outcome):
    return {(case.case_id, leg.name): leg for case in outcome.comparison.cases for leg in case.legs}


def _wrong(leg):
    return msgspec.structs.replace(leg, status=LegStatus.FAILED, reason="bytes are wrong: swapped")


# How a side is started.


def test_an_interpreter_runs_its_ecbench_also_where_a_checkout_is_the_working_directory():
    assert command_of("/venvs/old/bin/python3.11") == ("/venvs/old/bin/python3.11", "-P", "-m", "ecbench")


def test_a_venv_and_a_command_line_are_understood(tmp_path):
    venv = tmp_path / "with space"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    assert command_of(str(venv)) == (str(venv / "bin" / "python"), "-P", "-m", "ecbench")
    assert command_of("env PYTHONPATH='/a b' python") == ("env", "PYTHONPATH=/a b", "python", "-P", "-m", "ecbench")
    assert command_of("env X=1 python -m ecbench") == ("env", "X=1", "python", "-m", "ecbench")
    assert command_of("bin/ecbench") == ("bin/ecbench",)
    assert not command_of("~/ecbench")[0].startswith("~")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", EcbenchError, r"new \(\): the command is empty"),
        ("a 'b", EcbenchError, r"new \(a 'b\): .*close the quotes"),
        ("FOLDER", UnavailableError, r"new \(FOLDER\): FOLDER: has no bin/python"),
    ],
)
def test_a_command_that_cannot_be_one_names_its_side(tmp_path, monkeypatch, text, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER").mkdir()
    with pytest.raises(error, match=message):
        prepare_ab(_options(new=text))


# What is asked before the budget is spent.


@pytest.mark.parametrize(
    ("number", "failure", "side"),
    [
        (0, UnavailableError("device 'cuda' is not available"), "base"),
        (1, UNREADABLE, "new"),
    ],
)
def test_a_side_that_cannot_run_is_named_before_any_pair(monkeypatch, number, failure, side):
    replay = Replay(spoil={number: failure})
    with pytest.raises(type(failure), match=rf"^{side} \({'old' if side == 'base' else 'fresh'}\): {failure}"):
        _run(monkeypatch, replay)
    assert len(replay.asked) == number + 1


def test_a_command_that_is_no_ecbench_is_named():
    options = _options(base=sys.executable, new=f"{sys.executable} -c 'print(1)'", budget=6)
    with pytest.raises(UnavailableError, match=r"^new \(.*print.*\): is no ecbench"):
        run_ab(prepare_ab(options), _nothing)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"device": "cuda:0"}, "device cpu and cuda"),
        ({"driver": "570"}, "driver None and 570"),
        ({"host_cpu": "another"}, "host CPU Example CPU and another"),
        ({"pinning": "refused"}, "pinning"),
    ],
)
def test_what_no_installation_brings_is_refused(monkeypatch, environment, words):
    replay = Replay(environments={Side.NEW: environment})
    with pytest.raises(
        DataError, match=f"base and new are not comparable: {words}.*only versions of what is installed"
    ):
        _run(monkeypatch, replay)
    assert len(replay.asked) == 2


def test_sides_that_run_other_workloads_are_refused(monkeypatch):
    def other(made):
        cases = [msgspec.structs.replace(case, params={**case.params, "seed": 1}) for case in made.cases]
        return msgspec.structs.replace(made, cases=cases)

    with pytest.raises(DataError, match="the workloads differ"):
        _run(monkeypatch, Replay(spoil={1: other}))


def test_what_differs_between_the_installations_is_under_test():
    new = msgspec.structs.replace(ENVIRONMENT, torch="2.14.1", numpy="2.5.0", kernel="6.2")
    assert things_under_test(ENVIRONMENT, new) == ("torch", "numpy")
    assert things_under_test(ENVIRONMENT, new, ["driver", "torch"]) == ("torch", "numpy", "driver")
    assert things_under_test(ENVIRONMENT, ENVIRONMENT) == ()


def test_a_driver_may_be_named_as_under_test(monkeypatch, tmp_path):
    (tmp_path / "gate.toml").write_text('under_test = ["driver"]\n[[timing]]\ncases = ["*"]\n')
    replay = Replay(environments={Side.NEW: {"driver": "570"}})
    outcome = _run(monkeypatch, replay, config=tmp_path / "gate.toml")
    assert outcome.comparison.differences[0].effect is DifferenceEffect.UNDER_TEST


def test_versions_of_torch_and_of_targets_come_first_and_are_under_test(monkeypatch):
    both = {Side.BASE: {"vllm": "0.32.0"}, Side.NEW: {**OTHER_TORCH[Side.NEW], "vllm": "0.33.0"}}
    outcome = _run(monkeypatch, Replay(environments=both))
    found = [(entry.name, entry.base, entry.new, entry.effect) for entry in outcome.comparison.differences]
    assert found == [
        ("vllm", "0.32.0", "0.33.0", DifferenceEffect.UNDER_TEST),
        ("torch", "2.13.0", "2.14.1", DifferenceEffect.UNDER_TEST),
    ]


def test_the_same_versions_are_said_to_be_the_same(monkeypatch):
    notes = _run(monkeypatch, Replay()).comparison.notes
    assert any("compares the same versions" in note for note in notes)


# Pairs and looks.


def test_processes_run_in_abba_order_and_the_warm_up_is_dropped(monkeypatch):
    replay = Replay(slowdown=0.5)
    outcome = _run(monkeypatch, replay, budget=6)
    sides = [side for side, _ in replay.asked]
    base, new = Side
    assert sides == [base, new, *[base, new, new, base] * 3]
    assert [options.rounds for _, options in replay.asked] == [1, 1, *[None] * 12]
    (only, *_) = outcome.base.cases[0].legs
    assert [sample.process for sample in only.samples] == [p for p in range(6) for _ in range(7)]
    assert outcome.base.settings[PAIRING_SETTING] == outcome.new.settings[PAIRING_SETTING]


def test_cases_are_shuffled_from_pair_to_pair_and_alike_within_one(monkeypatch):
    names = tuple("abcdef")
    replay = Replay(slowdown=0.5)
    outcome = _run(monkeypatch, replay, round_trip=replace(ONE, scenarios=names), budget=6)
    orders = [options.scenarios for _, options in replay.asked[2:]]
    assert orders[::2] == orders[1::2]
    assert len(set(orders)) > 3
    assert {frozenset(order) for order in orders} == {frozenset(names)}
    assert [case.case_id for case in outcome.comparison.cases] == [f"{name}/example" for name in names]


def test_the_default_set_is_run_by_name(monkeypatch):
    replay = Replay(slowdown=0.5)
    _run(monkeypatch, replay, round_trip=RoundTripOptions(workload="ec"), budget=6)
    assert replay.asked[0][1].scenarios == default_scenarios("ec", None)


def test_a_slowdown_is_found_at_the_first_look_and_no_pair_is_run_after_it(monkeypatch):
    replay = Replay(slowdown=0.5)
    outcome = _run(monkeypatch, replay, budget=16)
    save = _legs(outcome)["a/example", "save"]
    assert (save.verdict, save.reason) == (Verdict.REGRESSED, Reason.SLOWER_BEYOND_THRESHOLD)
    assert (save.times.pairing, save.times.threshold) == (Pairing.PAIRED, pytest.approx(0.05))
    assert (save.times.look, save.times.looks) == (1, 3)
    assert outcome.comparison.settings["looks"] == [8, 12, 16]
    assert outcome.comparison.settings["pairs"] == 8
    assert len(replay.asked) == 2 + 16
    assert "Pairs run: 8 of at most 16." in outcome.comparison.notes


def test_pairs_are_added_up_to_the_budget_while_times_are_undecided(monkeypatch):
    replay = Replay(slowdown=0.05)
    outcome = _run(monkeypatch, replay, budget=12)
    assert len(replay.asked) == 2 + 24
    assert _legs(outcome)["a/example", "save"].times.look == len(outcome.comparison.settings["looks"])


@pytest.mark.parametrize("seed", range(10))
def test_a_slowdown_of_ten_percent_is_found_within_the_budget(monkeypatch, seed):
    outcome = _run(monkeypatch, Replay(slowdown=0.10, seed=seed))
    legs = _legs(outcome)
    assert legs["a/example", "save"].verdict is Verdict.REGRESSED
    assert legs["a/example", "load"].verdict is not Verdict.REGRESSED


@given(st.integers(0, 2**32), st.booleans())
def test_the_same_installation_twice_never_regresses(seed, still):
    with pytest.MonkeyPatch.context() as patch:
        outcome = _run(patch, Replay(seed=seed, still=still), budget=8)
    assert {leg.verdict for leg in _legs(outcome).values()} <= {Verdict.PASSED, Verdict.INCONCLUSIVE}
    assert exit_code_of(prepare_ab(_options()), outcome.comparison) is ExitCode.OK


@given(st.integers(0, 2**32), st.sampled_from([-0.3, -0.08, 0.0, 0.04, 0.08, 0.3]))
def test_swapping_base_and_new_swaps_the_verdict(seed, slowdown):
    with pytest.MonkeyPatch.context() as patch:
        outcome = _run(patch, Replay(seed=seed, slowdown=slowdown), budget=8)

    def decided(base, new):
        compared = compare_results(
            comparable(base), comparable(new), kind="ab", rules=[TimingRule()], under_test=(), settings={}
        )
        return [leg for case in compared.cases for leg in case.legs]

    forth, back = decided(outcome.base, outcome.new), decided(outcome.new, outcome.base)
    for one, other in zip(forth, back, strict=True):
        assert one.times.ratio * other.times.ratio == pytest.approx(1)
        # A gate guards against slowdowns only, so what may be faster passes: `verdict_of` says how that turns around.
        if {one.verdict, other.verdict} & set(SWAPPED):
            assert SWAPPED[one.verdict] is other.verdict


def test_each_process_is_reported_with_its_pair_and_the_looks(monkeypatch):
    reports = []
    _run(monkeypatch, Replay(slowdown=0.5), report=lambda *report: reports.append(report), budget=6)
    assert reports[:2] == [("warm-up, base", 0, 12), ("warm-up, new", 0, 12)]
    assert reports[2] == ("pair 1 of 6 (looks after 6), base", 0, 12)
    assert reports[-1] == ("pair 6 of 6 (looks after 6), base", 11, 12)


# What ends a run early.


@pytest.mark.parametrize(
    ("process", "pairs", "reason"),
    [
        (2 + 2 * 3 + 1, 3, Reason.TOO_FEW_ROUNDS),
        (2 + 2 * 7, 7, Reason.SLOWER_BEYOND_THRESHOLD),
        (2 + 2 * 8 + 1, 8, Reason.SLOWER_BEYOND_THRESHOLD),
        (2 + 2 * 9, 9, Reason.SLOWER_BEYOND_THRESHOLD),
    ],
)
def test_ctrl_c_gives_the_verdicts_on_the_pairs_that_were_finished(monkeypatch, process, pairs, reason):
    replay = Replay(slowdown=0.5, slowdown_of_load=0.05, spoil={process: KeyboardInterrupt()})
    outcome = _run(monkeypatch, replay)
    assert outcome.comparison.complete is False
    assert outcome.comparison.ended_by is None
    assert outcome.comparison.settings["pairs"] == pairs
    save = _legs(outcome)["a/example", "save"]
    assert (save.reason, save.times.base_rounds, save.times.new_rounds) == (reason, pairs, pairs)
    assert exit_code_of(prepare_ab(_options()), outcome.comparison) is ExitCode.INTERRUPTED
    assert any(f"Pairs run: {pairs} of at most 16; then interrupted." in note for note in outcome.comparison.notes)


def test_ctrl_c_before_a_pair_is_finished_leaves_nothing_to_judge(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        _run(monkeypatch, Replay(spoil={3: KeyboardInterrupt()}))


def test_a_process_that_fails_keeps_the_pairs_before_it_and_names_its_side(monkeypatch):
    outcome = _run(monkeypatch, Replay(slowdown=0.5, spoil={2 + 2 * 6 + 1: UnavailableError("the device is lost")}))
    assert outcome.comparison.ended_by == "new (fresh): the device is lost"
    assert outcome.comparison.settings["pairs"] == 6
    assert exit_code_of(prepare_ab(_options()), outcome.comparison) is ExitCode.UNAVAILABLE
    with pytest.raises(UnavailableError, match=r"base \(old\): the device is lost"):
        _run(monkeypatch, Replay(spoil={2: UnavailableError("the device is lost")}))


@pytest.mark.parametrize(
    ("process", "processes", "reason"),
    [
        (1, 2, Reason.BYTE_FAULT),  # new, warm-up
        (0, 2, Reason.BASE_UNUSABLE),  # base, warm-up
        (2 + 1, 4, Reason.BYTE_FAULT),  # new, first pair
        (2 + 2 * 8 + 1, 2 + 2 * 9, Reason.BYTE_FAULT),  # new, ninth pair: after the first look
    ],
)
def test_wrong_bytes_end_the_run_and_count_as_regressed(monkeypatch, process, processes, reason):
    replay = Replay(slowdown=0.05, spoil={process: with_leg(_wrong)})
    outcome = _run(monkeypatch, replay)
    assert len(replay.asked) == processes
    save = _legs(outcome)["a/example", "save"]
    assert save.reason is reason
    regressed = reason is Reason.BYTE_FAULT
    assert save.verdict is (Verdict.REGRESSED if regressed else Verdict.INCONCLUSIVE)
    code = exit_code_of(prepare_ab(_options(strict=True)), outcome.comparison)
    assert code is (ExitCode.CHECK_FAILED if regressed else ExitCode.INCONCLUSIVE)


def test_an_exact_figure_that_differs_is_a_regression_whatever_the_times_say(monkeypatch):
    more = with_leg(lambda leg: msgspec.structs.replace(leg, descriptors=leg.descriptors + 1))
    replay = Replay(slowdown=-0.5)
    replay.spoil = {number: _only_new(replay, more) for number in range(40)}
    outcome = _run(monkeypatch, replay)
    save = _legs(outcome)["a/example", "save"]
    assert (save.verdict, save.reason) == (Verdict.REGRESSED, Reason.EXACT_FIGURES_DIFFER)
    assert save.times.verdict is Verdict.IMPROVED


def _only_new(replay, change):
    """Changes results of the new side."""
    return lambda made: change(made) if replay.asked[-1][0] is Side.NEW else made


def test_without_times_to_compare_no_pair_is_run(monkeypatch, tmp_path):
    (tmp_path / "gate.toml").write_text("")
    replay = Replay()
    outcome = _run(monkeypatch, replay, config=tmp_path / "gate.toml")
    assert len(replay.asked) == 2
    assert {leg.reason for leg in _legs(outcome).values()} == {Reason.NOT_GATED}
    assert "No pairs were run: no times can be compared." in outcome.comparison.notes


def test_a_path_that_changes_between_the_sides_is_named_and_not_timed(monkeypatch):
    replay = Replay()
    slow_path = with_leg(lambda leg: msgspec.structs.replace(leg, engine="per-copy"))
    replay.spoil = {number: _only_new(replay, slow_path) for number in range(40)}
    save = _legs(_run(monkeypatch, replay))["a/example", "save"]
    assert (save.reason, save.detail) == (Reason.TIMES_NOT_COMPARABLE, "not comparable: engine memmove and per-copy")


# Configuration.


def test_the_threshold_is_that_of_all_times(monkeypatch):
    outcome = _run(monkeypatch, Replay(slowdown=0.10), threshold="30%")
    assert _legs(outcome)["a/example", "save"].verdict is Verdict.PASSED


def test_a_gate_file_says_what_is_gated_and_what_to_do_when_inconclusive(monkeypatch, tmp_path):
    path = tmp_path / "gate.toml"
    path.write_text('[[timing]]\ncases = ["a/*"]\nmetric = "copy_s"\non_inconclusive = "fail"\n')
    constant = Replay(still=True)
    outcome = _run(monkeypatch, constant, config=path, budget=6)
    assert _legs(outcome)["a/example", "save"].times.metric == "copy_s"
    options = _options(config=path)
    assert exit_code_of(prepare_ab(options), outcome.comparison) is ExitCode.CHECK_FAILED
    path.write_text('[[timing]]\ncases = ["b/*"]\n')
    with pytest.raises(ScenarioError, match=r"names no case: the cases are a/example"):
        _run(monkeypatch, Replay(), config=path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threshold": "much"}, "threshold 'much'"),
        ({"budget": 5}, "5 pairs are too few"),
        ({"threshold": "5%", "config": "gate.toml"}, "gate.toml names thresholds too"),
        ({"round_trip": RoundTripOptions(workload="x")}, "unknown workload 'x'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_started(monkeypatch, changes, message):
    with pytest.raises(EcbenchError, match=message):
        prepare_ab(_options(**changes))


def test_two_real_installations_are_compared_from_start_to_end(tmp_path):
    scenario = tmp_path / "tiny.toml"
    scenario.write_text(TINY)
    round_trip = RoundTripOptions(scenarios=(str(scenario),), device="cpu")
    ab = prepare_ab(AbOptions(sys.executable, f"env X=1 {sys.executable}", round_trip, budget=6, config=None))
    ab = replace(ab, schedule=type(ab.schedule)((1,)))
    outcome = run_ab(ab, _nothing)
    assert outcome.comparison.complete
    assert [leg.exact_figures for leg in outcome.comparison.cases[0].legs] == [4, 4]
    assert {leg.reason for leg in outcome.comparison.cases[0].legs} == {Reason.TOO_FEW_ROUNDS}
    assert outcome.new.cases[0].legs[0].samples
