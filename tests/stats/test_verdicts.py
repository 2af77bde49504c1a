from __future__ import annotations

import math

import numpy as np
import pytest

from ecbench.core.comparison_records import Pairing, Reason, Verdict
from ecbench.core.errors import DataError, EcbenchError
from ecbench.stats import verdicts
from ecbench.stats.alpha_spending import LookSchedule
from ecbench.stats.log_ratio import paired_test, unpaired_test
from ecbench.stats.pairing import Observations
from ecbench.stats.verdicts import MIN_ROUNDS, LegQuestion, SequentialJudge, geometric_mean, judge

QUESTION = LegQuestion("case save", "total_s", 0.05)


def _units(slowdown, *, pairs=16, noise=0.01, pairing=Pairing.PAIRED, seed=0):
    draw = np.random.default_rng(seed)
    base = np.exp(draw.normal(0, noise, pairs))
    new = np.exp(draw.normal(math.log1p(slowdown), noise, pairs))
    return Observations(tuple(base.tolist()), tuple(new.tolist()), pairing)


def _verdict(units):
    (answer,) = judge([QUESTION], [units])
    return answer.verdict, answer.reason


@pytest.mark.parametrize(
    ("slowdown", "noise", "expected"),
    [
        (0.20, 0.01, (Verdict.REGRESSED, Reason.SLOWER_BEYOND_THRESHOLD)),
        (0.05, 0.01, (Verdict.INCONCLUSIVE, Reason.MAY_BE_REGRESSED)),
        (0.00, 0.01, (Verdict.PASSED, Reason.WITHIN_THRESHOLD)),
        (-0.048, 0.01, (Verdict.PASSED, Reason.MAY_BE_IMPROVED)),
        (-0.20, 0.01, (Verdict.IMPROVED, Reason.IMPROVED_BEYOND_THRESHOLD)),
        (0.00, 0.30, (Verdict.INCONCLUSIVE, Reason.TOO_NOISY)),
    ],
)
def test_a_verdict_follows_from_the_slowdown_and_the_noise(slowdown, noise, expected):
    assert _verdict(_units(slowdown, noise=noise)) == expected


def test_the_answer_holds_the_ratio_its_interval_and_how_it_was_found():
    (answer,) = judge([QUESTION], [_units(0.2)])
    assert answer.ratio == pytest.approx(1.2, rel=0.02)
    assert answer.ratio_low < answer.ratio < answer.ratio_high
    assert answer.p_slower < 0.05 < answer.p_not_slower
    assert (answer.base_rounds, answer.new_rounds, answer.look, answer.looks) == (16, 16, 1, 1)


@pytest.mark.parametrize(
    ("pairing", "threshold"), [(Pairing.PAIRED, 0.05), (Pairing.UNPAIRED, 0.10), (Pairing.WITHIN_PROCESS, 0.15)]
)
def test_the_threshold_is_wider_where_part_of_the_noise_stays_unseen(pairing, threshold):
    above, below = (judge([QUESTION], [_units(threshold + step, pairing=pairing)])[0] for step in (0.03, -0.03))
    assert above.threshold == pytest.approx(threshold)
    assert (above.verdict, below.verdict) == (Verdict.REGRESSED, Verdict.PASSED)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda base, new: (base, (math.nan, *new[1:])), Reason.NOT_A_NUMBER),
        (lambda base, new: ((math.inf, *base[1:]), new), Reason.NOT_A_NUMBER),
        (lambda base, new: (base, (0.0, *new[1:])), Reason.NOT_POSITIVE),
        (lambda base, new: ((-1.0, *base[1:]), new), Reason.NOT_POSITIVE),
        (lambda base, new: ((1.0,) * len(base), (1.5,) * len(new)), Reason.CONSTANT_SAMPLES),
        (lambda base, new: (base[:4], new[:4]), Reason.TOO_FEW_ROUNDS),
        (lambda base, new: ((), ()), Reason.TOO_FEW_ROUNDS),
    ],
)
@pytest.mark.parametrize("pairing", [Pairing.PAIRED, Pairing.UNPAIRED])
def test_samples_that_cannot_be_tested_are_inconclusive_with_the_reason(spoil, reason, pairing):
    units = _units(0.5)
    spoilt = Observations(*spoil(units.base, units.new), pairing)
    (answer,) = judge([QUESTION], [spoilt])
    assert (answer.verdict, answer.reason) == (Verdict.INCONCLUSIVE, reason)
    assert answer.ratio is None
    assert answer.p_slower is None


def test_pairs_that_differ_by_one_factor_are_constant_although_their_times_are_not():
    base = tuple(float(value) for value in range(1, 9))
    units = Observations(base, tuple(value * 2 for value in base), Pairing.PAIRED)
    assert _verdict(units) == (Verdict.INCONCLUSIVE, Reason.CONSTANT_SAMPLES)


@pytest.mark.parametrize("constant", ["base", "new"])
def test_one_side_without_any_noise_is_enough_to_know_too_little(constant):
    units = _units(0.5, pairing=Pairing.UNPAIRED)
    still = Observations(**{"base": units.base, "new": units.new, constant: (1e-3,) * 16}, pairing=Pairing.UNPAIRED)
    assert _verdict(still) == (Verdict.INCONCLUSIVE, Reason.CONSTANT_SAMPLES)


@pytest.mark.parametrize("test", [paired_test, unpaired_test])
def test_a_statistic_that_fails_is_an_error(test):
    with np.errstate(all="ignore"), pytest.raises(DataError, match="statistic log_ratio is not finite"):
        test(np.full(8, np.nan), np.ones(8), 0.05)


