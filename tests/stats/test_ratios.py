from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.stats.ratios import time_ratio

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=30)


def test_twice_the_time_is_a_ratio_of_two():
    ratio = time_ratio([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 2.0, 2.0)


@given(TIMES, TIMES)
def test_the_ratio_lies_in_its_interval_and_turns_round_with_its_sides(base, new):
    ratio, inverse = time_ratio(base, new), time_ratio(new, base)
    assert ratio.low <= ratio.value * (1 + 1e-9)
    assert ratio.value <= ratio.high * (1 + 1e-9)
    assert inverse.low == pytest.approx(1 / ratio.high)
    assert inverse.value == pytest.approx(1 / ratio.value)


def test_the_interval_covers_the_true_ratio_at_least_as_often_as_promised():
    draw = random.Random(11)
    hits = 0
    for _ in range(1000):
        base = [draw.lognormvariate(0, 0.3) for _ in range(12)]
        ratio = time_ratio(base, [1.2 * draw.lognormvariate(0, 0.3) for _ in range(12)])
        hits += ratio.low <= 1.2 <= ratio.high
    assert hits / 1000 >= 0.95
