"""Two results -> matched cases -> exact figures, then times -> verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ecbench.core.comparison_records import (
    CaseComparison,
    ComparisonResult,
    EnvironmentDifference,
    ExactDifference,
    LegComparison,
    Reason,
    TimeComparison,
    Verdict,
)
from ecbench.core.errors import DataError
from ecbench.core.records import SCHEMA_VERSION
from ecbench.stats.pairing import PAIRING_SETTING, observe
from ecbench.stats.verdicts import MIN_ROUNDS, LegQuestion, geometric_mean, judge
from ecbench.workflows.case_matching import CasePair, LegPair, match_cases, match_legs
from ecbench.workflows.comparability import environment_differences, path_difference, times_refusal
from ecbench.workflows.comparable import ExactFigure
from ecbench.workflows.timing_rules import rule_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecbench.core.records import Param
    from ecbench.stats.pairing import Observations
    from ecbench.workflows.comparable import ComparableLeg, ComparableResult
    from ecbench.workflows.timing_rules import TimingRule

TimesJudge = Callable[[Sequence[LegQuestion], "Sequence[Observations]"], list[TimeComparison]]
"""Answers all questions about times at once; `judge` takes one look at them."""


def compare_results(
    base: ComparableResult,
    new: ComparableResult,
    *,
    kind: str,
    rules: Sequence[TimingRule],
    under_test: Sequence[str],
    settings: Mapping[str, Param],
    judge_times: TimesJudge = judge,
) -> ComparisonResult:
    """Compares two results.

    Args:
        base: The old one.
        new: The new one.
        kind: The command that asks.
        rules: Which times are compared; the first that names a case counts.
        under_test: What is meant to differ between the environments.
        settings: Kept in the result.
        judge_times: Judges the times of all legs.

    Raises:
        DataError: Results of two kinds, a case with two workloads, no case in both, or a statistic that failed.
    """
    if base.kind != new.kind:
        raise DataError(f"a result of {base.kind!r} and one of {new.kind!r} cannot be compared: give two of one kind")
    differences = environment_differences(base.environment, new.environment, under_test)
    questions = _Questions(rules, times_refusal(differences), interleaved=_interleaved(base, new))
    drafts = [_draft_case(pair, questions) for pair in match_cases(base.cases, new.cases)]
    times = questions.answers(judge_times)
    cases = [draft.finished(times) for draft in drafts]
    ratios = [leg.times.ratio for case in cases for leg in case.legs if leg.times and leg.times.ratio]
    return ComparisonResult(
        schema_version=SCHEMA_VERSION,
        kind=kind,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=new.environment,
        settings=dict(settings),
        cases=cases,
        complete=base.complete and new.complete,
        base_started_at=base.started_at,
        new_started_at=new.started_at,
        compared_kind=new.kind,
        differences=differences,
        notes=_notes(base, new, differences),
        geometric_mean_ratio=geometric_mean(ratios),
    )


def _interleaved(base: ComparableResult, new: ComparableResult) -> bool:
    pairing = base.settings.get(PAIRING_SETTING)
    return pairing is not None and pairing == new.settings.get(PAIRING_SETTING)


def _notes(base: ComparableResult, new: ComparableResult, differences: list[EnvironmentDifference]) -> list[str]:
    refusal = times_refusal(differences)
    notes = [f"Times are {refusal}. Exact figures are compared."] if refusal else []
    interrupted = [name for name, result in (("base", base), ("new", new)) if not result.complete]
    return notes + [f"The {name} result was interrupted: cases or rounds are missing from it." for name in interrupted]


class _Questions:
    """Collects the times to compare, so that all are judged together: chance is divided among them."""

    def __init__(self, rules: Sequence[TimingRule], refusal: str | None, *, interleaved: bool) -> None:
        self.rules = rules
        self.refusal = refusal
        self._interleaved = interleaved
        self._asked: list[tuple[LegQuestion, ComparableLeg, ComparableLeg]] = []

    def ask(self, question: LegQuestion, base: ComparableLeg, new: ComparableLeg) -> int:
        self._asked.append((question, base, new))
        return len(self._asked) - 1

    def answers(self, judge_times: TimesJudge) -> list[TimeComparison]:
        observations = [
            observe(base.samples, new.samples, question.metric, interleaved=self._interleaved)
            for question, base, new in self._asked
        ]
        return judge_times([question for question, _, _ in self._asked], observations)


@dataclass
class _LegDraft:
    """A leg before times are judged.

    Args:
        name: Its direction.
        fixed: Verdict, reason and words that times cannot change; None where they are compared.
        exact_figures: How many were compared.
        differences: Those that differ.
        question: Number of the question about its times; None where there is none.
    """

    name: str
    fixed: tuple[Verdict, Reason, str | None] | None
    exact_figures: int = 0
    differences: tuple[ExactDifference, ...] = ()
    question: int | None = None

    def finished(self, times: Sequence[TimeComparison]) -> LegComparison:
        answer = None if self.question is None else times[self.question]
        verdict, reason, detail = self._worst(answer)
        return LegComparison(
            name=self.name,
            verdict=verdict,
            reason=reason,
            detail=detail,
            times=answer,
            exact_figures=self.exact_figures,
            differences=list(self.differences),
        )

    def _worst(self, answer: TimeComparison | None) -> tuple[Verdict, Reason, str | None]:
        found: list[tuple[Verdict, Reason, str | None]] = [_exact_verdict(entry) for entry in self.differences]
        if self.fixed is not None:
            found.append(self.fixed)
        if answer is not None:
            found.append((answer.verdict, answer.reason, _time_words(answer)))
        return max(found, key=lambda entry: entry[0].rank)


_MENDS = {
    Reason.NOT_A_NUMBER: "a time is NaN or infinite: measure again",
    Reason.NOT_POSITIVE: "a time is zero or negative: choose a metric that this path has, such as total_s",
    Reason.CONSTANT_SAMPLES: "the rounds do not differ at all, so their noise is unknown: measure again",
}


def _time_words(answer: TimeComparison) -> str | None:
    if answer.reason is Reason.TOO_FEW_ROUNDS:
        return (
            f"{answer.base_rounds} and {answer.new_rounds} rounds ({answer.pairing}): a verdict needs {MIN_ROUNDS} on "
            "either side"
        )
    return _MENDS.get(answer.reason)


def _exact_verdict(difference: ExactDifference) -> tuple[Verdict, Reason, str]:
    improved = difference.verdict is Verdict.IMPROVED
    reason = Reason.EXACT_FIGURES_IMPROVED if improved else Reason.EXACT_FIGURES_DIFFER
    return difference.verdict, reason, f"{difference.figure}: {difference.base} before, {difference.new} now"


@dataclass
class _CaseDraft:
    pair: CasePair
    legs: list[_LegDraft]

    def finished(self, times: Sequence[TimeComparison]) -> CaseComparison:
        base, new = self.pair
        legs = [leg.finished(times) for leg in self.legs]
        deciding = max(legs, key=lambda leg: leg.verdict.rank)
        renamed = base is not None and new is not None and base.case_id != new.case_id
        case = new or base
        assert case is not None
        return CaseComparison(
            case_id=case.case_id,
            base_case_id=base.case_id if base is not None and renamed else None,
            verdict=deciding.verdict,
            reason=deciding.reason,
            legs=legs,
        )


def _draft_case(pair: CasePair, questions: _Questions) -> _CaseDraft:
    base, new = pair
    if base is None or new is None:
        case = new or base
        assert case is not None
        return _CaseDraft(pair, [_one_sided(leg.name, "case", added=base is None) for leg in case.legs])
    return _CaseDraft(pair, [_draft_leg(legs, new.case_id, questions) for legs in match_legs(base, new)])


def _one_sided(name: str, thing: str, *, added: bool) -> _LegDraft:
    if added:
        return _LegDraft(name, (Verdict.PASSED, Reason.ADDED, f"this {thing} is only in the new result"))
    return _LegDraft(name, (Verdict.INCONCLUSIVE, Reason.MISSING, f"this {thing} is missing from the new result"))


def _draft_leg(pair: LegPair, case_id: str, questions: _Questions) -> _LegDraft:
    base, new = pair
    if base is None or new is None:
        leg = new or base
        assert leg is not None
        return _one_sided(leg.name, "direction", added=base is None)
    trouble = _trouble(base, new)
    if trouble is not None:
        return _LegDraft(new.name, trouble)
    differences = tuple(exact_differences(base.figures, new.figures))
    draft = _LegDraft(new.name, None, len(base.figures | new.figures), differences)
    _ask_about_times(draft, base, new, case_id, questions)
    return draft


def _trouble(base: ComparableLeg, new: ComparableLeg) -> tuple[Verdict, Reason, str] | None:
    """What makes a comparison of figures pointless. Wrong bytes count also where they were wrong before."""
    if new.trouble is not None:
        reason, words = new.trouble
        if reason is Reason.MISSING:
            return Verdict.INCONCLUSIVE, reason, words
        known = reason is Reason.REFUSED_COPY and base.trouble is not None
        return (Verdict.INCONCLUSIVE, Reason.BASE_UNUSABLE, words) if known else (Verdict.REGRESSED, reason, words)
    if base.trouble is not None:
        return Verdict.INCONCLUSIVE, Reason.BASE_UNUSABLE, f"base: {base.trouble[1]}"
    return None


def _ask_about_times(
    draft: _LegDraft, base: ComparableLeg, new: ComparableLeg, case_id: str, questions: _Questions
) -> None:
    if not base.samples and not new.samples:
        draft.fixed = (Verdict.PASSED, Reason.EXACT_FIGURES_EQUAL, None) if not draft.differences else None
        return
    rule = rule_for(case_id, questions.rules)
    if rule is None:
        draft.fixed = (Verdict.PASSED, Reason.NOT_GATED, None)
        return
    path = path_difference(base, new)
    refusal = questions.refusal or (f"not comparable: {path}" if path else None)
    if refusal is not None:
        draft.fixed = (Verdict.INCONCLUSIVE, Reason.TIMES_NOT_COMPARABLE, refusal)
        return
    question = LegQuestion(f"{case_id} {new.name}", rule.metric, rule.threshold)
    draft.question = questions.ask(question, base, new)


_ABSENT = ExactFigure(None, 0)


def exact_differences(base: Mapping[str, ExactFigure], new: Mapping[str, ExactFigure]) -> list[ExactDifference]:
    """All figures that are not equal; one that is absent on a side counts as none of what can be bad."""
    found = []
    for name in {**base, **new}:
        old, young = base.get(name, _ABSENT), new.get(name, _ABSENT)
        verdict = _exact_change(old, young)
        if verdict is not None:
            found.append(ExactDifference(figure=name, base=old.value, new=young.value, verdict=verdict))
    return found


def _exact_change(old: ExactFigure, young: ExactFigure) -> Verdict | None:
    if old.value == young.value:
        return None
    if old.badness is None or young.badness is None:
        return Verdict.REGRESSED
    if old.badness == young.badness:
        return None
    return Verdict.REGRESSED if young.badness > old.badness else Verdict.IMPROVED
