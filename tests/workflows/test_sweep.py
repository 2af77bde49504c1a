from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from ecbench.core.errors import DataError, EcbenchError, ExitCode, UnavailableError
from ecbench.core.records import LegStatus
from ecbench.measure.stages import StageClock
from ecbench.transfer.shared_region import shm_free_bytes
from ecbench.workflows import copy_session
from ecbench.workflows.sweep import exit_code_of, reopen_journal, run_sweep, start_journal
from tests.faults import FaultyEngine
from tests.workflows.sweeps import TINY_SWEEP, prepare, run

ROUNDS_OF_TINY = 3 * 3
"""Three cells that can run, three rounds each."""


def _interrupt_after(rounds):
    def report(progress):
        report.seen.append(progress)
        if len(report.seen) == rounds:
            raise KeyboardInterrupt

    report.seen = []
    return report


def _resume(folder, text=TINY_SWEEP, report=lambda _: None, **options):
    sweep = prepare(folder, text, **options)
    with reopen_journal(sweep, folder) as journal:
        return run_sweep(sweep, journal, StageClock(), report)


def _cells(result):
    return [
        (case.case_id, leg.direction, leg.status, len(leg.samples), leg.descriptors, leg.copied_bytes, leg.engine)
        for case in result.cases
        for leg in case.legs
    ]


def test_every_cell_is_measured_and_every_byte_verified(tmp_path):
    result = run(tmp_path)
    assert result.kind == "sweep"
    assert result.complete
    assert exit_code_of(result) is ExitCode.OK
    assert result.axes["count"] == [1, 12]
    assert len(result.cases) == 6
    for case in result.cases:
        for leg in case.legs:
            if case.params["count"] == 1:
                assert leg.status is LegStatus.SKIPPED
                assert "longer than a batch" in leg.reason
                continue
            assert leg.status is LegStatus.PASSED
            assert [sample.round for sample in leg.samples] == [0, 1, 2]
            assert {sample.process for sample in leg.samples} == {0}
            assert leg.verify.ok
            assert leg.blocks == 12
            assert leg.descriptors == 4
            assert leg.copied_bytes == 12 * case.params["block_size_bytes"]
            # Four rounds with the warm-up, both buffers each.
            assert leg.verify.checked_bytes == 4 * (28 * case.params["block_size_bytes"] + 4 * 4096)


def test_cells_take_turns(tmp_path):
    report = _interrupt_after(0)
    run(tmp_path, report=report)
    order = [progress.case_id for progress in report.seen]
    assert len(order) == 3 * 4
    for start in range(0, 12, 3):
        assert Counter(order[start : start + 3]) == Counter(set(order))
    assert len({tuple(order[start : start + 3]) for start in range(0, 12, 3)}) > 1


def test_the_order_follows_the_seed(tmp_path):
    orders = []
    for seed in (1, 1, 2):
        report = _interrupt_after(0)
        run(tmp_path, report=report, seed=seed, axes={"byte_offset": "0,8"})
        orders.append([progress.case_id for progress in report.seen])
    assert orders[0] == orders[1] != orders[2]


