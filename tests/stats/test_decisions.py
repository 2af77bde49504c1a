from __future__ import annotations

import itertools

import numpy as np
import pytest

from ecbench.core.comparison_records import Pairing, Verdict
from ecbench.stats.alpha_spending import LookSchedule
from ecbench.stats.decisions import Decisions, decide, verdict_of
from ecbench.stats.log_ratio import paired_test
from ecbench.stats.pairing import Observations
from ecbench.stats.verdicts import LegQuestion, SequentialJudge

SCHEDULE = LookSchedule((8, 12, 16))
GATES, CASES, PAIRS = 40, 3, 16


def _pairs(seed=0):
    draw = np.random.default_rng(seed)
    base = draw.normal(0, 0.03, (GATES, CASES, PAIRS))
    return base, base + draw.normal(0, 0.04, base.shape) + draw.choice([0.0, 0.05, 0.15], (GATES, CASES, 1))


def _verdict(decisions, gate, case):
    flags = {name: bool(getattr(decisions, name)[gate, case]) for name in Decisions.__dataclass_fields__}
    return verdict_of(**flags)


def test_many_gates_at_once_are_decided_as_each_one_alone():
    """The simulation decides thousands of gates in one call; the command decides one. Both must say the same."""
    base, new = _pairs()
    together = Decisions.none((GATES, CASES))
    judges = [SequentialJudge([LegQuestion("leg", "total_s")] * CASES, SCHEDULE) for _ in range(GATES)]
    for look, pairs in enumerate(SCHEDULE.rounds):
        together = decide(paired_test(base[..., :pairs], new[..., :pairs], 0.05), together, SCHEDULE, look)
        for gate, judge in enumerate(judges):
            units = [
                Observations(
                    tuple(np.exp(base[gate, case, :pairs])), tuple(np.exp(new[gate, case, :pairs])), Pairing.PAIRED
                )
                for case in range(CASES)
            ]
            alone = [(answer.verdict, answer.reason) for answer in judge.look(units)]
            assert alone == [_verdict(together, gate, case) for case in range(CASES)]


def test_what_was_decided_stays_decided():
    base, new = _pairs(1)
    decisions = Decisions.none((GATES, CASES))
    for look, pairs in enumerate(SCHEDULE.rounds):
        after = decide(paired_test(base[..., :pairs], new[..., :pairs], 0.05), decisions, SCHEDULE, look)
        for name in Decisions.__dataclass_fields__:
            assert not (getattr(decisions, name) & ~getattr(after, name)).any()
        decisions = after
    assert decisions.slower.any()
    assert decisions.inconclusive.any()


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=4)))
def test_arrays_and_verdicts_agree_on_what_passed_and_what_is_open(flags):
    decisions = Decisions(*(np.array(flag) for flag in flags))
    verdict, _ = verdict_of(**dict(zip(Decisions.__dataclass_fields__, flags, strict=True)))
    assert bool(decisions.inconclusive) == (verdict is Verdict.INCONCLUSIVE)
    assert bool(decisions.passed) == (verdict is Verdict.PASSED)
    if verdict in {Verdict.REGRESSED, Verdict.IMPROVED}:
        assert decisions.settled
