from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from ecbench.core.errors import DataError, EcbenchError, ExitCode, ScenarioError
from ecbench.core.records import LegStatus, to_json
from ecbench.measure.stages import StageClock
from ecbench.report.loading import load_round_trip
from ecbench.workflows import gate as gates
from ecbench.workflows.baseline_cases import options_for
from ecbench.workflows.gate import (
    DEFAULT_PROCESSES,
    GateOptions,
    exit_code_of,
    judge_run,
    prepare_gate,
    prepare_update,
    processes_of,
    run_processes,
    write_baseline,
)
from ecbench.workflows.round_trip import RoundTripOptions
from tests.cli.conftest import TINY
from tests.comparison_samples import base_result, case, failed_leg, leg, noisy_result, result, slower_result

FAIL = '[[timing]]\ncases = ["*"]\non_inconclusive = "fail"\n'
IGNORE = '[[timing]]\ncases = ["*"]\non_inconclusive = "ignore"\n'


@pytest.fixture
def options(tmp_path):
    """Options of a gate over a tiny scenario."""
    scenario = tmp_path / "tiny.toml"
    scenario.write_text(TINY)

    def make(baseline=None, config=None, **changes):
        path = tmp_path / "baseline.json"
        if baseline is not None:
            path.write_bytes(to_json(baseline))
        if config is not None:
            (tmp_path / "gate.toml").write_text(config)
            changes["config"] = tmp_path / "gate.toml"
        run = RoundTripOptions(scenarios=(str(scenario),), device="cpu")
        return GateOptions(round_trip=run, baseline=path, **changes)

    return make


def _nothing(*_):
    pass


def _code(options, run):
    gate = prepare_gate(options)
    return exit_code_of(gate, judge_run(gate, run))


@pytest.mark.parametrize(
    ("run", "config", "strict", "code"),
    [
        (slower_result(0.0), None, True, 0),
        (slower_result(0.5), None, False, 1),
        (slower_result(-0.5), None, True, 0),
        (result(case(failed_leg())), None, False, 1),
        (result(case(leg(processes=8, blocks=1))), "", False, 1),
        (slower_result(0.5), "", True, 0),
        (noisy_result(), None, False, 0),
        (noisy_result(), None, True, 5),
        (noisy_result(), FAIL, False, 1),
        (noisy_result(), IGNORE, True, 0),
        (slower_result(0.5), IGNORE, False, 1),
        (slower_result(0.5, environment={"host_cpu": "another"}), None, False, 0),
        (slower_result(0.5, environment={"host_cpu": "another"}), None, True, 5),
        (slower_result(0.5, environment={"host_cpu": "another"}), FAIL, False, 0),
        (result(case(leg(processes=8, blocks=1)), environment={"host_cpu": "another"}), None, False, 1),
    ],
)
def test_the_exit_code_follows_from_verdicts_config_and_strictness(options, run, config, strict, code):
    assert _code(options(base_result(), config, strict=strict), run) == code


def test_a_missing_case_is_inconclusive(options):
    baseline = result(case(leg(processes=8)), case(leg(), case_id="gone", model="m"))
    assert _code(options(baseline), slower_result(0.0)) == ExitCode.OK
    assert _code(options(baseline, strict=True), slower_result(0.0)) == ExitCode.INCONCLUSIVE


def test_another_workload_is_not_comparable(options):
    with pytest.raises(DataError, match="the workloads differ"):
        _code(options(base_result()), result(case(leg(), seed=9)))


def test_a_gate_runs_as_many_processes_as_its_baseline_has(options):
    assert prepare_gate(options(base_result(processes=6))).processes == 6
    assert prepare_gate(options(base_result(processes=6), processes=2)).processes == 2
    assert prepare_update(options()).processes == DEFAULT_PROCESSES
    assert processes_of(result()) == 1


def test_one_process_round_runs_here_and_can_become_the_baseline(options):
    gate = prepare_update(options(processes=1))
    run = run_processes(gate, StageClock(imports_s=0.0), _nothing)
    write_baseline(gate, run)
    assert load_round_trip(gate.options.baseline).cases[0].case_id == run.cases[0].case_id
    again = prepare_gate(options())
    compared = judge_run(again, run_processes(again, StageClock(imports_s=0.0), _nothing))
    assert not any(leg.differences for entry in compared.cases for leg in entry.legs)


def test_several_process_rounds_are_run_one_after_the_other_and_merged(options, monkeypatch):
    seen, reported = [], []
    monkeypatch.setattr(gates, "run_in_fresh_process", lambda asked: seen.append(asked) or result(case(leg())))
    gate = prepare_update(options(processes=3))
    run = run_processes(gate, StageClock(imports_s=0.0), lambda *report: reported.append(report))
    assert seen == [gate.options.round_trip] * 3
    assert processes_of(run) == 3
    assert [words for words, _, _ in reported] == ["process 1 of 3", "process 2 of 3", "process 3 of 3"]


