from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from ecbench.core.errors import EcbenchError
from ecbench.stats.alpha_spending import ALPHA, LookSchedule, nominal_levels, spent


@pytest.mark.parametrize(
    ("looks", "levels"),
    [
        (1, [0.05]),
        (2, [0.0056, 0.0482]),
        # Two-sided 10% in the tables of Lan and DeMets' O'Brien-Fleming-like function is this one-sided 5%.
        (4, [0.0001, 0.0055, 0.0219, 0.0427]),
    ],
)
def test_levels_are_those_of_the_published_boundaries(looks, levels):
    fractions = tuple((look + 1) / looks for look in range(looks))
    assert nominal_levels(fractions, 0.05) == pytest.approx(levels, abs=6e-5)


@pytest.mark.parametrize("rounds", [(8, 12, 16), (6, 10), (8, 12, 16, 24)])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 6])
def test_all_looks_together_err_as_often_as_one(rounds, alpha):
    draw = np.random.default_rng(0)
    fractions = LookSchedule(rounds).fractions
    steps = draw.normal(size=(400_000, len(rounds))) * np.sqrt(np.diff((0.0, *fractions)))
    scores = steps.cumsum(axis=1) / np.sqrt(fractions)
    wrong = (norm.sf(scores) <= nominal_levels(fractions, alpha)).any(axis=1).mean()
    assert wrong == pytest.approx(alpha, rel=0.06)


def test_four_looks_without_spending_would_err_far_more_often():
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(100_000, 4)).cumsum(axis=1) / np.sqrt([1, 2, 3, 4])
    assert (scores > 1.645).any(axis=1).mean() > 0.11


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5, unique=True), st.floats(0.001, 0.2))
def test_each_level_is_within_the_whole_error_and_the_first_spends_its_share(rounds, alpha):
    schedule = LookSchedule(tuple(sorted(rounds)))
    levels = [schedule.nominal_level(look, alpha) for look in range(len(rounds))]
    assert all(0 <= level <= alpha * (1 + 1e-9) for level in levels)
    assert levels[0] == pytest.approx(spent(schedule.fractions[0], alpha), abs=1e-9)
    assert spent(1.0, alpha) == pytest.approx(alpha)


def test_one_look_has_the_whole_error():
    assert LookSchedule((16,)).nominal_level(0) == pytest.approx(ALPHA)


@pytest.mark.parametrize("rounds", [(), (0, 4), (8, 8), (16, 8)])
def test_looks_that_do_not_rise_are_refused(rounds):
    with pytest.raises(EcbenchError, match="rising numbers"):
        LookSchedule(rounds)


@pytest.mark.parametrize(
    ("pairs", "rounds"),
    [(6, (6,)), (7, (6,)), (8, (6, 8)), (10, (6, 8, 10)), (16, (8, 12, 16)), (17, (10, 14, 16)), (24, (12, 18, 24))],
)
def test_the_usual_plan_looks_at_half_three_quarters_and_all_in_whole_quadruples(pairs, rounds):
    assert LookSchedule.up_to(pairs).rounds == rounds


def test_a_budget_below_the_first_look_is_refused():
    with pytest.raises(EcbenchError, match="5 pairs are too few for a verdict: allow at least 6"):
        LookSchedule.up_to(5)
