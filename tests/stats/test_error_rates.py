"""Error rates of gates: from process rounds whose noise and effect are known."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from ecbench.core.comparison_records import Pairing, Verdict
from ecbench.core.errors import DataError
from ecbench.stats.alpha_spending import LookSchedule
from ecbench.stats.error_rates import (
    DELAYS,
    PROMISES,
    THRESHOLDS,
    Turns,
    draw_turns,
    rate_of,
    re_pair,
    recommended_threshold,
    run_gates,
    turns_apart,
    with_error_rates,
)
from ecbench.stats.pairing import Observations
from ecbench.stats.verdicts import LegQuestion, SequentialJudge
from tests.selftest_samples import process_rounds, selftest_case, selftest_result

GATES = 60
PAIRS = 10


def _rates(case, threshold, delay):
    (found,) = (entry for entry in case.rates if (entry.threshold, entry.delay) == (threshold, delay))
    return found


def test_a_quiet_machine_has_no_false_alarms_and_finds_twice_the_threshold():
    case = selftest_case(rounds=process_rounds(turns=40, noise=0.01))
    assert _rates(case, 0.05, 0.0).failed.share == 0
    assert _rates(case, 0.05, 0.0).inconclusive.share == 0
    assert _rates(case, 0.05, 0.10).failed.share > 0.95
    assert _rates(case, 0.05, 0.20).failed.share == 1
    assert not case.cries_wolf


def test_every_threshold_is_tried_with_every_delay():
    case = selftest_case()
    assert [(entry.threshold, entry.delay) for entry in case.rates] == [
        (threshold, delay) for threshold in THRESHOLDS for delay in (0.0, *DELAYS)
    ]


def test_noise_makes_gates_inconclusive_and_not_wrong():
    case = selftest_case(rounds=process_rounds(turns=60, noise=0.2))
    unchanged = _rates(case, 0.05, 0.0)
    assert unchanged.inconclusive.share > 0.5
    assert unchanged.failed.share < 0.05
    assert case.recommended_threshold is None


def test_the_less_noise_the_smaller_the_threshold_that_fits():
    fitting = [
        selftest_case(rounds=process_rounds(turns=40, noise=noise)).recommended_threshold
        for noise in (0.001, 0.02, 0.05)
    ]
    assert fitting[0] == THRESHOLDS[0]
    assert fitting == sorted(fitting)
    assert fitting[-1] > fitting[0]


def test_a_delay_that_does_nothing_is_not_found():
    case = selftest_case(rounds=process_rounds(turns=40, noise=0.01, effect=0.0))
    assert _rates(case, 0.05, 0.20).failed.share == 0
    assert all(abs(effect.slowdown) < 0.02 for effect in case.effects)
    assert case.recommended_threshold is None


def test_effects_are_what_was_injected():
    case = selftest_case(rounds=process_rounds(turns=100, noise=0.01))
    assert [(effect.delay, effect.direction) for effect in case.effects] == [
        (delay, name) for delay in DELAYS for name in ("save", "load")
    ]
    for effect in case.effects:
        assert effect.slowdown == pytest.approx(effect.delay, abs=0.01)


def test_gates_that_always_fail_break_the_promise():
    rounds = process_rounds(turns=40, noise=0.001)
    slow = [
        replace(entry, totals_s={name: [2 * time for time in times] for name, times in entry.totals_s.items()})
        if entry.place == 1
        else entry
        for entry in rounds
    ]
    # Which of the two unchanged rounds is the base is drawn, so a lasting difference is noise, not an alarm.
    assert not selftest_case(rounds=slow).cries_wolf
    case = selftest_case(rounds=rounds)
    always = replace(_rates(case, 0.05, 0.0), failed=rate_of(np.ones(200, np.bool_)))
    lying = replace(case, rates=[always, *case.rates], cries_wolf=True)
    assert not with_error_rates(selftest_result(lying)).cases[0].cries_wolf


def test_figures_in_a_file_are_not_trusted():
    case = selftest_case()
    lying = replace(case, rates=[], effects=[], recommended_threshold=0.001, cries_wolf=True, turns=7)
    assert with_error_rates(selftest_result(lying)).cases == [case]


def test_too_few_turns_give_no_figures():
    case = selftest_case(rounds=process_rounds(turns=PAIRS - 1))
    assert (case.turns, case.rates, case.effects, case.recommended_threshold) == (PAIRS - 1, [], [], None)


def test_turns_that_are_not_complete_are_left_out():
    rounds = process_rounds(turns=3)
    turns = Turns.of([entry for entry in rounds if (entry.turn, entry.delay) != (0, 0.20)][:-6])
    assert len(turns) == 1
    assert turns.unchanged.shape == (1, 2, 2)
    assert {delay: slowed.shape for delay, slowed in turns.slowed.items()} == dict.fromkeys(DELAYS, (1, 2))
    assert len(Turns.of([])) == 0


def test_a_process_round_counts_by_its_median():
    (first, *_) = rounds = process_rounds(turns=1)
    turns = Turns.of(rounds)
    assert turns.unchanged[0, 0] == pytest.approx(
        [np.log(np.median(first.totals_s[name])) for name in turns.directions]
    )


def test_a_gate_never_uses_a_turn_twice_and_keeps_the_order_of_time():
    rows = draw_turns(np.random.default_rng(0), 20, PAIRS, 500)
    assert rows.shape == (500, PAIRS)
    assert (np.diff(rows, axis=1) > 0).all()
    assert len({tuple(row) for row in rows.tolist()}) > 400


def test_gates_apart_share_no_turn():
    rows = turns_apart(35, PAIRS)
    assert rows.shape == (3, PAIRS)
    assert len(np.unique(rows)) == rows.size
    assert turns_apart(9, PAIRS).size == 0


def test_base_and_new_are_always_of_one_turn_and_never_the_same_round():
    turns = Turns.of(process_rounds(turns=20))
    draw = np.random.default_rng(0)
    rows = draw_turns(draw, 20, PAIRS, 50)
    base, new = re_pair(turns, 0.0, rows, draw)
    assert base.shape == new.shape == (50, 2, PAIRS)
    both = np.sort(np.stack([base, new], axis=-1), axis=-1)
    of_turn = np.sort(np.moveaxis(turns.unchanged[rows], 3, 1), axis=-1)
    assert (both == of_turn).all()
    _, slowed = re_pair(turns, 0.20, rows, draw)
    assert (slowed == np.moveaxis(turns.slowed[0.20][rows], 2, 1)).all()


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.10])
def test_many_gates_at_once_are_judged_as_each_alone_is(delay):
    turns = Turns.of(process_rounds(turns=30, noise=0.04))
    draw = np.random.default_rng(1)
    schedule = LookSchedule.up_to(PAIRS)
    base, new = re_pair(turns, delay, draw_turns(draw, len(turns), PAIRS, GATES), draw)
    decisions, pairs_run = run_gates(base, new, schedule, 0.05)
    for gate in range(GATES):
        verdicts, pairs = _judge_alone(base[gate], new[gate], schedule)
        assert pairs == pairs_run[gate]
        assert [verdict is Verdict.REGRESSED for verdict in verdicts] == decisions.slower[gate].tolist()
        assert [verdict is Verdict.INCONCLUSIVE for verdict in verdicts] == decisions.inconclusive[gate].tolist()


def _judge_alone(base, new, schedule):
    judge = SequentialJudge([LegQuestion(name, "total_s", 0.05) for name in ("save", "load")], schedule)
    verdicts, taken = [], 0
    while (pairs := judge.next_rounds) is not None:
        taken = pairs
        legs = zip(np.exp(base[:, :pairs]).tolist(), np.exp(new[:, :pairs]).tolist(), strict=True)
        observed = [Observations(tuple(old), tuple(young), Pairing.PAIRED) for old, young in legs]
        verdicts = [answer.verdict for answer in judge.look(observed)]
    return verdicts, taken


def test_times_that_are_no_numbers_are_an_error():
    (first, *others) = process_rounds(turns=12)
    broken = replace(first, totals_s={name: [float("nan")] for name in first.totals_s})
    with pytest.raises(DataError, match="is not finite"):
        selftest_case(rounds=[broken, *others])


@pytest.mark.parametrize(("count", "of"), [(0, 40), (1, 40), (20, 40), (40, 40)])
def test_a_rate_lies_in_its_interval(count, of):
    rate = rate_of(np.arange(of) < count)
    assert (rate.count, rate.of) == (count, of)
    assert 0 <= rate.low <= rate.share <= rate.high <= 1
    assert rate.high - rate.low > 0.05


def test_a_rate_of_nothing_may_be_anything():
    rate = rate_of(np.zeros(0, np.bool_))
    assert (rate.low, rate.high) == (0, 1)


def test_a_threshold_with_false_alarms_is_not_recommended():
    rates = selftest_case(rounds=process_rounds(turns=40, noise=0.001)).rates
    alarming = [
        replace(entry, failed=rate_of(np.arange(100) < 4)) if not entry.delay and entry.threshold < 0.05 else entry
        for entry in rates
    ]
    assert recommended_threshold(rates, PROMISES) == THRESHOLDS[0]
    assert recommended_threshold(alarming, PROMISES) == 0.05
