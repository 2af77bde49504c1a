"""``ecbench ab``: two installations -> pairs of process rounds in ABBA order -> verdicts, up to a budget."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.core.shares import parse_share
from ecbench.stats.alpha_spending import LookSchedule
from ecbench.stats.pairing import PAIRING_SETTING, Side
from ecbench.stats.verdicts import DEFAULT_THRESHOLD, judge
from ecbench.workflows.ab_looks import Looks
from ecbench.workflows.ab_pairs import Pairs, SideCommand, ask_both, naming
from ecbench.workflows.ab_sides import command_of, refuse_other_differences, things_under_test
from ecbench.workflows.case_runs import exit_code_for
from ecbench.workflows.comparable import comparable
from ecbench.workflows.comparison import compare_results
from ecbench.workflows.gate import exit_code_for_verdicts
from ecbench.workflows.timing_rules import GateConfig, TimingRule, read_gate_config
from ecbench.workflows.workloads import default_scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ecbench.core.comparison_records import ComparisonResult
    from ecbench.core.errors import ExitCode
    from ecbench.core.records import Param, RoundTripResult
    from ecbench.workflows.ab_pairs import ProcessReport
    from ecbench.workflows.comparison import TimesJudge
    from ecbench.workflows.round_trip import RoundTripOptions

KIND = "ab"
DEFAULT_BUDGET = 16
"""Pairs: they find a slowdown of 10% in one case of six in nine runs of ten (benchmarks/gate_simulation.py)."""
_SAME_VERSIONS = "Nothing that ecbench records differs between the sides: this compares the same versions."


@dataclass(frozen=True)
class AbOptions:
    """What a user can ask of a comparison of two installations.

    Args:
        base: Starts the old ecbench: an interpreter, a venv or a command line.
        new: Starts the new one.
        round_trip: What both run.
        budget: Most pairs of process rounds.
        threshold: Accepted slowdown of all times, like "5%"; None leaves it to the configuration.
        config: A ``gate.toml``; None gates all times at the threshold.
        strict: Exit 5 where something is inconclusive.
    """

    base: str
    new: str
    round_trip: RoundTripOptions
    budget: int = DEFAULT_BUDGET
    threshold: str | float | None = None
    config: Path | None = None
    strict: bool = False


@dataclass(frozen=True, eq=False)
class Ab:
    """A comparison whose options were read; neither side was started yet.

    Args:
        options: What the user asked for.
        sides: How either installation is started.
        round_trip: What both run, with every scenario named.
        config: Timing rules.
        schedule: After how many pairs there are looks.
    """

    options: AbOptions
    sides: Mapping[Side, SideCommand]
    round_trip: RoundTripOptions
    config: GateConfig
    schedule: LookSchedule


@dataclass(frozen=True)
class AbOutcome:
    """What came out.

    Args:
        comparison: The verdicts.
        base: The process rounds of the old side that were paired, as one result.
        new: Those of the new side.
    """

    comparison: ComparisonResult
    base: RoundTripResult
    new: RoundTripResult


def prepare_ab(options: AbOptions) -> Ab:
    """Reads commands and configuration, and fixes the looks.

    Raises:
        EcbenchError: A bad command, threshold, budget or configuration (exit 2), or a folder without an interpreter
            (exit 3).
    """
    sides = {side: _side(side, text) for side, text in zip(Side, (options.base, options.new), strict=True)}
    asked = options.round_trip
    # The other installation may have another default set, and cases can be shuffled only by name.
    named = replace(asked, scenarios=asked.scenarios or default_scenarios(asked.workload, asked.model))
    return Ab(options, sides, named, _config(options), LookSchedule.up_to(options.budget))


def _side(side: Side, text: str) -> SideCommand:
    with naming(side, text):
        return SideCommand(side, text, command_of(text))


def _config(options: AbOptions) -> GateConfig:
    if options.config is None:
        threshold = DEFAULT_THRESHOLD if options.threshold is None else parse_share(options.threshold)
        return GateConfig(timing=(TimingRule(threshold=threshold),))
    if options.threshold is not None:
        raise EcbenchError(
            f"--threshold {options.threshold}: {options.config} names thresholds too: give one of the two"
        )
    return read_gate_config(options.config)


def run_ab(ab: Ab, report: ProcessReport) -> AbOutcome:
    """Asks both sides, then runs pairs until every leg is decided or the budget is used up.

    Args:
        ab: From `prepare_ab`.
        report: Told before each process.

    Returns:
        The verdicts; where Ctrl-C or a process that failed ended the run, incomplete and of the pairs that were
        finished.

    Raises:
        EcbenchError: A side that is no ecbench, lacks something or cannot be read (it is named), or a process that
            failed before a pair was finished.
        DataError: The sides differ in more than their software, or run other workloads.
        KeyboardInterrupt: Interrupted before a pair was finished.
    """
    asked = ask_both(ab.sides, ab.round_trip, ab.schedule, report)
    session = _open_session(ab, asked)
    first = session.outcome(asked)
    if asked.have_wrong_bytes or not _has_times(first.comparison):
        return _with_note(first, "No pairs were run: no times can be compared.")
    return _run_pairs(session, Pairs(ab.sides, ab.round_trip, ab.schedule), report)


def _has_times(comparison: ComparisonResult) -> bool:
    return any(leg.times is not None for case in comparison.cases for leg in case.legs)


def _with_note(outcome: AbOutcome, note: str) -> AbOutcome:
    notes = [*outcome.comparison.notes, note]
    return replace(outcome, comparison=msgspec.structs.replace(outcome.comparison, notes=notes))


@dataclass(frozen=True, eq=False)
class _Session:
    """What stays the same from look to look.

    Args:
        ab: What the user asked for.
        under_test: What differs between the installations.
        pairing: Tells that two results were run in turn.
    """

    ab: Ab
    under_test: tuple[str, ...]
    pairing: str

    def outcome(self, pairs: Pairs, judge_times: TimesJudge = judge) -> AbOutcome:
        """Compares all pairs that are finished."""
        base, new = (pairs.merged(side, {PAIRING_SETTING: self.pairing}) for side in Side)
        comparison = compare_results(
            comparable(base),
            comparable(new),
            kind=KIND,
            rules=self.ab.config.timing,
            under_test=self.under_test,
            settings=self._settings(pairs),
            judge_times=judge_times,
        )
        outcome = AbOutcome(comparison, base, new)
        return outcome if comparison.differences else _with_note(outcome, _SAME_VERSIONS)

    def _settings(self, pairs: Pairs) -> dict[str, Param]:
        options, asked = self.ab.options, self.ab.round_trip
        return {
            "base": options.base,
            "new": options.new,
            "scenarios": list(asked.scenarios),
            "device": asked.device,
            "model": asked.model,
            "target": asked.target,
            "engine": asked.engine,
            "writer": asked.writer,
            "rounds": asked.rounds,
            "seed": asked.seed,
            "config": self.ab.config.where,
            "budget": pairs.budget,
            "looks": list(pairs.schedule.rounds),
            "pairs": pairs.count,
            "strict": options.strict,
        }


def _open_session(ab: Ab, asked: Pairs) -> _Session:
    """Finds out what is under test, and refuses what cannot be compared.

    Raises:
        DataError: The sides differ in more than their software.
        ScenarioError: A glob of the configuration names no case.
    """
    base, new = (asked.finished[side][0] for side in Side)
    under_test = things_under_test(base.environment, new.environment, ab.config.under_test)
    refuse_other_differences(base.environment, new.environment, under_test)
    ab.config.refuse_idle_globs({case.case_id for result in (base, new) for case in result.cases})
    return _Session(ab, under_test, f"{KIND}-{uuid.uuid4().hex}")


def _run_pairs(session: _Session, pairs: Pairs, report: ProcessReport) -> AbOutcome:
    looks = Looks(pairs.schedule)
    outcome, seen = None, 0
    while (wanted := looks.next_rounds) is not None:
        ended = _run_until(pairs, wanted, report)
        if outcome is None or pairs.count > seen:
            outcome, seen = session.outcome(pairs, looks.judge), pairs.count
        if ended is not None:
            return _unfinished(outcome, ended, pairs)
        if pairs.have_wrong_bytes or not _has_times(outcome.comparison):
            break
    assert outcome is not None
    return _with_note(outcome, f"Pairs run: {pairs.count} of at most {pairs.budget}.")


def _run_until(pairs: Pairs, wanted: int, report: ProcessReport) -> BaseException | None:
    """Runs on, and says what ended it early; without a finished pair there is nothing to save, and it is raised."""
    try:
        pairs.run_until(wanted, report)
    except (EcbenchError, KeyboardInterrupt) as error:
        if pairs.count == 0:
            raise
        return error
    return None


def _unfinished(outcome: AbOutcome, ended: BaseException, pairs: Pairs) -> AbOutcome:
    ended_by = str(ended) if isinstance(ended, EcbenchError) else None
    noted = _with_note(
        outcome, f"Pairs run: {pairs.count} of at most {pairs.budget}; then {ended_by or 'interrupted'}."
    )
    comparison = msgspec.structs.replace(noted.comparison, complete=False, ended_by=ended_by)
    return replace(noted, comparison=comparison)


def exit_code_of(ab: Ab, result: ComparisonResult) -> ExitCode:
    """The exit code that a comparison of two installations calls for; how it ended counts more than what it found."""
    if not result.complete:
        return exit_code_for(result, failed=False)
    return exit_code_for_verdicts(result, ab.config, strict=ab.options.strict)
