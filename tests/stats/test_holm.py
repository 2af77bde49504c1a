from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ecbench.stats.holm import step_down

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def _holm(p_values, alpha):
    """Written down a second time, one hypothesis after the other."""
    rejected = [False] * len(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] > alpha / (len(p_values) - rank):
            break
        rejected[index] = True
    return rejected


def _levels(count, alpha=0.05):
    return [alpha / (count - rank) for rank in range(count)]


@given(P_VALUES)
def test_it_is_holm(p_values):
    assert step_down(np.array(p_values), _levels(len(p_values))).tolist() == _holm(p_values, 0.05)


@given(P_VALUES)
def test_it_never_rejects_less_than_bonferroni_nor_more_than_no_adjustment(p_values):
    rejected = step_down(np.array(p_values), _levels(len(p_values)))
    values = np.array(p_values)
    assert not (~rejected & (values <= 0.05 / len(p_values))).any()
    assert not (rejected & (values > 0.05)).any()


def test_many_gates_at_once_are_judged_one_by_one():
    p_values = np.array([[0.001, 0.04, 0.02], [0.04, 0.04, 0.04]])
    assert step_down(p_values, _levels(3)).tolist() == [[True, True, True], [False, False, False]]
