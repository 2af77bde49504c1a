"""Process rounds in turns: with a fake that answers at once, and with a real server where processes matter."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import msgspec
import psutil
import pytest

from ecbench.core.descriptors import Direction
from ecbench.core.errors import DataError, EcbenchError, ExitCode, UnavailableError
from ecbench.workflows import selftest_rounds
from ecbench.workflows.selftest_rounds import (
    CALIBRATION_ROUNDS,
    rounds_of_a_turn,
    run_turns,
    turn_orders,
    warm_server,
)
from ecbench.workflows.selftest_worker import RoundAnswer, RoundRequest, direction_of, measure_process_round
from tests.cli.conftest import TINY

DELAYS = (0.1, 0.2)
SHARES = {"save": 0.5, "load": 0.8}


@pytest.fixture
def request_(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    return RoundRequest(
        scenario=str(tmp_path / "tiny.toml"),
        device="cpu",
        engine="auto",
        writer="numpy-batch",
        rounds=2,
        seed=0,
        delay=0.0,
    )


class Replay:
    """Answers with times made up, and remembers what it was asked."""

    def __init__(self, *shares):
        self.asked = []
        self._shares = iter(shares)

    def run_round(self, request):
        self.asked.append(request)
        totals = {"save": [1.0 + request.delay], "load": [2.0 + request.delay]}
        return RoundAnswer(totals_s=totals, engine_shares=next(self._shares, SHARES))


def test_a_turn_runs_the_unchanged_copy_twice_and_each_delay_once(request_):
    replay = Replay()
    turns = list(run_turns(replay.run_round, request_, most=4, delays=DELAYS))
    assert len(turns) == 4
    for number, turn in enumerate(turns):
        assert sorted(entry.delay for entry in turn) == sorted(rounds_of_a_turn(DELAYS)) == [0.0, 0.0, 0.1, 0.2]
        assert [(entry.turn, entry.place) for entry in turn] == [(number, place) for place in range(4)]
        assert all(entry.totals_s["save"] == [1.0 + entry.delay] for entry in turn)


def test_every_second_turn_runs_backwards_so_that_a_drift_favours_nothing():
    orders = list(itertools.islice(turn_orders(DELAYS, seed=0), 40))
    assert all(orders[number] == orders[number + 1][::-1] for number in range(0, 40, 2))
    assert len(set(orders)) > 4
    assert orders == list(itertools.islice(turn_orders(DELAYS, seed=0), 40))


def test_the_delay_is_made_in_the_engine_and_counts_for_the_whole_round(request_):
    odd = {"save": 0.01, "load": 1.0}
    replay = Replay(SHARES, odd, SHARES)
    list(run_turns(replay.run_round, request_, most=1, delays=DELAYS))
    assert [request.delay for request in replay.asked[:CALIBRATION_ROUNDS]] == [0.0] * CALIBRATION_ROUNDS
    slowed = next(request for request in replay.asked if request.delay == 0.2)
    assert slowed.engine_shares == SHARES
    assert slowed.engine_delays == {Direction.TO_HOST: 0.4, Direction.TO_DEVICE: pytest.approx(0.25)}


def test_without_calibration_the_delay_is_of_the_engines_time(request_):
    assert msgspec.structs.replace(request_, delay=0.2).engine_delays == dict.fromkeys(Direction, 0.2)


def test_turns_end_when_the_time_is_used_up_but_not_before_there_are_enough(request_, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(selftest_rounds.time, "perf_counter", lambda: float(next(ticks)))
    assert len(list(run_turns(Replay().run_round, request_, most=50, least=3, budget_s=10.5))) == 3 + 10
    assert len(list(run_turns(Replay().run_round, request_, most=50, least=3, budget_s=0.0))) == 3
    assert len(list(run_turns(Replay().run_round, request_, most=5, least=3, budget_s=1e9))) == 5


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ExitCode.CHECK_FAILED, EcbenchError),
        (ExitCode.USAGE, EcbenchError),
        (ExitCode.UNAVAILABLE, UnavailableError),
        (ExitCode.BAD_DATA, DataError),
    ],
)
def test_a_process_round_that_fails_ends_the_run_with_its_exit_code(request_, code, error):
    turns = run_turns(lambda _: RoundAnswer(error="no such thing", exit_code=code), request_, most=1)
    with pytest.raises(error, match="a process round failed: no such thing") as caught:
        next(turns)
    assert caught.value.exit_code == code


def test_legs_go_one_way_or_the_other():
    assert {leg: direction_of(leg) for leg in ("save", "store", "load")} == {
        "save": Direction.TO_HOST,
        "store": Direction.TO_HOST,
        "load": Direction.TO_DEVICE,
    }


def test_a_process_round_gives_the_times_of_the_rounds_that_count(request_):
    answer = measure_process_round(request_)
    assert answer.error is None
    assert {name: len(times) for name, times in answer.totals_s.items()} == {"save": 2, "load": 2}
    assert all(0 < share <= 1 for share in answer.engine_shares.values())


def test_a_process_round_is_slower_by_its_delay(request_):
    slow = measure_process_round(msgspec.structs.replace(request_, delay=20.0))
    unchanged = measure_process_round(request_)
    assert all(min(slow.totals_s[name]) > 2 * min(unchanged.totals_s[name]) for name in ("save", "load"))


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"scenario": "nothing"}, ExitCode.USAGE, "unknown scenario 'nothing'"),
        ({"engine": "triton"}, ExitCode.UNAVAILABLE, "triton"),
    ],
)
def test_what_cannot_run_is_answered_with_its_reason(request_, change, code, words):
    answer = measure_process_round(msgspec.structs.replace(request_, **change))
    assert answer.exit_code == code
    assert words in answer.error


def test_a_server_forks_a_fresh_process_for_every_round_and_survives_bad_ones(request_):
    with warm_server() as server:
        assert server.run_round(request_).totals_s.keys() == {"save", "load"}
        assert "unknown scenario" in server.run_round(msgspec.structs.replace(request_, scenario="nothing")).error
        assert server.run_round(request_).error is None
        process = server._process
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_child_that_dies_is_told(request_):
    with warm_server() as server, ThreadPoolExecutor() as pool:
        answer = pool.submit(server.run_round, msgspec.structs.replace(request_, rounds=10_000))
        parent = psutil.Process(server._process.pid)
        while not (children := parent.children()):
            pass
        children[0].kill()
        assert answer.result().error == "it was ended by signal 9 and said nothing: run it again"
        assert server.run_round(request_).error is None


def test_a_server_that_is_gone_is_an_error(request_):
    with warm_server() as server:
        server._process.kill()
        server._process.wait()
        with pytest.raises(DataError, match="is gone"):
            server.run_round(request_)


def test_a_server_that_does_not_start_is_an_error(monkeypatch):
    monkeypatch.setattr(selftest_rounds.sys, "executable", "/bin/false")
    with pytest.raises(DataError, match="did not start"), warm_server():
        pytest.fail("there is no server")
