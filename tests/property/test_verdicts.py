"""What must hold of verdicts whatever the data are."""

from __future__ import annotations

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from ecbench.core.comparison_records import Pairing, Reason, Verdict
from ecbench.stats.pairing import Observations
from ecbench.stats.verdicts import MIN_ROUNDS, LegQuestion, judge

SWAPPED = {
    (Verdict.REGRESSED, Reason.SLOWER_BEYOND_THRESHOLD): (Verdict.IMPROVED, Reason.IMPROVED_BEYOND_THRESHOLD),
    (Verdict.IMPROVED, Reason.IMPROVED_BEYOND_THRESHOLD): (Verdict.REGRESSED, Reason.SLOWER_BEYOND_THRESHOLD),
    (Verdict.PASSED, Reason.WITHIN_THRESHOLD): (Verdict.PASSED, Reason.WITHIN_THRESHOLD),
    # A gate is about slowdowns: what may be faster passes, so what may be slower is where it must not.
    (Verdict.PASSED, Reason.MAY_BE_IMPROVED): (Verdict.INCONCLUSIVE, Reason.MAY_BE_REGRESSED),
    (Verdict.INCONCLUSIVE, Reason.MAY_BE_REGRESSED): (Verdict.PASSED, Reason.MAY_BE_IMPROVED),
    (Verdict.INCONCLUSIVE, Reason.TOO_NOISY): (Verdict.INCONCLUSIVE, Reason.TOO_NOISY),
}
NOISE = st.floats(-0.2, 0.2).filter(lambda value: value == 0 or abs(value) > 1e-6)
EDGE = 1e-9
"""p-values closer to the level than this may fall on either side by rounding."""


@st.composite
def gates(draw, most_cases=4, least_rounds=MIN_ROUNDS):
    """Log base and log new of a few cases, all with one pairing."""
    pairing = draw(st.sampled_from(list(Pairing)))
    cases = []
    for _ in range(draw(st.integers(1, most_cases))):
        rounds = draw(st.integers(least_rounds, 12))
        shift = draw(st.floats(-0.4, 0.4))
        sides = [draw(st.lists(NOISE, min_size=rounds, max_size=rounds)) for _ in range(2)]
        cases.append((sides[0], [value + shift for value in sides[1]]))
    return pairing, cases


def _judge(pairing, cases, *, base_scale=1.0, new_scale=1.0):
    units = [
        Observations(
            tuple(base_scale * math.exp(value) for value in base),
            tuple(new_scale * math.exp(value) for value in new),
            pairing,
        )
        for base, new in cases
    ]
    return judge([LegQuestion(f"case {number}", "total_s") for number in range(len(units))], units)


def _assume_clear(answers):
    """Leaves out data that sit on an edge: constant samples, and p-values equal to a level but for rounding."""
    levels = [0.05 / count for count in range(1, len(answers) + 1)]
    for answer in answers:
        assume(answer.p_slower is not None)
        for p_value in (answer.p_slower, answer.p_not_slower):
            assume(all(abs(p_value - level) > EDGE for level in levels))


@given(gates())
def test_swapping_base_and_new_swaps_the_verdict(gate):
    pairing, cases = gate
    there = _judge(pairing, cases)
    back = _judge(pairing, [(new, base) for base, new in cases])
    _assume_clear(there)
    _assume_clear(back)
    for one, other in zip(there, back, strict=True):
        assert (other.verdict, other.reason) == SWAPPED[one.verdict, one.reason]
        assert math.isclose(one.ratio * other.ratio, 1.0, rel_tol=1e-9)


@given(gates(), st.floats(1e-6, 1e6))
def test_scaling_both_changes_nothing(gate, scale):
    pairing, cases = gate
    before = _judge(pairing, cases)
    after = _judge(pairing, cases, base_scale=scale, new_scale=scale)
    _assume_clear(before)
    _assume_clear(after)
    assert [(a.verdict, a.reason) for a in before] == [(a.verdict, a.reason) for a in after]


@given(gates(), st.floats(1.0, 2.0))
def test_a_slower_new_result_never_gets_a_better_verdict(gate, slowdown):
    pairing, cases = gate
    before = _judge(pairing, cases)
    after = _judge(pairing, cases, new_scale=slowdown)
    _assume_clear(before)
    _assume_clear(after)
    for one, other in zip(before, after, strict=True):
        assert other.verdict.rank >= one.verdict.rank


@given(gates(least_rounds=1), st.integers(1, MIN_ROUNDS - 1))
def test_too_few_rounds_are_inconclusive_whatever_they_hold(gate, rounds):
    pairing, cases = gate
    answers = _judge(pairing, [(base[:rounds], new[:rounds]) for base, new in cases])
    assert {(answer.verdict, answer.reason) for answer in answers} == {(Verdict.INCONCLUSIVE, Reason.TOO_FEW_ROUNDS)}


@given(gates())
def test_more_cases_never_turn_an_unclear_time_into_a_regression(gate):
    """Holm: company makes a verdict of slower harder, never easier."""
    pairing, cases = gate
    alone = [_judge(pairing, [case])[0] for case in cases]
    for one, among in zip(alone, _judge(pairing, cases), strict=True):
        assert not (among.verdict is Verdict.REGRESSED and one.verdict is not Verdict.REGRESSED)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12), st.sampled_from(list(Pairing)))
def test_any_numbers_at_all_get_a_verdict_and_a_reason(values, pairing):
    (answer,) = judge([LegQuestion("case", "total_s")], [Observations(tuple(values), tuple(values[::-1]), pairing)])
    assert answer.verdict in Verdict
    assert (answer.ratio is None) == (answer.p_slower is None)
