from __future__ import annotations

import random
from statistics import median

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.errors import DataError
from ecbench.core.records import LegResult, LegStatus, Sample
from ecbench.stats.summary import median_interval, with_figures


def _leg(totals, ceilings=None, copied_bytes=1000):
    ceilings = ceilings or [1.0] * len(totals)
    samples = [
        Sample(process=0, round=n, total_s=total, fill_s=0, submit_s=0, copy_s=total, ceiling_s=ceiling)
        for n, (total, ceiling) in enumerate(zip(totals, ceilings, strict=True))
    ]
    return LegResult(direction="save", status=LegStatus.PASSED, samples=samples, copied_bytes=copied_bytes)


@pytest.mark.parametrize(("count", "rank"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (20, 5), (10_000, 4901)])
def test_the_interval_is_the_tabulated_pair_of_order_statistics(count, rank):
    values = list(range(count))
    assert median_interval(values) == (rank, count - 1 - rank)


def test_the_interval_covers_the_true_median_at_least_as_often_as_promised():
    draw = random.Random(7)
    hits = 0
    for _ in range(2000):
        low, high = median_interval([draw.gauss(0, 1) for _ in range(15)])
        hits += low <= 0 <= high
    assert hits / 2000 >= 0.94


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_the_median_lies_in_its_interval(values):
    low, high = median_interval(values)
    assert min(values) <= low <= median(values) <= high <= max(values)


def test_figures_follow_from_samples():
    leg = with_figures(_leg([2.0, 4.0, 3.0], [1.0, 1.0, 1.5], copied_bytes=600))
    assert leg.median_s == 3.0
    assert (leg.ci_low_s, leg.ci_high_s) == (2.0, 4.0)
    assert leg.bandwidth_bytes_per_s == 200
    assert leg.ceiling_bytes_per_s == 600
    assert leg.ceiling_ratio == 0.5


def test_stored_figures_are_not_trusted():
    forged = msgspec.structs.replace(_leg([2.0]), median_s=1e-9, ceiling_ratio=99.0)
    assert with_figures(forged).median_s == 2.0
    assert with_figures(forged).ceiling_ratio == 0.5


def test_without_samples_there_are_no_figures():
    forged = LegResult(direction="load", status=LegStatus.ERROR, reason="x", median_s=1.0, bandwidth_bytes_per_s=5.0)
    leg = with_figures(forged)
    assert leg.median_s is None
    assert leg.bandwidth_bytes_per_s is None


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_time_is_an_error_and_never_a_figure(bad):
    with pytest.raises(DataError, match=r"round 1 has total_s"):
        with_figures(_leg([1.0, bad]))