def test_progress_ends_at_all_of_it_with_nothing_left(tmp_path):
    report = _interrupt_after(0)
    run(tmp_path, report=report)
    shares = [progress.share for progress in report.seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert report.seen[-1].rounds_done == ROUNDS_OF_TINY
    assert report.seen[-1].seconds_left == 0
    assert all(progress.seconds_left > 0 for progress in report.seen[:-1])


@pytest.mark.parametrize("writer", ["numpy-item", "setitem"])
@pytest.mark.parametrize("device", ["cpu", "xpu-sim"])
def test_offsets_runs_writers_and_devices_are_all_verified(tmp_path, device, writer):
    if (device, writer) == ("xpu-sim", "setitem"):
        pytest.skip("some versions of torch refuse high addresses")
    axes = {
        "byte_offset": "0,1,4097",
        "run_length": "1,5,12",
        "coalesce": "true,false",
        "count": "12",
        "writer": writer,
    }
    result = run(tmp_path, device=device, rounds=1, axes={**axes, "engine": "all"})
    legs = [leg for case in result.cases for leg in case.legs]
    assert len(legs) == 2 * 3 * 3 * 3 * 2 * 3
    assert {leg.status for leg in legs} == {LegStatus.PASSED}
    counts = {(case.params["run_length"], case.params["coalesce"]): case.legs[0].descriptors for case in result.cases}
    assert counts == {(1, True): 12, (5, True): 3, (12, True): 1, (1, False): 12, (5, False): 12, (12, False): 12}


def test_directions_are_legs(tmp_path):
    result = run(tmp_path, axes={"direction": "load"})
    assert {leg.direction for case in result.cases for leg in case.legs} == {"load"}


def test_wrong_bytes_end_a_leg_and_no_other(tmp_path, monkeypatch):
    def flip(source, destination, sources, destinations, sizes):
        if sizes[0] == 3 * 7168:
            destination[destinations[0]] ^= 1

    monkeypatch.setattr(copy_session, "open_engine", lambda name, device: FaultyEngine(flip))
    result = run(tmp_path)
    assert exit_code_of(result) is ExitCode.CHECK_FAILED
    statuses = {(case.params["block_size_bytes"], leg.status) for case in result.cases for leg in case.legs}
    assert (7168, LegStatus.FAILED) in statuses
    assert (4096, LegStatus.PASSED) in statuses
    failed = [leg for case in result.cases for leg in case.legs if leg.status is LegStatus.FAILED]
    assert all(leg.verify.fault == "corrupt" for leg in failed)
    assert all(leg.samples == [] for leg in failed)


@pytest.mark.parametrize("rounds", range(1, 12))
def test_a_run_interrupted_anywhere_gives_the_same_cells_when_resumed(tmp_path, rounds):
    whole = run(tmp_path)
    for journal in tmp_path.glob("*.journal"):
        journal.unlink()
    stopped = run(tmp_path, report=_interrupt_after(rounds))
    assert not stopped.complete
    assert exit_code_of(stopped) is ExitCode.INTERRUPTED
    resumed = _resume(tmp_path)
    assert resumed.complete
    assert _cells(resumed) == _cells(whole)
    assert resumed.started_at == stopped.started_at
    assert resumed.settings["processes"] == 2
    legs = [leg for case in resumed.cases for leg in case.legs if leg.samples]
    assert all(leg.verify.ok for leg in legs)
    assert all(len({(sample.process, sample.round) for sample in leg.samples}) == 3 for leg in legs)


def test_a_resumed_run_measures_nothing_twice(tmp_path):
    first = run(tmp_path, report=_interrupt_after(7))
    kept = {
        (case.case_id, leg.direction): [sample.total_s for sample in leg.samples]
        for case in first.cases
        for leg in case.legs
    }
    resumed = _resume(tmp_path)
    for case in resumed.cases:
        for leg in case.legs:
            before = kept[case.case_id, leg.direction]
            assert [sample.total_s for sample in leg.samples][: len(before)] == before


def test_a_run_may_be_interrupted_again_and_again(tmp_path):
    run(tmp_path, report=_interrupt_after(4))
    for _ in range(3):
        assert not _resume(tmp_path, report=_interrupt_after(4)).complete
    resumed = _resume(tmp_path)
    assert resumed.settings["processes"] == 5
    assert {len(leg.samples) for case in resumed.cases for leg in case.legs} == {0, 3}


def test_a_finished_journal_gives_its_result_without_measuring(tmp_path):
    whole = run(tmp_path)
    report = _interrupt_after(0)
    assert _cells(_resume(tmp_path, report=report)) == _cells(whole)
    assert report.seen == []


def test_a_leg_that_failed_is_not_tried_again(tmp_path, monkeypatch):
    def flip(source, destination, sources, destinations, sizes):
        destination[destinations[0]] ^= 1

    with monkeypatch.context() as patch:
        patch.setattr(copy_session, "open_engine", lambda name, device: FaultyEngine(flip))
        run(tmp_path, report=_interrupt_after(2))
    resumed = _resume(tmp_path)
    assert Counter(leg.status for case in resumed.cases for leg in case.legs) == {
        LegStatus.FAILED: 4,
        LegStatus.PASSED: 2,
        LegStatus.SKIPPED: 6,
    }


def test_cells_that_an_interrupted_run_did_not_reach_say_so(tmp_path):
    result = run(tmp_path, report=_interrupt_after(2))
    reasons = {leg.reason for case in result.cases for leg in case.legs if leg.status is LegStatus.SKIPPED}
    assert "the run ended before its first round that counts" in reasons


def test_a_budget_is_kept_and_goes_where_intervals_are_wide(tmp_path):
    result = run(tmp_path, budget="300ms")
    counts = [len(leg.samples) for case in result.cases for leg in case.legs if leg.samples]
    assert result.complete
    assert min(counts) >= 3
    assert max(counts) > 3
    assert result.settings["budget_s"] == 0.3
    assert result.settings["rounds"] is None


def test_a_budget_too_small_for_a_round_leaves_cells_with_a_reason(tmp_path):
    result = run(tmp_path, budget="0.01ms")
    reasons = {leg.reason for case in result.cases for leg in case.legs if case.params["count"] == 12}
    assert reasons == {"the budget of 10.0 us was spent before its first round that counts"}
    assert exit_code_of(result) is ExitCode.OK


def test_a_budget_goes_on_where_it_was_interrupted(tmp_path):
    run(tmp_path, budget="1h", report=_interrupt_after(20))
    with reopen_journal(prepare(tmp_path, budget="1h"), tmp_path) as journal:
        spent = journal.rounds[-1].spent_s
        assert 0 < spent < 60
    resumed = _resume(tmp_path, budget="1h", report=_interrupt_after(5))
    assert resumed.settings["processes"] == 2


def test_a_device_that_is_lost_ends_the_run_with_what_was_measured(tmp_path, monkeypatch):
    def lose(progress):
        if progress.rounds_done == 4:
            raise UnavailableError("device 'cuda:0' was lost: restart it")

    result = run(tmp_path, report=lose)
    assert result.ended_by == "device 'cuda:0' was lost: restart it"
    assert exit_code_of(result) is ExitCode.UNAVAILABLE
    assert sum(len(leg.samples) for case in result.cases for leg in case.legs) == 8


def test_an_error_of_the_program_is_not_taken_for_a_lost_device(tmp_path):
    def fail(progress):
        raise RuntimeError("a mistake in the code")

    with pytest.raises(RuntimeError, match="a mistake in the code"):
        run(tmp_path, report=fail)


def test_memory_is_given_back(tmp_path):
    free = shm_free_bytes()
    for _ in range(3):
        run(tmp_path, axes={"block_size": "1MiB", "count": "16", "run_length": "1"}, rounds=1)
    assert abs(shm_free_bytes() - free) < 16 << 20


CHANGES = {
    "rounds": ({"rounds": 4}, "rounds: 3 there, 4 here"),
    "seed": ({"seed": 9}, "seed: 0 there, 9 here"),
    "budget": ({"budget": "9s"}, "budget_s: None there, 9.0 here"),
    "axis": ({"axes": {"count": "12,13"}}, r"axis count: \[1, 12\] there, \[12, 13\] here"),
    "device": ({"device": "xpu-sim"}, "device: cpu there, xpu-sim here.*emulation: None there"),
    "batches": ({"max_batch_bytes": 1 << 20}, "max_batch_bytes: None there, 1048576 here"),
}


@pytest.mark.parametrize(("options", "message"), CHANGES.values(), ids=CHANGES)
def test_a_journal_of_another_grid_or_device_is_refused_with_what_differs(tmp_path, options, message):
    run(tmp_path, report=_interrupt_after(5))
    with pytest.raises(DataError, match=message):
        _resume(tmp_path, **options)


@pytest.mark.parametrize(
    ("field", "value"), [("torch", "9.9"), ("ecbench", "99.0"), ("host_cpu", "Other CPU"), ("kernel", "0.1")]
)
def test_a_journal_of_another_machine_or_version_is_refused_with_what_differs(tmp_path, field, value):
    run(tmp_path, report=_interrupt_after(5))
    (path,) = tmp_path.glob("*.journal")
    lines = path.read_bytes().splitlines(keepends=True)
    header = msgspec.json.decode(lines[0])
    header["environment"][field] = value
    path.write_bytes(msgspec.json.encode(header) + b"\n" + b"".join(lines[1:]))
    with pytest.raises(DataError, match=f"{field}: {value} there, .* here") as error:
        _resume(tmp_path)
    assert error.value.exit_code is ExitCode.BAD_DATA


def test_without_a_journal_there_is_nothing_to_resume(tmp_path):
    with pytest.raises(EcbenchError, match="holds no unfinished sweep of tiny: run without --resume"):
        _resume(tmp_path)


def test_the_newest_journal_is_resumed(tmp_path):
    run(tmp_path, report=_interrupt_after(3))
    run(tmp_path, report=_interrupt_after(8))
    sweep = prepare(tmp_path)
    with reopen_journal(sweep, tmp_path) as journal:
        assert len(journal.rounds) == 8


def test_a_journal_in_use_is_not_shared(tmp_path):
    sweep = prepare(tmp_path)
    with start_journal(sweep, tmp_path), pytest.raises(EcbenchError, match="another process is running this sweep"):
        reopen_journal(sweep, tmp_path)
