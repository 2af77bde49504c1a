from __future__ import annotations

import dataclasses

import msgspec
import pytest

from ecbench.core.errors import DataError
from ecbench.core.records import LegResult, LegStatus, Sample, Verify
from ecbench.workflows.sweep_ledger import CellRound, Ledger
from ecbench.workflows.sweep_schedule import TimeLeft, equal_passes, expected_round_s, warm_up_order, widest_passes


@dataclasses.dataclass(frozen=True)
class FakeCell:
    case_id: str
    skipped: str | None = None
    directions: tuple[str, ...] = ("save",)
    params: dict = dataclasses.field(default_factory=dict)
    copied_bytes: int = 100
    descriptors: int = 1
    buffer_bytes: int = 0
    extra_s: float = 1.0


RIGHT = Verify(
    ok=True, checked_bytes=1, mismatched_bytes=0, source_changed=False, stray_bytes=0, fault=None, first_mismatch=None
)


def round_of(cell, number, total_s=1.0, status=LegStatus.PASSED, process=0):
    sample = Sample(process=process, round=number, total_s=total_s, fill_s=0, submit_s=0, copy_s=0, ceiling_s=1)
    leg = LegResult(direction="save", status=status, verify=RIGHT, samples=[sample] if number >= 0 else [])
    return CellRound(cell=cell, process=process, round=number, seconds=total_s, spent_s=0.0, legs=[leg])


def ledger_of(cells, *rounds):
    ledger = Ledger([FakeCell(f"cell {number}") for number in range(cells)], "copies")
    for entry in rounds:
        ledger.add(entry)
    return ledger


def run_passes(ledger, passes):
    """Runs whole passes, each round taking a second."""
    orders = []
    for order in passes:
        orders.append(order)
        for cell in order:
            ledger.add(round_of(cell, ledger.rounds_done(cell)))
    return orders


def test_every_pass_visits_every_cell_once_in_an_order_of_its_own():
    ledger = ledger_of(20)
    orders = run_passes(ledger, equal_passes(ledger, 20, 5, seed=0))
    assert [sorted(order) for order in orders] == [list(range(20))] * 5
    assert len({tuple(order) for order in orders}) == 5


def test_a_pass_that_was_interrupted_goes_on_where_it_ended():
    ledger = ledger_of(9)
    whole = run_passes(ledger, equal_passes(ledger, 9, 3, seed=4))
    rounds = [cell for order in whole for cell in order]
    for cut in range(len(rounds) + 1):
        ledger = ledger_of(9)
        for cell in rounds[:cut]:
            ledger.add(round_of(cell, ledger.rounds_done(cell)))
        rest = [cell for order in run_passes(ledger, equal_passes(ledger, 9, 3, seed=4)) for cell in order]
        assert rounds[:cut] + rest == rounds


def test_cells_that_are_done_or_failed_or_cannot_run_are_not_warmed_up():
    cells = [FakeCell("done"), FakeCell("failed"), FakeCell("skipped", skipped="no driver"), FakeCell("open")]
    ledger = Ledger(cells, "copies")
    ledger.add(round_of(0, 0))
    ledger.add(round_of(1, -1, status=LegStatus.FAILED))
    assert warm_up_order(ledger, 4, rounds=1, seed=0) == [3]
    assert sorted(warm_up_order(ledger, 4, rounds=2, seed=0)) == [0, 3]


def test_a_budget_gives_every_cell_three_rounds_first():
    ledger = ledger_of(8)
    passes = widest_passes(ledger, 8, seed=0)
    for _ in range(3):
        order = next(passes)
        assert sorted(order) == list(range(8))
        for cell in order:
            ledger.add(round_of(cell, ledger.rounds_done(cell)))


def test_a_budget_then_goes_to_the_quarter_with_the_widest_intervals():
    times = {cell: [1.0, 1.0 + cell / 10, 1.0 - cell / 20] for cell in range(8)}
    ledger = ledger_of(8, *(round_of(cell, number, times[cell][number]) for cell in times for number in range(3)))
    assert sorted(next(widest_passes(ledger, 8, seed=0))) == [6, 7]


def test_a_cell_that_was_interrupted_behind_the_others_catches_up():
    ledger = ledger_of(3, *(round_of(cell, number) for cell in range(3) for number in range(3 if cell else 1)))
    assert next(widest_passes(ledger, 3, seed=0)) == [0]


def test_a_budget_ends_when_every_cell_has_ended():
    ledger = ledger_of(1, round_of(0, 0, status=LegStatus.ERROR))
    assert list(widest_passes(ledger, 1, seed=0)) == []


def test_time_left_is_that_of_the_rounds_that_are_left():
    left = TimeLeft([1.0, 3.0], [2, 2])
    assert left.seconds == 8
    # Twice as slow as expected: so will be the cell that has not run yet.
    left.finished(0, 2.0)
    assert left.seconds == 2 + 2 * 6
    left.finished(1, 3.0)
    assert left.seconds == 2 + 3
    left.finished(0, 1.0)
    left.finished(1, 4.0)
    assert left.seconds == 0
    left.finished(1, 4.0)
    assert left.seconds == 0


def test_a_cell_that_cannot_run_takes_no_time():
    larger = FakeCell("larger", buffer_bytes=1 << 30)
    seconds = expected_round_s([FakeCell("small"), FakeCell("skipped", skipped="no driver"), larger])
    assert seconds[0] == 1.0
    assert seconds[1] == 0.0
    assert seconds[2] > seconds[0]


def test_verdicts_of_several_processes_add_up_and_samples_follow_each_other():
    verdicts = {0: 10, 1: 25}
    ledger = ledger_of(1)
    for process, checked in verdicts.items():
        for number in (-1, 0, 1):
            entry = round_of(0, number, process=process)
            seen = msgspec.structs.replace(RIGHT, checked_bytes=checked * (number + 2))
            leg = msgspec.structs.replace(entry.legs[0], verify=seen)
            ledger.add(msgspec.structs.replace(entry, legs=[leg]))
    (leg,) = ledger.case(0, {}, "").legs
    assert leg.verify.checked_bytes == 3 * 10 + 3 * 25
    assert [(sample.process, sample.round) for sample in leg.samples] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert leg.median_s == 1.0


@pytest.mark.parametrize("cell", [-1, 3])
def test_a_round_of_no_cell_is_refused(cell):
    with pytest.raises(DataError, match="the grid has 3 cells"):
        ledger_of(3, round_of(cell, 0))
