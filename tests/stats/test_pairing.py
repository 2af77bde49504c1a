from __future__ import annotations

import pytest

from ecbench.core.comparison_records import Pairing
from ecbench.core.errors import EcbenchError
from ecbench.core.records import Sample
from ecbench.stats.pairing import METRICS, Observations, Side, abba_order, observe


def _samples(by_process):
    return [
        Sample(process=process, round=number, total_s=total, fill_s=1.0, submit_s=2.0, copy_s=3.0, ceiling_s=0.5)
        for process, totals in by_process.items()
        for number, total in enumerate(totals)
    ]


def test_a_process_round_counts_once_however_many_rounds_it_has():
    base = _samples({0: [1.0, 2.0, 9.0], 1: [3.0]})
    new = _samples({0: [2.0], 1: [4.0, 5.0, 60.0]})
    assert observe(base, new, "total_s", interleaved=False) == Observations((2.0, 3.0), (2.0, 5.0), Pairing.UNPAIRED)


def test_one_process_each_is_compared_round_by_round_and_says_so():
    units = observe(_samples({0: [1.0, 2.0]}), _samples({0: [3.0, 4.0]}), "total_s", interleaved=False)
    assert units == Observations((1.0, 2.0), (3.0, 4.0), Pairing.WITHIN_PROCESS)


def test_interleaved_processes_of_one_number_are_a_pair_and_odd_ones_are_dropped():
    base = _samples({0: [1.0], 2: [3.0], 1: [2.0]})
    new = _samples({1: [20.0], 0: [10.0]})
    assert observe(base, new, "total_s", interleaved=True) == Observations((1.0, 2.0), (10.0, 20.0), Pairing.PAIRED)


@pytest.mark.parametrize(
    ("metric", "value"),
    [("total_s", 4.0), ("fill_s", 1.0), ("submit_s", 2.0), ("copy_s", 3.0), ("total_per_ceiling", 8.0)],
)
def test_every_metric_reads_its_stage(metric, value):
    samples = _samples({0: [4.0]})
    assert observe(samples, samples, metric, interleaved=False).base == (value,)
    assert metric in METRICS


def test_an_unknown_metric_lists_the_choices():
    with pytest.raises(EcbenchError, match="unknown metric 'speed': choose one of total_s"):
        observe([], [], "speed", interleaved=False)


def test_pairs_need_both_sides():
    with pytest.raises(EcbenchError, match="3 base and 2 new rounds cannot be paired"):
        Observations((1.0, 2.0, 3.0), (1.0, 2.0), Pairing.PAIRED)


def test_the_order_is_abba_and_every_pair_is_adjacent():
    order = abba_order(4)
    assert "".join(side.value[0] for side, _ in order) == "bnnbbnnb"
    assert [pair for _, pair in order] == [0, 0, 1, 1, 2, 2, 3, 3]
    base, new = ([place for place, (side, _) in enumerate(order) if side is wanted] for wanted in Side)
    assert sum(base) == sum(new)
