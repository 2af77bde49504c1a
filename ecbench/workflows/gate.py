"""``ecbench gate``: round trips -> a comparison with a stored baseline -> an exit code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from ecbench.core.comparison_records import ComparisonResult, LegComparison, Reason, Verdict
from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.core.records import LegStatus, RoundTripResult, to_json
from ecbench.measure.rounds import WARM_UP_ROUNDS
from ecbench.report.files import refuse_unwritable, write_atomically
from ecbench.report.loading import load_round_trip
from ecbench.workflows.baseline_cases import options_for
from ecbench.workflows.comparable import comparable
from ecbench.workflows.comparison import compare_results
from ecbench.workflows.process_rounds import merge_processes, run_in_fresh_process
from ecbench.workflows.round_trip import RoundTripOptions, prepare_round_trip, run_round_trip
from ecbench.workflows.round_trip import exit_code_of as round_trip_exit_code
from ecbench.workflows.timing_rules import GateConfig, OnInconclusive, read_gate_config, rule_for

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.core.records import RunResult
    from ecbench.measure.stages import StageClock
    from ecbench.workflows.comparable import ComparableResult
    from ecbench.workflows.round_trip import RoundReport, RoundTrip

KIND = "gate"
DEFAULT_PROCESSES = 10
"""Process rounds of a new baseline: at 10, one unchanged case in 12 is inconclusive; at 5, one in 6
(benchmarks/gate_simulation.py)."""
MAX_PROCESSES = 1000


@dataclass(frozen=True)
class GateOptions:
    """What a user can ask of a gate.

    Args:
        round_trip: What to run.
        baseline: File with the result to compare with.
        config: A ``gate.toml``; None gates all times at the default threshold.
        processes: Process rounds; None takes as many as the baseline has.
        strict: Exit 5 where something is inconclusive.
    """

    round_trip: RoundTripOptions
    baseline: Path
    config: Path | None = None
    processes: int | None = None
    strict: bool = False


@dataclass(frozen=True, eq=False)
class Gate:
    """A gate whose every file was read; nothing was run yet.

    Args:
        options: What the user asked for.
        config: Timing rules.
        baseline: None where one is to be written.
        processes: Process rounds to run.
    """

    options: GateOptions
    config: GateConfig
    baseline: RunResult[Any] | None
    processes: int


@dataclass(frozen=True, eq=False)
class RoundTripGate(Gate):
    """A gate on round trips whose memory fits.

    Args:
        round_trip: The run.
    """

    round_trip: RoundTrip


def prepare_gate(options: GateOptions) -> RoundTripGate:
    """Reads the baseline and the configuration, and prepares the run.

    Raises:
        EcbenchError: A bad name, scenario, size or configuration (exit 2), something that is not available here
            (exit 3), or a baseline that cannot be read (exit 4).
        ScenarioError: No scenario is named, and it does not follow from the baseline which ones it is of.
    """
    config = read_gate_config(options.config) if options.config is not None else GateConfig()
    baseline = load_round_trip(options.baseline)
    options = replace(options, round_trip=options_for(baseline, str(options.baseline), options.round_trip))
    round_trip = prepare_round_trip(options.round_trip)
    asked, known = ([case.case_id for case in round_trip.cases], [case.case_id for case in baseline.cases])
    config.refuse_idle_globs({*asked, *known})
    return RoundTripGate(options, config, baseline, options.processes or processes_of(baseline), round_trip)


def prepare_update(options: GateOptions) -> RoundTripGate:
    """Prepares a run whose result becomes the baseline.

    Raises:
        EcbenchError: As `prepare_gate`, or the baseline cannot be written.
    """
    config = read_gate_config(options.config) if options.config is not None else GateConfig()
    refuse_unwritable(options.baseline.parent)
    round_trip = prepare_round_trip(options.round_trip)
    config.refuse_idle_globs({case.case_id for case in round_trip.cases})
    return RoundTripGate(options, config, None, options.processes or DEFAULT_PROCESSES, round_trip)


def processes_of(result: RoundTripResult) -> int:
    """Most processes that any leg of a result has samples of; at least 1."""
    counts = [len({sample.process for sample in leg.samples}) for case in result.cases for leg in case.legs]
    return max((1, *counts))


def run_processes(gate: RoundTripGate, clock: StageClock, report_round: RoundReport) -> RoundTripResult:
    """Runs the round trips: one process round here, several in fresh processes.

    Returns:
        The run; where Ctrl-C ended it, it is incomplete and holds the process rounds that were finished.

    Raises:
        EcbenchError: A process round failed.
        KeyboardInterrupt: The first one was interrupted.
    """
    if gate.processes == 1:
        return run_round_trip(gate.round_trip, clock, report_round)
    rounds = max(case.scenario.rounds for case in gate.round_trip.cases) + WARM_UP_ROUNDS
    results: list[RoundTripResult] = []
    try:
        for process in range(gate.processes):
            report_round(f"process {process + 1} of {gate.processes}", 1, rounds)
            results.append(run_in_fresh_process(gate.options.round_trip))
            if round_trip_exit_code(results[-1]) is not ExitCode.OK:
                break
    except KeyboardInterrupt:
        if not results:
            raise
        return msgspec.structs.replace(merge_processes(results), complete=False)
    return merge_processes(results)


def judge_run(gate: RoundTripGate, run: RoundTripResult) -> ComparisonResult:
    """Compares a run with the gate's baseline.

    Raises:
        DataError: They cannot be compared, or a statistic failed.
    """
    assert gate.baseline is not None
    return judge_results(gate, comparable(gate.baseline), comparable(run), ended_by=run.ended_by)


def judge_results(
    gate: Gate, base: ComparableResult, new: ComparableResult, *, ended_by: str | None
) -> ComparisonResult:
    """Compares what a gate has run.

    Args:
        gate: Its rules count.
        base: The baseline.
        new: The run.
        ended_by: What ended the run early; None where nothing did.

    Raises:
        DataError: They cannot be compared, or a statistic failed.
    """
    options = gate.options
    compared = compare_results(
        base,
        new,
        kind=KIND,
        rules=gate.config.timing,
        under_test=gate.config.under_test,
        settings={
            "baseline": str(options.baseline),
            "config": str(options.config) if options.config is not None else None,
            "processes": gate.processes,
            "strict": options.strict,
        },
    )
    return msgspec.structs.replace(compared, ended_by=ended_by)


def write_baseline(gate: RoundTripGate, run: RoundTripResult) -> None:
    """Makes a run the baseline.

    Raises:
        EcbenchError: The run has wrong bytes or errors, or was interrupted; or the file cannot be written.
    """
    if not run.complete:
        raise EcbenchError(f"{gate.options.baseline}: not written: the run was interrupted; run it again")
    for case in run.cases:
        for leg in case.legs:
            if leg.status is not LegStatus.PASSED:
                raise NoBaselineError(
                    f"{gate.options.baseline}: not written: {case.case_id} {leg.direction} {leg.status} "
                    f"({leg.reason}): a baseline has right bytes only"
                )
    write_atomically(gate.options.baseline, to_json(run))


class NoBaselineError(EcbenchError):
    """A run that is no baseline, because bytes are wrong."""

    exit_code = ExitCode.CHECK_FAILED


def exit_code_of(gate: Gate, result: ComparisonResult) -> ExitCode:
    """The exit code a gate's comparison calls for."""
    return exit_code_for_verdicts(result, gate.config, strict=gate.options.strict)


