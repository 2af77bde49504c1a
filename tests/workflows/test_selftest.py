"""The self-test: faults that are really injected, process rounds that are made up."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from ecbench.core.errors import CopyRefusedError, EcbenchError, ExitCode, UnavailableError
from ecbench.core.records import Fault, LegStatus
from ecbench.measure.stages import StageClock
from ecbench.workflows import selftest as workflow
from ecbench.workflows.selftest import (
    FULL,
    QUICK,
    Extent,
    SelftestOptions,
    exit_code_of,
    inject_faults,
    missed,
    prepare_selftest,
    run_selftest,
)
from ecbench.workflows.selftest_worker import RoundAnswer
from tests.cli.conftest import TINY
from tests.cli.test_roundtrip_dsv4 import SHORT
from tests.comparison_samples import case, leg, result
from tests.selftest_samples import injected_fault, process_rounds, selftest_case, selftest_result


def _nothing(_):
    pass


@pytest.fixture
def options(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)

    def make(**changes):
        fields = {"scenario": str(tmp_path / "tiny.toml"), "device": "cpu", "extent": Extent(6, 2, rounds=2)}
        return SelftestOptions(**{**fields, **changes})

    return make


@pytest.fixture
def replayed(monkeypatch):
    """Process rounds that take no time: each is answered with the times of one that was made up."""

    def use(**changes):
        by_delay = {}
        for entry in process_rounds(turns=200, rounds=2, **changes):
            by_delay.setdefault(entry.delay, []).append(entry.totals_s)

        class Server:
            def run_round(self, request):
                shares = {"save": 0.5, "load": 0.5}
                return RoundAnswer(totals_s=by_delay[request.delay].pop(), engine_shares=shares)

        @contextmanager
        def server():
            yield Server()

        monkeypatch.setattr(workflow, "warm_server", server)

    return use


@pytest.mark.parametrize("device", ["cpu", "xpu-sim"])
def test_every_fault_is_found_in_both_directions_and_under_its_own_name(options, device):
    faults = inject_faults(prepare_selftest(options(device=device)).faults_on, _nothing)
    assert [(entry.fault, entry.direction) for entry in faults] == [
        (fault, direction) for fault in Fault for direction in ("save", "load")
    ]
    for entry in faults:
        assert entry.injected
        assert entry.found
        assert entry.named is entry.fault


def test_the_shipped_scenario_has_room_for_every_fault():
    faults = inject_faults(prepare_selftest(SelftestOptions(device="cpu")).faults_on, _nothing)
    assert all(entry.injected and entry.named is entry.fault for entry in faults)


def test_faults_are_found_in_kv_blocks_too(options, tmp_path):
    (tmp_path / "short.toml").write_text(SHORT)
    faults = inject_faults(prepare_selftest(options(scenario=str(tmp_path / "short.toml"))).faults_on, _nothing)
    assert {entry.direction for entry in faults} == {"store", "load"}
    assert not [entry for entry in faults if entry.injected and not entry.found]


def test_a_run_has_faults_process_rounds_and_figures(options, replayed):
    replayed(noise=0.01)
    said = []
    found = run_selftest(prepare_selftest(options()), StageClock(), said.append)
    (only,) = found.cases
    assert (found.kind, found.complete, only.pairs, only.turns) == ("selftest", True, 6, 12)
    assert len(only.process_rounds) == 12 * 6
    assert len(only.faults) == 2 * len(Fault)
    assert only.rates
    assert exit_code_of(found) is ExitCode.OK
    assert {"faults", "process rounds", "statistics"} <= found.stages_s.keys()
    assert said[0] == "tiny/qwen2-vl-2b: byte faults of 9 classes"
    assert said[1] == "turn 1 of 12: 6 process rounds each"


@pytest.mark.parametrize(
    ("only", "code"),
    [
        (selftest_case(), ExitCode.OK),
        (selftest_case(faults=[injected_fault(found=False, named=None)]), ExitCode.CHECK_FAILED),
        (selftest_case(faults=[injected_fault(found=False, named=None, injected=False)]), ExitCode.OK),
        (selftest_case(faults=[injected_fault(named=Fault.MISSING)]), ExitCode.OK),
        (selftest_case(rounds=process_rounds(noise=0.5)), ExitCode.OK),
    ],
    ids=["all well", "a fault is missed", "no room for a fault", "another name", "a noisy machine"],
)
def test_the_exit_code_follows_from_what_was_found(only, code):
    assert exit_code_of(selftest_result(only)) is code


def test_more_false_alarms_than_promised_are_a_failure():
    assert exit_code_of(selftest_result(replace(selftest_case(), cries_wolf=True))) is ExitCode.CHECK_FAILED


def test_only_faults_that_changed_a_byte_can_be_missed():
    lost = injected_fault(found=False, named=None)
    idle = injected_fault(found=False, named=None, injected=False)
    assert missed(selftest_case(faults=[injected_fault(), lost, idle])) == [lost]


def test_an_interrupted_run_has_no_case(options, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow, "run_round_trip", interrupt)
    found = run_selftest(prepare_selftest(options()), StageClock(), _nothing)
    assert (found.complete, found.cases, exit_code_of(found)) == (False, [], ExitCode.INTERRUPTED)


def test_ctrl_c_keeps_the_faults_and_the_turns_that_were_finished(options, monkeypatch):
    def two_turns(run_round, request, *, most, least, budget_s):
        finished = process_rounds(turns=2)
        yield finished[:6]
        yield finished[6:]
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow, "run_turns", two_turns)
    monkeypatch.setattr(workflow, "warm_server", lambda: nullcontext(SimpleNamespace(run_round=None)))
    found = run_selftest(prepare_selftest(options()), StageClock(), _nothing)
    assert (found.complete, exit_code_of(found)) == (False, ExitCode.INTERRUPTED)
    (kept,) = found.cases
    assert kept.turns == 2
    assert {entry.fault for entry in kept.faults} == set(Fault)
    assert kept.rates == []


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (result(case(leg(status=LegStatus.ERROR, reason="engine x: cannot: use y"))), CopyRefusedError),
        (result(complete=False), KeyboardInterrupt),
    ],
)
def test_faults_that_cannot_be_injected_end_the_run(options, monkeypatch, run, error):
    monkeypatch.setattr(workflow, "run_round_trip", lambda *_: run)
    with pytest.raises(error):
        inject_faults(prepare_selftest(options()).faults_on, _nothing)


def test_a_lost_device_is_told(options, monkeypatch):
    lost = replace(result(complete=False), ended_by="cuda:0 is gone")
    monkeypatch.setattr(workflow, "run_round_trip", lambda *_: lost)
    with pytest.raises(UnavailableError, match="cuda:0 is gone"):
        inject_faults(prepare_selftest(options()).faults_on, _nothing)
    ended = run_selftest(prepare_selftest(options()), StageClock(), _nothing)
    assert (ended.ended_by, exit_code_of(ended)) == ("cuda:0 is gone", ExitCode.UNAVAILABLE)


def test_pairs_can_be_chosen_and_are_whole_abba_quadruples(options):
    assert prepare_selftest(options(pairs=9)).extent == Extent(8, 2, rounds=2)
    assert prepare_selftest(options(extent=QUICK)).extent == QUICK
    assert prepare_selftest(options(extent=FULL)).schedule.rounds[-1] == FULL.pairs
    with pytest.raises(EcbenchError, match="too few for a verdict"):
        prepare_selftest(options(pairs=4))
