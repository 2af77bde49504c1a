"""How often the gate is wrong, from process rounds that were really run: pairs drawn again and again, then judged.

Every turn ran the unchanged copy twice and each slowdown once, close together. A repeat is a gate over turns that are
drawn without replacement: of each, one of the two unchanged rounds is the base; the other one, or a slowed one, is new.
Rounds that are far apart in time are never paired, as in a gate that runs base and new in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from scipy.stats import binomtest

from ecbench.core.selftest_records import DelayEffect, ErrorRate, GateRates, Promises
from ecbench.stats.alpha_spending import ALPHA, LookSchedule
from ecbench.stats.decisions import Decisions, decide
from ecbench.stats.log_ratio import paired_test
from ecbench.stats.verdicts import DEFAULT_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ecbench.core.selftest_records import ProcessRound, SelftestCase, SelftestResult

    Floats = NDArray[np.float64]

DELAYS = (0.03, 0.05, 0.10, 0.20)
"""Slowdowns that are injected, as shares of a round's time."""
UNCHANGED_PER_TURN = 2
"""One is the base, and the other one new where nothing was changed."""
THRESHOLDS = tuple(delay / 2 for delay in DELAYS)
"""The ladder: at each threshold, a slowdown of twice as much was injected."""
PROMISES = Promises(
    threshold=DEFAULT_THRESHOLD, false_alarms=ALPHA, recommended_false_alarms=0.025, recommended_power=0.95
)
"""By design a gate fails unchanged copies no more often than its tests err, however large the noise; at a threshold
that suits the machine, it does so half as often at most."""
REPEATS = 1000
"""A rate of 2.5% is then known to within a point, as far as the process rounds go."""
_CONFIDENCE = 0.95


def log_median(totals_s: Sequence[float]) -> float:
    """What the gate makes of a process round."""
    return float(np.log(np.median(totals_s)))


@dataclass(frozen=True, eq=False)
class Turns:
    """Process rounds, turn by turn; each is a number, or what else was made of it, along further axes.

    Args:
        unchanged: The two unchanged rounds of each turn: float64, shape ``(turns, 2, legs, ...)``.
        slowed: Rounds with a delay, by its share: float64, shape ``(turns, legs, ...)``.
        directions: Names of the legs.
    """

    unchanged: Floats
    slowed: dict[float, Floats]
    directions: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.unchanged)

    @classmethod
    def of(cls, rounds: Sequence[ProcessRound], reduce: Callable[[Sequence[float]], ArrayLike] = log_median) -> Turns:
        """Sorts process rounds into turns; those that are not complete are left out.

        Args:
            rounds: In any order.
            reduce: Makes something of the times of one leg of a process round.
        """
        directions = tuple(rounds[0].totals_s) if rounds else ()
        by_turn: dict[int, dict[float, list[list[ArrayLike]]]] = {}
        for entry in sorted(rounds, key=lambda entry: (entry.turn, entry.place)):
            legs = [reduce(entry.totals_s[name]) for name in directions]
            by_turn.setdefault(entry.turn, {}).setdefault(entry.delay, []).append(legs)
        delays = sorted({entry.delay for entry in rounds} - {0.0})
        complete = [
            turn
            for turn in by_turn.values()
            if len(turn.get(0.0, ())) == UNCHANGED_PER_TURN and all(delay in turn for delay in delays)
        ]
        return cls(
            unchanged=np.array([turn[0.0] for turn in complete], np.float64),
            slowed={delay: np.array([turn[delay][0] for turn in complete], np.float64) for delay in delays},
            directions=directions,
        )


def with_error_rates(result: SelftestResult) -> SelftestResult:
    """Computes all figures of a result anew from its process rounds."""
    return replace(result, cases=[with_rates(case) for case in result.cases])


def with_rates(case: SelftestCase) -> SelftestCase:
    """Computes the figures of a case from its process rounds.

    Raises:
        DataError: A statistic cannot be computed.
    """
    turns = Turns.of(case.process_rounds)
    if len(turns) < case.pairs:
        return replace(case, turns=len(turns), effects=[], rates=[], cries_wolf=False, recommended_threshold=None)
    schedule = LookSchedule(tuple(case.looks))
    rates = [
        gate_rates(turns, delay, threshold, schedule=schedule, repeats=case.repeats, seed=case.seed)
        for threshold in THRESHOLDS
        for delay in (0.0, *turns.slowed)
    ]
    return replace(
        case,
        turns=len(turns),
        effects=delay_effects(turns),
        rates=rates,
        cries_wolf=_cries_wolf(rates, case.promises),
        recommended_threshold=recommended_threshold(rates, case.promises),
    )


