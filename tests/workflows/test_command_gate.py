from __future__ import annotations

import json

import msgspec
import pytest

from ecbench.core.comparison_records import Reason, Verdict
from ecbench.core.differential_records import PlanDifference, SchedulerComparison
from ecbench.core.errors import DataError, EcbenchError, ExitCode, ScenarioError
from ecbench.core.probe_records import ConventionRuling, ProbeCase, Ruling
from ecbench.core.records import LegStatus, RunResult, to_json
from ecbench.core.scan_records import UnparsableFile
from ecbench.report.loading import load_result
from ecbench.workflows.command_gate import command_of, judge_again, prepare_command_gate, run_again, write_again
from ecbench.workflows.gate import GateOptions, exit_code_of
from ecbench.workflows.round_trip import RoundTripOptions
from ecbench.workflows.scan import ScanOptions, run_scan
from tests.comparison_samples import ENVIRONMENT, failed_leg, leg
from tests.conftest import GOLDEN

PROBE_SETTINGS = {"torch": [], "numpy": [], "python": [], "pythons": 0, "details": False}


@pytest.fixture
def options(tmp_path):
    """Options of a gate whose baseline is a result."""

    def make(baseline, config=None, **changes):
        path = tmp_path / "baseline.json"
        path.write_bytes(to_json(baseline))
        if config is not None:
            (tmp_path / "gate.toml").write_text(config)
            changes["config"] = tmp_path / "gate.toml"
        return GateOptions(round_trip=changes.pop("round_trip", RoundTripOptions()), baseline=path, **changes)

    return make


@pytest.fixture
def sources(tmp_path):
    """A folder whose file has a finding."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "sizes.py").write_text("def size(x):\n    return float(x.data_ptr())\n")
    return tmp_path / "src"


def _rulings(*rulings, torch="2.13.0", **changes):
    conventions = [
        ConventionRuling(name=f"c{number}", ruling=ruling, exception=None, ns_per_element=None, expected=ruling)
        for number, ruling in enumerate(rulings)
    ]
    case = ProbeCase(case_id=f"torch-{torch}", params={}, conventions=conventions, **changes)
    return RunResult(
        schema_version=1,
        kind="probe-ptr-overflow",
        started_at="",
        environment=ENVIRONMENT,
        settings=PROBE_SETTINGS,
        cases=[case],
    )


def _savings(**changes):
    """A planned case that was held against a scheduler."""
    stored = load_result(GOLDEN / "savings_result.json")
    case = msgspec.structs.replace(stored.cases[0], legs=[], legs_without_skip=[], **changes)
    return msgspec.structs.replace(stored, cases=[case], settings={"measure": False})


def _compared(gate, run):
    result = judge_again(gate, run)
    (case,) = result.cases
    return result, case.legs[0], exit_code_of(gate, result)


@pytest.mark.parametrize(
    ("run", "verdict", "code"),
    [
        (_rulings(Ruling.SAFE, Ruling.FAILS), Verdict.PASSED, 0),
        (_rulings(Ruling.SAFE, Ruling.CORRUPTS), Verdict.REGRESSED, 1),
        (_rulings(Ruling.SAFE, Ruling.SAFE), Verdict.IMPROVED, 0),
        (_rulings(reason="the installer failed"), Verdict.INCONCLUSIVE, 5),
    ],
)
def test_rulings_gate_exactly(options, run, verdict, code):
    gate = prepare_command_gate(options(_rulings(Ruling.SAFE, Ruling.FAILS), strict=True))
    result, whole, found = _compared(gate, run)
    assert (whole.verdict, found) == (verdict, code)
    assert (result.kind, result.compared_kind) == ("gate", "probe-ptr-overflow")
    assert result.settings["processes"] == 1


def test_the_torch_that_is_installed_now_is_held_against_the_one_that_was(options):
    gate = prepare_command_gate(options(_rulings(Ruling.SAFE)))
    result, whole, code = _compared(gate, _rulings(Ruling.CORRUPTS, torch="2.14.1"))
    assert (whole.verdict, code) == (Verdict.REGRESSED, ExitCode.CHECK_FAILED)
    assert (result.cases[0].base_case_id, result.cases[0].case_id) == ("torch-2.13.0", "torch-2.14.1")


def test_a_file_that_is_no_longer_parsed_is_for_the_worse_and_its_findings_are_no_improvement(options, sources):
    gate = prepare_command_gate(options(run_scan(ScanOptions(path=sources))))
    (sources / "sizes.py").write_text("def size(:\n")
    run = run_scan(ScanOptions(path=sources))
    assert isinstance(run.cases[0].unparsable[0], UnparsableFile)
    _, whole, code = _compared(gate, run)
    assert (whole.verdict, whole.reason, code) == (Verdict.REGRESSED, Reason.EXACT_FIGURES_DIFFER, 1)
    assert f"not parsed: {sources}/sizes.py" in whole.detail


def test_a_difference_from_the_real_scheduler_is_an_exact_figure(options, monkeypatch):
    monkeypatch.setattr("ecbench.workflows.command_gate.arguments_for", lambda kind, settings: [kind])
    same = SchedulerComparison(scheduler="vllm 0.32.0")
    differs = SchedulerComparison(
        scheduler="vllm 0.33.0",
        differences=[PlanDifference(what="stored chunks", group="window", ours=3, theirs=4, first_chunk=2)],
    )
    gate = prepare_command_gate(options(_savings(against=same)))
    _, whole, code = _compared(gate, _savings(against=same))
    assert (whole.verdict, code) == (Verdict.PASSED, 0)
    _, whole, code = _compared(gate, _savings(against=differs))
    assert (code, whole.detail) == (1, "differences from the scheduler: 0 before, 1 now")


def test_the_command_runs_in_a_fresh_process_with_the_options_of_the_baseline(options, sources):
    gate = prepare_command_gate(options(run_scan(ScanOptions(path=sources))))
    assert gate.arguments == ["scan-ptrs", str(sources), "--fail-on", "crash"]
    run = run_again(gate)
    _, whole, code = _compared(gate, run)
    assert (whole.reason, whole.exact_figures, code) == (Reason.EXACT_FIGURES_EQUAL, 1, 0)
    write_again(gate, run)
    assert load_result(gate.options.baseline).started_at == run.started_at


def test_a_command_that_gives_no_result_is_quoted_with_its_exit_code(options, sources):
    gate = prepare_command_gate(options(run_scan(ScanOptions(path=sources))))
    (sources / "sizes.py").unlink()
    sources.rmdir()
    with pytest.raises(EcbenchError, match=rf"^ecbench scan-ptrs failed: .*{sources}") as caught:
        run_again(gate)
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"round_trip": RoundTripOptions(scenarios=("ec-churned",))}, "SCENARIO"),
        ({"round_trip": RoundTripOptions(device="cpu", seed=1)}, "--device, --seed"),
        ({"processes": 1}, "--processes"),
    ],
)
def test_what_is_for_round_trips_is_refused(options, changes, words):
    with pytest.raises(EcbenchError, match=rf"^{words}: .* is a result of probe-ptr-overflow, .*leave out") as caught:
        prepare_command_gate(options(_rulings(Ruling.SAFE), **changes))
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_baseline_that_does_not_say_what_it_was_asked_for_is_refused_with_its_name(options):
    old = msgspec.structs.replace(_rulings(Ruling.SAFE), settings={"torch": [], "numpy": [], "details": False})
    with pytest.raises(DataError, match=r"baseline.json: its settings lack python, "):
        prepare_command_gate(options(old))


def test_a_baseline_without_cases_has_nothing_to_compare(options):
    with pytest.raises(DataError, match=r"baseline.json: this result of dsv4-swa-savings has no case"):
        prepare_command_gate(options(msgspec.structs.replace(_savings(), cases=[])))


def test_a_misspelt_glob_is_found_before_anything_is_run(options):
    with pytest.raises(ScenarioError, match=r"names no case: the cases are torch-2\.13\.0"):
        prepare_command_gate(options(_rulings(Ruling.SAFE), '[[timing]]\ncases = ["trch-*"]'))


@pytest.mark.parametrize(
    ("run", "code", "words"),
    [
        (msgspec.structs.replace(_rulings(Ruling.SAFE), complete=False), ExitCode.USAGE, "the run was interrupted"),
        (_rulings(reason="the installer failed"), ExitCode.UNAVAILABLE, "torch-2.13.0: the installer failed"),
    ],
)
def test_what_was_not_finished_or_not_looked_at_is_no_baseline(options, run, code, words):
    gate = prepare_command_gate(options(_rulings(Ruling.SAFE)))
    before = gate.options.baseline.read_bytes()
    with pytest.raises(EcbenchError, match=f"not written: {words}") as caught:
        write_again(gate, run)
    assert caught.value.exit_code is code
    assert gate.options.baseline.read_bytes() == before


def test_wrong_bytes_are_no_baseline_and_a_leg_with_nothing_to_move_is_one(options, monkeypatch):
    monkeypatch.setattr("ecbench.workflows.command_gate.arguments_for", lambda kind, settings: [kind])
    gate = prepare_command_gate(options(_savings()))
    run = _savings()
    skipped = msgspec.structs.replace(failed_leg(), status=LegStatus.SKIPPED, reason="nothing to move")
    write_again(gate, _with_leg(run, skipped))
    with pytest.raises(EcbenchError, match=r"not written: .*bytes are wrong") as caught:
        write_again(gate, _with_leg(run, failed_leg()))
    assert caught.value.exit_code is ExitCode.CHECK_FAILED


def _with_leg(run, only):
    return msgspec.structs.replace(run, cases=[msgspec.structs.replace(run.cases[0], legs=[only])])


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (None, "roundtrip"),
        ("{", "roundtrip"),
        ('{"schema_version": 1, "kind": "roundtrip"}', "roundtrip"),
        ('{"schema_version": 1, "kind": "scan-ptrs"}', "scan-ptrs"),
    ],
)
def test_the_kind_of_the_baseline_decides_what_runs(tmp_path, text, command):
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text)
    assert command_of(path) == command


def test_a_kind_that_no_gate_runs_again_names_those_that_are(tmp_path):
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps({"schema_version": 1, "kind": "sweep"}))
    with pytest.raises(
        DataError, match="a result of 'sweep' is no baseline of a gate: give one of roundtrip, dsv4-swa"
    ):
        command_of(path)


def test_times_of_measured_plans_are_gated_as_the_configuration_says(options, monkeypatch):
    monkeypatch.setattr("ecbench.workflows.command_gate.arguments_for", lambda kind, settings: [kind])
    run = _with_leg(_savings(), leg("store", rounds=8, slowdown=0.5))
    baseline = _with_leg(_savings(), leg("store", rounds=8))
    for config, verdict, code in ((None, Verdict.REGRESSED, 1), ("", Verdict.PASSED, 0)):
        gate = prepare_command_gate(options(baseline, config))
        result = judge_again(gate, run)
        assert (result.cases[0].legs[1].verdict, exit_code_of(gate, result)) == (verdict, code)
