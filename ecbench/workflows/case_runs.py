"""Runs case after case, and makes one result of whatever was finished."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from ecbench.core.errors import ExitCode, UnavailableError
from ecbench.core.records import SCHEMA_VERSION, LegStatus, RunResult
from ecbench.engine.machine import describe_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ecbench.core.protocols import Device
    from ecbench.core.records import Environment, LegResult, Param
    from ecbench.measure.stages import StageClock

C = TypeVar("C")
R = TypeVar("R")
_BAD = frozenset({LegStatus.FAILED, LegStatus.ERROR})


def run_cases(
    cases: Iterable[C],
    run_case: Callable[[C, Environment], R],
    *,
    kind: str,
    device: Device,
    settings: dict[str, Param],
    clock: StageClock,
    targets: Sequence[Installed] = (),
) -> RunResult[R]:
    """Runs cases in turn.

    Args:
        cases: What to run.
        run_case: Runs one of them, given where it runs.
        kind: The command.
        device: What the cases run on.
        settings: What the result keeps of the command line.
        clock: Takes the time of each stage.
        targets: What takes part; asked at the end which parts were replaced.

    Returns:
        The result; where Ctrl-C or a lost device ended the run, it is incomplete and holds the finished cases.
    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    environment = describe_environment(device)
    finished: list[R] = []
    complete = False
    ended_by: str | None = None
    try:
        # One by one, so that Ctrl-C keeps those that were finished.
        finished.extend(run_case(case, environment) for case in cases)
        complete = True
    except KeyboardInterrupt:
        pass
    except (UnavailableError, RuntimeError) as error:
        ended_by = explain_device_failure(error, device)
    return RunResult(
        schema_version=SCHEMA_VERSION,
        kind=kind,
        started_at=started_at,
        # Asked again: a driver that refused to pin memory did so while a case ran, and targets replace parts as needed.
        environment=with_targets(msgspec.structs.replace(environment, pinning=device.pinning), targets),
        settings=settings,
        cases=finished,
        complete=complete,
        ended_by=ended_by,
        stages_s=clock.seconds_by_stage(),
    )


class Installed(Protocol):
    """A target, or a scheduler, that is installed beside ecbench."""

    @property
    def name(self) -> str:
        """Registered name."""

    @property
    def version(self) -> str | None:
        """Version of what is installed; None where it is ecbench's own."""

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Its parts that are replaced here, in words."""


def with_targets(environment: Environment, targets: Sequence[Installed]) -> Environment:
    """Says in an environment what took part beside ecbench, and what stood in for parts of it."""
    versions = {target.name: target.version for target in targets}
    stand_ins = [name for target in targets for name in target.stand_ins]
    return msgspec.structs.replace(environment, stand_ins=stand_ins, vllm=versions.get("vllm"))


def explain_device_failure(error: Exception, device: Device) -> str:
    """Says what became of the device; an error of another kind is raised again."""
    explained = device.explain(error) if isinstance(error, RuntimeError) else error
    if explained is None:
        raise error
    return str(explained)


def went_wrong(leg: LegResult) -> bool:
    """Wrong bytes, or a copy that was refused."""
    return leg.status in _BAD


def exit_code_for(result: RunResult[Any], *, failed: bool) -> ExitCode:
    """The exit code of a run.

    Args:
        result: The run; how it ended counts more than what it found.
        failed: A check failed.
    """
    if result.ended_by is not None:
        return ExitCode.UNAVAILABLE
    if not result.complete:
        return ExitCode.INTERRUPTED
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK
