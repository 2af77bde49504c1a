"""``ecbench conformance``: a target -> every check in a process of its own -> one result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.conformance_records import ConformanceCase, ConformanceOutcome, ConformanceResult
from ecbench.core.errors import EcbenchError, ExitCode, UnavailableError
from ecbench.core.records import SCHEMA_VERSION, RunResult
from ecbench.encoder_cache.conformance.definitions import CHECK_LIMIT_S
from ecbench.encoder_cache.conformance.registry import select_checks
from ecbench.engine.machine import describe_environment
from ecbench.engine.registry import open_device
from ecbench.targets.conformance_registry import locate_target
from ecbench.workflows.case_runs import exit_code_for
from ecbench.workflows.conformance_session import OPEN_LIMIT_S, ConformanceSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.encoder_cache.conformance.definitions import Check
    from ecbench.measure.stages import StageClock
    from ecbench.workflows.conformance_messages import Judged, Opened


@dataclass(frozen=True)
class ConformanceOptions:
    """What a user asks for.

    Args:
        target: ``reference``, ``vllm`` or ``module:Class``.
        patterns: Names of checks, or patterns; none asks for all.
        seed: Of content and order.
        limit_s: Time for one check.
        open_limit_s: Time for the target's import.
    """

    target: str = "reference"
    patterns: tuple[str, ...] = ()
    seed: int = 0
    limit_s: float = CHECK_LIMIT_S
    open_limit_s: float = OPEN_LIMIT_S


@dataclass(frozen=True)
class Conformance:
    """A run that is about to start: its options are good.

    Args:
        options: What was asked for.
        checks: What that comes to.
    """

    options: ConformanceOptions
    checks: tuple[Check, ...]


def prepare_conformance(options: ConformanceOptions) -> Conformance:
    """Looks at the options, and imports nothing of the target.

    Raises:
        EcbenchError: No such target or check, or a time that is none.
    """
    locate_target(options.target)
    if options.limit_s <= 0:
        raise EcbenchError(f"limit of {options.limit_s:g} s: give a check some time")
    return Conformance(options, tuple(select_checks(options.patterns)))


def run_conformance(
    prepared: Conformance, clock: StageClock, report_check: Callable[[str, int, int], None]
) -> ConformanceResult:
    """Runs the checks in turn.

    Args:
        prepared: From `prepare_conformance`.
        clock: Takes the time of the target's import and of the checks.
        report_check: Is told the name of each check that ended, how many did, and how many there are.

    Returns:
        The result; incomplete where Ctrl-C or the end of the target's process ended the run.

    Raises:
        EcbenchError: The target is not complete.
        UnavailableError: The target cannot be used here.
    """
    options, started_at = prepared.options, datetime.now(UTC).isoformat(timespec="seconds")
    cases: list[ConformanceCase] = []
    ended_by: str | None = None
    complete = False
    with ConformanceSession(options.target, options.open_limit_s) as session:
        with clock.stage("target"):
            opened = session.wait_until_open()
        # Before the checks: an unknown device must not cost what they find.
        environment = msgspec.structs.replace(
            describe_environment(open_device(opened.device)), stand_ins=opened.stand_ins
        )
        try:
            with clock.stage("checks"):
                for check in prepared.checks:
                    judged = session.run_check(check.name, options.seed, options.limit_s)
                    cases.append(_case(check, judged, opened))
                    report_check(check.name, len(cases), len(prepared.checks))
            complete = True
        except KeyboardInterrupt:
            pass
        except UnavailableError as error:
            ended_by = str(error)
    return RunResult(
        schema_version=SCHEMA_VERSION,
        kind="conformance",
        started_at=started_at,
        environment=environment,
        settings={
            "target": options.target,
            "version": opened.version,
            "checks": list(options.patterns),
            "seed": options.seed,
            "limit_s": options.limit_s,
        },
        cases=cases,
        complete=complete,
        ended_by=ended_by,
        stages_s=clock.seconds_by_stage(),
    )


def _case(check: Check, judged: Judged, opened: Opened) -> ConformanceCase:
    outcome, reason = judged.outcome, judged.reason
    if outcome is ConformanceOutcome.FAILED and check.name in opened.known_differences:
        outcome, reason = ConformanceOutcome.KNOWN_DIFFERENCE, opened.known_differences[check.name]
    passed = outcome is ConformanceOutcome.PASSED
    return ConformanceCase(
        check=check.name,
        behaviour=check.behaviour,
        description=check.description,
        outcome=outcome,
        expected=check.expected,
        happened=judged.happened,
        smallest_input=judged.smallest_input,
        reason=reason,
        inputs=judged.inputs,
        seconds=judged.seconds,
        # Of a check that passed, nobody wants the log.
        output="" if passed else judged.output,
        removed_files=judged.removed_files,
    )


def exit_code_of(result: ConformanceResult) -> ExitCode:
    """The exit code a result calls for: only a failed check fails."""
    return exit_code_for(result, failed=any(case.outcome is ConformanceOutcome.FAILED for case in result.cases))
