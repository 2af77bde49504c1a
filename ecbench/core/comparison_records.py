"""Comparisons of two results as they are kept: verdicts and reasons, exact figures, and what the machines differ in."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ecbench.core.records import Param, Record, RunResult


class Verdict(StrEnum):
    """What a comparison says of the new result, best first."""

    IMPROVED = "improved"
    """Faster by more than the threshold, beyond chance."""
    PASSED = "passed"
    """Not slower by as much as the threshold, beyond chance."""
    INCONCLUSIVE = "inconclusive"
    """The data cannot tell; more rounds can."""
    REGRESSED = "regressed"
    """Slower by more than the threshold, beyond chance; or bytes or an exact figure are wrong."""

    @property
    def rank(self) -> int:
        """Position from best to worst, from 0."""
        return list(Verdict).index(self)


class Reason(StrEnum):
    """Why a verdict is what it is."""

    IMPROVED_BEYOND_THRESHOLD = "improved_beyond_threshold"
    WITHIN_THRESHOLD = "within_threshold"
    """Neither slower nor faster by as much as the threshold."""
    MAY_BE_IMPROVED = "may_be_improved"
    """Not slower; faster by more than the threshold or not."""
    MAY_BE_REGRESSED = "may_be_regressed"
    """Not faster; slower by more than the threshold or not."""
    TOO_NOISY = "too_noisy"
    """May be slower or faster by more than the threshold."""
    SLOWER_BEYOND_THRESHOLD = "slower_beyond_threshold"
    TOO_FEW_ROUNDS = "too_few_rounds"
    NOT_A_NUMBER = "not_a_number"
    """A time is NaN or infinite."""
    NOT_POSITIVE = "not_positive"
    """A time is zero or negative."""
    CONSTANT_SAMPLES = "constant_samples"
    """The rounds do not differ at all: no noise can be seen, so none can be allowed for."""
    EXACT_FIGURES_EQUAL = "exact_figures_equal"
    EXACT_FIGURES_DIFFER = "exact_figures_differ"
    EXACT_FIGURES_IMPROVED = "exact_figures_improved"
    BYTE_FAULT = "byte_fault"
    """The new result has wrong bytes."""
    REFUSED_COPY = "refused_copy"
    """The new result has an error where the old one has none."""
    BASE_UNUSABLE = "base_unusable"
    """The old result has wrong bytes or an error here, so there is no time to compare with."""
    TIMES_NOT_COMPARABLE = "times_not_comparable"
    """The environments or paths differ in something that times depend on."""
    NOT_GATED = "not_gated"
    """No rule of the gate names this case; exact figures were compared."""
    MISSING = "missing"
    """Only the old result has it, or the new one skipped it."""
    ADDED = "added"
    """Only the new result has it."""


class Pairing(StrEnum):
    """How the rounds of two results belong together."""

    PAIRED = "paired"
    """Process rounds that were run next to each other, in ABBA order."""
    UNPAIRED = "unpaired"
    """Process rounds that were run at different times; the threshold is widened."""
    WITHIN_PROCESS = "within one process"
    """One process each: what differs between processes stays unseen; the threshold is widened more."""


class FailOn(StrEnum):
    """What makes ``compare`` exit with another code than 0."""

    NEVER = "never"
    REGRESSED = "regressed"
    """1 for regressions: of times, of exact figures, or wrong bytes."""
    INCONCLUSIVE = "inconclusive"
    """Also 5 where something could not be judged."""
    ANY = "any"
    """1 for whatever is not the same: improvements, added and missing cases too."""


class TimeComparison(Record, frozen=True, kw_only=True):
    """The times of one leg, compared."""

    metric: str
    verdict: Verdict
    reason: Reason
    pairing: Pairing
    threshold: float
    """Largest slowdown that is accepted, as a fraction, after widening."""
    base_rounds: int
    """Units of the old result: process rounds, or rounds within one process."""
    new_rounds: int
    base_median: float | None = None
    """Median over the units, in the metric's unit; null where a unit is no positive number."""
    new_median: float | None = None
    ratio: float | None = None
    """New / base: 1.1 is 10% slower."""
    ratio_low: float | None = None
    """Ends of the 90% interval, which matches two one-sided tests at 5%; not adjusted for many cases."""
    ratio_high: float | None = None
    p_slower: float | None = None
    """One-sided p-value of "slower by more than the threshold"."""
    p_not_slower: float | None = None
    """One-sided p-value of "not slower by as much as the threshold"."""
    look: int = 1
    """Number of the look at the data that decided, from 1."""
    looks: int = 1
    """Looks that were fixed beforehand."""


class ExactDifference(Record, frozen=True, kw_only=True):
    """A figure that must be equal and is not."""

    figure: str
    base: Param
    new: Param
    verdict: Verdict
    """Improved where the figure has a better side and moved there."""


class LegComparison(Record, frozen=True, kw_only=True):
    """One direction of a case; for kinds of result without legs, the whole case."""

    name: str
    """``save``, ``load``, ``store``; or ``exact`` where there are no legs."""
    verdict: Verdict
    reason: Reason
    detail: str | None = None
    """What the reason is about, in words."""
    times: TimeComparison | None = None
    exact_figures: int = 0
    """Figures that were compared exactly."""
    differences: list[ExactDifference] = msgspec.field(default_factory=list)


class CaseComparison(Record, frozen=True, kw_only=True):
    """One case of both results."""

    case_id: str
    """In the new result; in the old one where it is missing."""
    verdict: Verdict
    """The worst of its legs."""
    reason: Reason
    """Of the leg that decides."""
    base_case_id: str | None = None
    """In the old result, where a case of the same workload and parameters has another name."""
    legs: list[LegComparison] = msgspec.field(default_factory=list)


class DifferenceEffect(StrEnum):
    """What a difference between two environments does to a comparison."""

    SAID = "said"
    """Only shown."""
    UNDER_TEST = "under test"
    """Named as the thing under test, so times are compared."""
    TIMES_REFUSED = "times refused"


class EnvironmentDifference(Record, frozen=True, kw_only=True):
    """Something in which the environments of two results differ."""

    name: str
    base: Param
    new: Param
    effect: DifferenceEffect


class ComparisonResult(RunResult[CaseComparison], frozen=True, kw_only=True):
    """All that `compare` or `gate` found; `environment` is that of the new result."""

    base_started_at: str
    new_started_at: str
    compared_kind: str
    """The command that both results come from."""
    differences: list[EnvironmentDifference] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """What must be read before any number."""
    geometric_mean_ratio: float | None = None
    """Of the ratios of all legs; informs only."""
