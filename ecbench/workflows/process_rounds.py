"""Process rounds: the same round trips in fresh processes, one after the other, and their results as one.

What a process happens to get (addresses, page colours, a neighbour on the core) stays with it for all of its rounds, so
only rounds of several processes tell how much two runs differ by chance.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ecbench.core.errors import DataError, ExitCode, UnavailableError, error_class_of
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.records import LegStatus
from ecbench.measure.verification import combine_rounds
from ecbench.report.loading import load_round_trip
from ecbench.stats.summary import with_figures
from ecbench.targets.registry import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ecbench.core.records import CaseResult, LegResult, RoundTripResult
    from ecbench.workflows.round_trip import RoundTripOptions

R = TypeVar("R")
THIS_INSTALLATION = (sys.executable, "-m", "ecbench")
"""The command of the ecbench that runs."""
_MADE_FOR_A_STEP = frozenset({"GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"})
"""Variables that make a command report to the CI step it runs in: only the whole does, not each of its processes."""
_WITH_A_RESULT = frozenset({ExitCode.OK, ExitCode.CHECK_FAILED})
_STATUS_ORDER = (LegStatus.PASSED, LegStatus.SKIPPED, LegStatus.ERROR, LegStatus.FAILED)


def run_in_fresh_process(options: RoundTripOptions, command: Sequence[str] = THIS_INSTALLATION) -> RoundTripResult:
    """Runs round trips in a process of their own.

    Args:
        options: What to run.
        command: Starts an ecbench, of this or another installation.

    Raises:
        EcbenchError: What the process said, with the class that fits its exit code.
        KeyboardInterrupt: The process was interrupted.
    """
    return run_command(
        [*command, *arguments_of(options)], load_round_trip, what="a process round", with_a_result=_WITH_A_RESULT
    )


def run_command(
    arguments: Sequence[str], load: Callable[[Path], R], *, what: str, with_a_result: Collection[ExitCode]
) -> R:
    """Runs any command that writes its result with ``--json`` in a process of its own.

    Args:
        arguments: The whole command line, but where results and reports go.
        load: Reads the result.
        what: Names the run in messages.
        with_a_result: Exit codes that leave a result to be read.

    Raises:
        EcbenchError: What the process said, with the class that fits its exit code.
        KeyboardInterrupt: The process was interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="ecbench-process-") as folder:
        result_path = Path(folder) / "result.json"
        finished = _finish([*arguments, "--json", str(result_path), "--out", folder, "--quiet"])
        if finished.returncode not in with_a_result or not result_path.exists():
            raise _failure(finished, what)
        try:
            return load(result_path)
        except DataError as error:
            # The file is gone when this is read.
            raise DataError(f"the result of {what}: {str(error).removeprefix(f'{result_path}: ')}") from error


def ask_version(command: Sequence[str]) -> str:
    """Asks an ecbench for its version.

    Args:
        command: Starts an ecbench, of this or another installation.

    Returns:
        What it calls itself, such as ``0.1.0``.

    Raises:
        UnavailableError: The command cannot be started, or is no ecbench.
    """
    finished = _finish([*command, "--version"])
    name, _, version = finished.stdout.strip().partition(" ")
    if finished.returncode != ExitCode.OK or name != "ecbench" or "\n" in version:
        raise UnavailableError(f"is no ecbench ({_last_words(finished)}): name an interpreter or a venv that has it")
    return version


def _finish(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _MADE_FOR_A_STEP}
    try:
        return subprocess.run(  # noqa: S603 - a command that the user named, or our own
            arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment
        )
    except OSError as error:
        raise UnavailableError(
            f"{arguments[0]}: cannot be started ({error.strerror}): name an interpreter that has ecbench"
        ) from error


def arguments_of(options: RoundTripOptions) -> list[str]:
    """The command line of ``ecbench`` that asks for the same round trips."""
    arguments = ["roundtrip", *options.scenarios, "--device", options.device, "--workload", options.workload]
    arguments += ["--engine", options.engine, "--writer", options.writer, "--seed", str(options.seed)]
    arguments.append("--pinned" if options.host_memory is HostMemoryKind.PINNED else "--pageable")
    for name, value in (
        # The reference is not named: an older ecbench has nothing else, and does not know the option.
        ("--target", options.target if options.target != REFERENCE else None),
        ("--model", options.model),
        ("--rounds", options.rounds),
        ("--memory-limit", options.memory_limit_bytes),
    ):
        if value is not None:
            arguments += [name, str(value)]
    if options.coalesce is not None:
        arguments.append("--coalesce" if options.coalesce else "--no-coalesce")
    return arguments


def _failure(finished: subprocess.CompletedProcess[str], what: str) -> BaseException:
    if finished.returncode == ExitCode.INTERRUPTED:
        return KeyboardInterrupt()
    return error_class_of(finished.returncode)(f"{what} failed: {_last_words(finished)}")


def _last_words(finished: subprocess.CompletedProcess[str]) -> str:
    lines = [line.removeprefix("ecbench: ") for line in finished.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with {finished.returncode} and said nothing"


def merge_processes(results: Sequence[RoundTripResult]) -> RoundTripResult:
    """One result of several processes.

    Args:
        results: Of the same cases, in the order in which they were run; at least one.

    Returns:
        The first result with the samples of all; processes are numbered from 0. A leg that went wrong anywhere is
        wrong.
    """
    first = results[0]
    cases = [_merge_cases([_case_of(result, case.case_id) for result in results]) for case in first.cases]
    ended = next((result.ended_by for result in results if result.ended_by), None)
    complete = all(result.complete for result in results)
    stages = {name: sum(result.stages_s.get(name, 0.0) for result in results) for name in first.stages_s}
    return msgspec.structs.replace(first, cases=cases, complete=complete, ended_by=ended, stages_s=stages)


def _case_of(result: RoundTripResult, case_id: str) -> CaseResult:
    found = next((case for case in result.cases if case.case_id == case_id), None)
    if found is None:
        raise DataError(f"case {case_id} is missing from a process round: run it again")
    return found


def _merge_cases(cases: Sequence[CaseResult]) -> CaseResult:
    legs = [_merge_legs(legs) for legs in zip(*(case.legs for case in cases), strict=True)]
    return msgspec.structs.replace(cases[0], legs=legs)


def _merge_legs(legs: Sequence[LegResult]) -> LegResult:
    worst = max(legs, key=lambda leg: _STATUS_ORDER.index(leg.status))
    samples = [
        msgspec.structs.replace(sample, process=process) for process, leg in enumerate(legs) for sample in leg.samples
    ]
    verdicts = [leg.verify for leg in legs if leg.verify is not None]
    notes = list(dict.fromkeys(note for leg in legs for note in leg.notes))
    verify = combine_rounds(verdicts) if verdicts else None
    return with_figures(msgspec.structs.replace(worst, samples=samples, verify=verify, notes=notes))