def test_a_failing_statistic_names_the_leg_and_gives_no_verdict(monkeypatch):
    def broken(*_):
        raise DataError("statistic p_slower is not finite: look at the samples")

    monkeypatch.setattr(verdicts, "paired_test", broken)
    with pytest.raises(DataError, match="case save: statistic p_slower"):
        judge([QUESTION], [_units(0.0)])


def test_one_bad_leg_does_not_hide_the_others():
    bad = Observations((0.0,) * 8, (1.0,) * 8, Pairing.PAIRED)
    first, second = judge([QUESTION, QUESTION], [bad, _units(0.2)])
    assert (first.reason, second.verdict) == (Reason.NOT_POSITIVE, Verdict.REGRESSED)


def test_a_weak_finding_among_many_unchanged_cases_is_no_alarm():
    weak = _units(0.08, noise=0.02, seed=1)
    assert _verdict(weak)[0] is Verdict.REGRESSED
    unchanged = [_units(0.0, seed=seed) for seed in range(2, 30)]
    answers = judge([QUESTION] * 29, [weak, *unchanged])
    assert answers[0].verdict is Verdict.INCONCLUSIVE
    assert {answer.verdict for answer in answers[1:]} == {Verdict.PASSED}


def test_wild_rounds_have_a_finite_interval():
    units = Observations((1e-300, 1.0, 1e300, 1e-300, 1.0), (1e300, 1.0, 1e-300, 1e300, 2.0), Pairing.UNPAIRED)
    (answer,) = judge([QUESTION], [units])
    assert answer.verdict is Verdict.INCONCLUSIVE
    assert 0 < answer.ratio_low < answer.ratio < answer.ratio_high < math.inf


def test_no_question_has_no_answer():
    assert judge([], []) == []


def test_a_sequential_judge_stops_when_all_is_settled():
    judge_of_two = SequentialJudge([QUESTION, QUESTION], LookSchedule((8, 16)))
    assert judge_of_two.next_rounds == 8
    answers = judge_of_two.look([_units(0.3, pairs=8), _units(0.0, pairs=8, noise=0.005)])
    assert [answer.verdict for answer in answers] == [Verdict.REGRESSED, Verdict.PASSED]
    assert (answers[0].look, answers[0].looks) == (1, 2)
    assert judge_of_two.next_rounds is None


def test_what_one_look_found_stays_found():
    judge_of_one = SequentialJudge([QUESTION], LookSchedule((8, 16)))
    judge_of_one.look([_units(0.3, pairs=8)])
    (answer,) = judge_of_one.look([_units(0.0, pairs=16)])
    assert answer.verdict is Verdict.REGRESSED


def test_an_undecided_judge_asks_for_more_until_the_budget_is_used():
    judge_of_one = SequentialJudge([QUESTION], LookSchedule((8, 16)))
    judge_of_one.look([_units(0.05, pairs=8, noise=0.02, seed=1)])
    assert judge_of_one.next_rounds == 16
    (answer,) = judge_of_one.look([_units(0.05, pairs=16, noise=0.02, seed=1)])
    assert (answer.verdict, answer.look) == (Verdict.INCONCLUSIVE, 2)
    assert judge_of_one.next_rounds is None
    with pytest.raises(EcbenchError, match="look 3 was not planned"):
        judge_of_one.look([_units(0.05, pairs=16)])


def test_a_look_at_other_data_than_planned_is_refused():
    with pytest.raises(EcbenchError, match=r"case save: look 1 was planned after 8 pairs, got 7 and 7"):
        SequentialJudge([QUESTION], LookSchedule((8, 16))).look([_units(0.0, pairs=7)])


def _undecided(pairs):
    return _units(0.05, pairs=pairs, noise=0.08)


def test_a_run_that_ends_early_gets_a_look_that_costs_what_is_due():
    judge_cut, judge_whole = (SequentialJudge([QUESTION], LookSchedule((8, 16))) for _ in range(2))
    judge_cut.look([_undecided(8)])
    judge_cut.cut_short(11)
    (early,) = judge_cut.look([_units(0.20, pairs=11)])
    assert (early.verdict, early.look, early.looks) == (Verdict.REGRESSED, 2, 3)
    judge_whole.look([_undecided(8)])
    assert judge_whole.next_rounds == 16
    cut, whole = LookSchedule((8, 11, 16)), LookSchedule((8, 16))
    assert cut.nominal_level(0) == whole.nominal_level(0)
    assert cut.nominal_level(0) < cut.nominal_level(1) < whole.nominal_level(1)


def test_an_early_end_decides_less_than_the_whole_would():
    weak = _units(0.075, pairs=8, noise=0.02, seed=2)
    (alone,) = judge([QUESTION], [weak])
    cut = SequentialJudge([QUESTION], LookSchedule((16,)))
    cut.cut_short(8)
    assert alone.verdict is Verdict.REGRESSED
    assert cut.look([weak])[0].verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("pairs", [8, 7, 17, 0])
def test_no_look_is_cut_short_to_what_was_seen_or_is_beyond_the_budget(pairs):
    sequential = SequentialJudge([QUESTION], LookSchedule((8, 16)))
    sequential.look([_undecided(8)])
    with pytest.raises(EcbenchError, match=r"give rising numbers|the budget is 16"):
        sequential.cut_short(pairs)


def test_the_whole_budget_is_one_look_however_it_is_asked_for():
    sequential = SequentialJudge([QUESTION], LookSchedule((8, 16)))
    sequential.cut_short(16)
    assert sequential.next_rounds == 16


def test_the_least_number_of_rounds_is_what_even_signs_need():
    assert 0.5**MIN_ROUNDS <= 0.05 < 0.5 ** (MIN_ROUNDS - 1)


def test_the_geometric_mean_weighs_half_and_double_alike():
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([]) is None
