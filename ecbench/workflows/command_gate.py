"""``ecbench gate`` on a result of another command than ``roundtrip``: the command again, compared figure by figure."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ecbench.core.comparison_records import Reason
from ecbench.core.errors import DataError, EcbenchError, ExitCode, UnavailableError
from ecbench.core.records import to_json
from ecbench.report.files import refuse_unwritable, write_atomically
from ecbench.report.loading import load_result, stored_kind
from ecbench.workflows.comparable import WHOLE_CASE, comparable
from ecbench.workflows.gate import Gate, NoBaselineError, judge_results
from ecbench.workflows.gate_reruns import RERUNS, arguments_for
from ecbench.workflows.process_rounds import THIS_INSTALLATION, run_command
from ecbench.workflows.round_trip import RoundTripOptions
from ecbench.workflows.timing_rules import GateConfig, read_gate_config

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.core.comparison_records import ComparisonResult
    from ecbench.core.records import RunResult
    from ecbench.workflows.comparable import ComparableResult
    from ecbench.workflows.gate import GateOptions

ROUND_TRIP = "roundtrip"
_WITH_A_RESULT = frozenset({ExitCode.OK, ExitCode.CHECK_FAILED, ExitCode.UNAVAILABLE, ExitCode.INCONCLUSIVE})
"""How a command may end whose result is compared: what it found, or could not find out, is in there."""
_OPTION_NAMES = {"scenarios": "SCENARIO", "host_memory": "--pageable"}
"""Of fields whose option has another name."""


@dataclass(frozen=True, eq=False)
class CommandGate(Gate):
    """A gate that runs the command of its baseline again.

    Args:
        arguments: Its command line, without the program.
    """

    arguments: list[str]


def command_of(baseline: Path) -> str:
    """The command that a gate with this baseline runs.

    Returns:
        The kind of the stored result; `ROUND_TRIP` where none can be read: the round trips say why, or write one.

    Raises:
        DataError: A result that no gate runs again.
    """
    try:
        kind = stored_kind(baseline)
    except DataError:
        return ROUND_TRIP
    if kind != ROUND_TRIP and kind not in RERUNS:
        raise DataError(
            f"{baseline}: a result of {kind!r} is no baseline of a gate: give one of {', '.join((ROUND_TRIP, *RERUNS))}"
        )
    return kind


def prepare_command_gate(options: GateOptions) -> CommandGate:
    """Reads the baseline and the configuration; nothing is run yet.

    Raises:
        EcbenchError: Options of round trips, or a bad configuration (exit 2).
        DataError: A baseline that cannot be read, has no case, or does not hold what it was asked for.
    """
    baseline = load_result(options.baseline)
    _refuse_round_trip_options(options, baseline.kind)
    if not baseline.cases:
        raise DataError(f"{options.baseline}: this result of {baseline.kind} has no case: there is nothing to compare")
    config = read_gate_config(options.config) if options.config is not None else GateConfig()
    config.refuse_idle_globs({case.case_id for case in baseline.cases})
    try:
        arguments = arguments_for(baseline.kind, baseline.settings)
    except DataError as error:
        raise DataError(f"{options.baseline}: {error}") from error
    return CommandGate(options=options, config=config, baseline=baseline, processes=1, arguments=arguments)


def prepare_command_update(options: GateOptions) -> CommandGate:
    """Prepares a run whose result becomes the baseline, with the options of the one that is there.

    Raises:
        EcbenchError: As `prepare_command_gate`, or the baseline cannot be written.
    """
    refuse_unwritable(options.baseline.parent)
    return prepare_command_gate(options)


def _refuse_round_trip_options(options: GateOptions, kind: str) -> None:
    asked, default = options.round_trip, RoundTripOptions()
    changed = [field.name for field in fields(asked) if getattr(asked, field.name) != getattr(default, field.name)]
    given = [_OPTION_NAMES.get(name, f"--{name.replace('_', '-')}") for name in changed]
    if options.processes is not None:
        given.append("--processes")
    if given:
        raise EcbenchError(
            f"{', '.join(given)}: {options.baseline} is a result of {kind}, which runs again with its own options: "
            "leave out those of round trips"
        )


def run_again(gate: CommandGate) -> RunResult[Any]:
    """Runs the baseline's command in a fresh process of this installation.

    Returns:
        Its result; incomplete where a lost device ended it.

    Raises:
        EcbenchError: The command gave no result; in its own words, with the class that fits its exit code.
        KeyboardInterrupt: It was interrupted.
    """
    return run_command(
        [*THIS_INSTALLATION, *gate.arguments],
        load_result,
        what=f"ecbench {gate.arguments[0]}",
        with_a_result=_WITH_A_RESULT,
    )


def judge_again(gate: CommandGate, run: RunResult[Any]) -> ComparisonResult:
    """Compares a run with the gate's baseline.

    Raises:
        DataError: They cannot be compared.
    """
    assert gate.baseline is not None
    base, new = comparable(gate.baseline), comparable(run)
    if len(base.cases) == len(new.cases) == 1:
        base, new = _of_one_thing(base), _of_one_thing(new)
    return judge_results(gate, base, new, ended_by=run.ended_by)


def _of_one_thing(result: ComparableResult) -> ComparableResult:
    """Lets the only case be found under another name, which may hold the versions of what is installed."""
    (case,) = result.cases
    return replace(result, cases=(replace(case, identity=case.identity or {"command": result.kind}),))


def write_again(gate: CommandGate, run: RunResult[Any]) -> None:
    """Makes a run the baseline. Findings, rulings and what cannot be loaded are figures, and may be in it.

    Raises:
        EcbenchError: The run was interrupted, has wrong bytes or refused copies, or could not look at something; or the
            file cannot be written.
    """
    path = gate.options.baseline
    if not run.complete:
        raise EcbenchError(f"{path}: not written: the run was interrupted; run it again")
    for case in comparable(run).cases:
        for leg in case.legs:
            if leg.trouble is None:
                continue
            reason, words = leg.trouble
            if reason is not Reason.MISSING:
                raise NoBaselineError(f"{path}: not written: {case.case_id} {leg.name}: {words}")
            if leg.name == WHOLE_CASE:
                raise UnavailableError(f"{path}: not written: {case.case_id}: {words}")
    write_atomically(path, to_json(run))