def test_wrong_bytes_end_the_process_rounds_and_never_become_a_baseline(options, monkeypatch):
    runs = iter([result(case(leg())), result(case(failed_leg()))])
    monkeypatch.setattr(gates, "run_in_fresh_process", lambda _: next(runs))
    gate = prepare_update(options(processes=5))
    run = run_processes(gate, StageClock(imports_s=0.0), _nothing)
    assert run.cases[0].legs[0].status is LegStatus.FAILED
    with pytest.raises(EcbenchError, match=r"not written: tiny/example save failed .*swapped") as caught:
        write_baseline(gate, run)
    assert caught.value.exit_code is ExitCode.CHECK_FAILED
    assert not gate.options.baseline.exists()


def test_ctrl_c_between_process_rounds_keeps_those_that_were_finished(options, monkeypatch):
    runs = iter([result(case(leg())), result(case(leg())), KeyboardInterrupt()])

    def run(_):
        found = next(runs)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(gates, "run_in_fresh_process", run)
    gate = prepare_gate(options(base_result(), processes=5))
    interrupted = run_processes(gate, StageClock(imports_s=0.0), _nothing)
    assert interrupted.complete is False
    assert processes_of(interrupted) == 2
    assert judge_run(gate, interrupted).complete is False


def test_ctrl_c_in_the_first_process_round_leaves_nothing(options, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gates, "run_in_fresh_process", interrupt)
    gate = prepare_gate(options(base_result(), processes=5))
    with pytest.raises(KeyboardInterrupt):
        run_processes(gate, StageClock(imports_s=0.0), _nothing)


def _of(*case_ids):
    return result(*(case(leg(processes=8), case_id=case_id) for case_id in case_ids))


@pytest.mark.parametrize(
    ("case_ids", "asked", "found"),
    [
        (["ec-churned/qwen2.5-vl-7b", "ec-deepstack/qwen3-vl-8b"], {}, (("ec-churned", "ec-deepstack"), None)),
        (["ec-churned/gemma3-4b", "ec-image-set/gemma3-4b"], {}, (("ec-churned", "ec-image-set"), "gemma3-4b")),
        (["ec-churned/qwen2.5-vl-7b"], {"model": "gemma3-4b"}, (("ec-churned",), "gemma3-4b")),
        (["mine/m"], {"scenarios": ("own.toml",)}, (("own.toml",), None)),
        (["mine/m"], {"scenarios": ("own.toml",), "model": "m"}, (("own.toml",), "m")),
    ],
)
def test_without_scenarios_a_gate_runs_those_of_its_baseline(case_ids, asked, found):
    options = options_for(_of(*case_ids), "baseline.json", RoundTripOptions(**asked))
    assert (options.scenarios, options.model) == found


@pytest.mark.parametrize(
    ("suffixes", "asked", "target"),
    [(["@vllm"], "reference", "vllm"), (["", "@vllm"], "reference", "both"), ([""], "vllm", "vllm")],
)
def test_without_scenarios_a_gate_runs_the_target_of_its_baseline(suffixes, asked, target):
    baseline = _of(*(f"ec-churned/qwen2.5-vl-7b{suffix}" for suffix in suffixes))
    assert options_for(baseline, "baseline.json", RoundTripOptions(target=asked)).target == target


@pytest.mark.parametrize(
    ("case_ids", "message"),
    [
        (["tiny/m"], "baseline.json: case tiny/m is of no shipped scenario: name the scenarios"),
        (
            ["ec-churned/gemma3-4b", "ec-deepstack/qwen3-vl-8b"],
            "case ec-churned/gemma3-4b has not its scenario's model",
        ),
    ],
)
def test_a_baseline_that_does_not_tell_what_to_run_says_so(case_ids, message):
    with pytest.raises(ScenarioError, match=message):
        options_for(_of(*case_ids), "baseline.json", RoundTripOptions())


def test_the_cases_a_gate_prepares_are_those_of_its_baseline(options):
    baseline = _of("ec-deepstack/qwen3-vl-8b", "kv-dsv4-flash/deepseek-v4-flash")
    asked = options(baseline)
    gate = prepare_gate(replace(asked, round_trip=replace(asked.round_trip, scenarios=())))
    assert [case.case_id for case in gate.round_trip.cases] == [case.case_id for case in baseline.cases]
    assert gate.options.round_trip.scenarios == ("ec-deepstack", "kv-dsv4-flash")


def test_an_interrupted_run_never_becomes_a_baseline(options):
    gate = prepare_update(options())
    with pytest.raises(EcbenchError, match="the run was interrupted"):
        write_baseline(gate, msgspec.structs.replace(base_result(), complete=False))


def test_a_misspelt_glob_is_found_before_anything_is_run(options):
    with pytest.raises(ScenarioError, match="names no case: the cases are tiny/example, tiny/qwen2-vl-2b"):
        prepare_gate(options(base_result(), '[[timing]]\ncases = ["tinny/*"]'))


def test_an_unreadable_baseline_is_bad_data(options):
    with pytest.raises(DataError, match="cannot be read"):
        prepare_gate(options())