def exit_code_for_verdicts(result: ComparisonResult, config: GateConfig, *, strict: bool) -> ExitCode:
    """The exit code that verdicts call for.

    Args:
        result: A comparison.
        config: Says what to do where times are inconclusive.
        strict: Exit 5 where something is inconclusive.
    """
    codes = {_leg_exit_code(leg, case.case_id, config, strict=strict) for case in result.cases for leg in case.legs}
    return next((code for code in (ExitCode.CHECK_FAILED, ExitCode.INCONCLUSIVE) if code in codes), ExitCode.OK)


def _leg_exit_code(leg: LegComparison, case_id: str, config: GateConfig, *, strict: bool) -> ExitCode:
    if leg.verdict is Verdict.REGRESSED:
        return ExitCode.CHECK_FAILED
    if leg.verdict is not Verdict.INCONCLUSIVE:
        return ExitCode.OK
    rule = rule_for(case_id, config.timing)
    policy = rule.on_inconclusive if rule is not None else OnInconclusive.WARN
    # A baseline of another machine has exact gates only: no policy on times turns that into a failure.
    if policy is OnInconclusive.FAIL and leg.reason is not Reason.TIMES_NOT_COMPARABLE:
        return ExitCode.CHECK_FAILED
    if policy is OnInconclusive.IGNORE and leg.times is not None:
        return ExitCode.OK
    return ExitCode.INCONCLUSIVE if strict else ExitCode.OK