def gate_rates(
    turns: Turns, delay: float, threshold: float, *, schedule: LookSchedule, repeats: int, seed: int
) -> GateRates:
    """Tries a gate out on many re-paired repeats, and on as many as share no process round.

    Args:
        turns: At least as many as the gate has pairs.
        delay: Which slowdown is new; 0 for none.
        threshold: Accepted slowdown as a fraction.
        schedule: Looks of each gate.
        repeats: Re-paired gates.
        seed: Decides the re-pairing; the same pairs are drawn for every threshold.
    """
    pairs = schedule.rounds[-1]
    draw = np.random.default_rng([seed, round(delay * 1e6)])
    rows = draw_turns(draw, len(turns), pairs, repeats)
    drawn, _ = run_gates(*re_pair(turns, delay, rows, draw), schedule, threshold)
    apart, _ = run_gates(*re_pair(turns, delay, turns_apart(len(turns), pairs), draw), schedule, threshold)
    failed = np.any(drawn.slower, axis=-1)
    return GateRates(
        threshold=threshold,
        delay=delay,
        failed=rate_of(failed),
        inconclusive=rate_of(~failed & np.any(drawn.inconclusive, axis=-1)),
        failed_apart=rate_of(np.any(apart.slower, axis=-1)),
    )


def draw_turns(draw: np.random.Generator, turns: int, pairs: int, repeats: int) -> NDArray[np.intp]:
    """Turns of each repeat, drawn without replacement and in the order in which they ran: shape (repeats, pairs)."""
    shuffled = draw.permuted(np.tile(np.arange(turns), (repeats, 1)), axis=1)
    return np.sort(shuffled[:, :pairs], axis=1)


def turns_apart(turns: int, pairs: int) -> NDArray[np.intp]:
    """Turns of gates that share none, each over neighbouring ones: shape (turns // pairs, pairs)."""
    gates = turns // pairs
    return np.arange(gates * pairs).reshape(gates, pairs)


def re_pair(turns: Turns, delay: float, rows: NDArray[np.intp], draw: np.random.Generator) -> tuple[Floats, Floats]:
    """Base and new rounds of gates.

    Args:
        turns: What was run.
        delay: Which slowdown is new; 0 takes the other unchanged round.
        rows: Turn of each pair, shape ``(gates, pairs)``.
        draw: Decides which of the two unchanged rounds is the base.

    Returns:
        Two arrays, shape ``(gates, legs, pairs, ...)``.
    """
    base_place = draw.integers(UNCHANGED_PER_TURN, size=rows.shape)
    base = turns.unchanged[rows, base_place]
    new = turns.slowed[delay][rows] if delay else turns.unchanged[rows, 1 - base_place]
    return np.moveaxis(base, 2, 1), np.moveaxis(new, 2, 1)


def run_gates(
    base: Floats, new: Floats, schedule: LookSchedule, threshold: float
) -> tuple[Decisions, NDArray[np.int64]]:
    """Judges many gates as one gate is judged: each ends at the look that settles all of its legs.

    Args:
        base: Logarithms of process rounds, shape ``(gates, legs, pairs)``.
        new: Those run beside them, same shape.
        schedule: Looks.
        threshold: Accepted slowdown as a fraction.

    Returns:
        What was decided, shape ``(gates, legs)``, and the pairs that each gate took, shape ``(gates,)``.
    """
    decisions = Decisions.none(base.shape[:-1])
    running = np.ones(len(base), np.bool_)
    pairs_run = np.zeros(len(base), np.int64)
    for look, pairs in enumerate(schedule.rounds):
        pairs_run[running] = pairs
        after = decide(paired_test(base[..., :pairs], new[..., :pairs], threshold), decisions, schedule, look)
        decisions = Decisions(
            **{
                name: np.where(running[:, None], getattr(after, name), getattr(decisions, name))
                for name in Decisions.__dataclass_fields__
            }
        )
        running &= ~decisions.settled.all(axis=-1)
    return decisions, pairs_run


def rate_of(happened: NDArray[np.bool_]) -> ErrorRate:
    """Share of trials with its exact binomial interval; an empty one says nothing, from 0 to 1."""
    count, of = int(happened.sum()), len(happened)
    if not of:
        return ErrorRate(count=0, of=0, share=0.0, low=0.0, high=1.0)
    interval = binomtest(count, of).proportion_ci(_CONFIDENCE, method="exact")
    return ErrorRate(count=count, of=of, share=count / of, low=float(interval.low), high=float(interval.high))


def delay_effects(turns: Turns) -> list[DelayEffect]:
    """What each delay did to each direction, against the mean of the two unchanged rounds of its turn."""
    base = turns.unchanged.mean(axis=1)
    return [
        DelayEffect(delay=delay, direction=name, slowdown=float(np.expm1(np.median(slowed[:, leg] - base[:, leg]))))
        for delay, slowed in turns.slowed.items()
        for leg, name in enumerate(turns.directions)
    ]


def _cries_wolf(rates: Sequence[GateRates], promises: Promises) -> bool:
    alarms = [entry.failed for entry in rates if entry.threshold == promises.threshold and not entry.delay]
    return any(rate.low > promises.false_alarms for rate in alarms)


def recommended_threshold(rates: Sequence[GateRates], promises: Promises) -> float | None:
    """The smallest threshold with few enough false alarms and enough power; None where there is none."""
    shares = {(entry.threshold, entry.delay): entry.failed.share for entry in rates}
    fitting = (
        threshold
        for threshold in sorted({entry.threshold for entry in rates})
        if shares.get((threshold, 0.0), 1.0) <= promises.recommended_false_alarms
        and shares.get((threshold, 2 * threshold), 0.0) >= promises.recommended_power
    )
    return next(fitting, None)
