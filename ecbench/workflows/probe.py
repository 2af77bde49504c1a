"""``ecbench probe-ptr-overflow``: torch and NumPy -> findings -> rulings -> one result."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING

from ecbench.core.errors import ExitCode, UnavailableError
from ecbench.core.probe_records import ProbeCase, ProbeResult
from ecbench.core.records import SCHEMA_VERSION, Param, RunResult
from ecbench.engine.machine import describe_environment
from ecbench.engine.registry import open_device
from ecbench.pointers.environments import (
    Progress,
    Versions,
    choose_installer,
    environments_folder,
    find_python,
    prepare_environment,
    probe_with,
)
from ecbench.pointers.probe import probe
from ecbench.pointers.rulings import FailOn, case_id, judge_document, must_fail, read_document

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.measure.stages import StageClock
    from ecbench.pointers.environments import Installer

KIND = "probe-ptr-overflow"


@dataclass(frozen=True)
class ProbeOptions:
    """What a user can ask of a probe; where nothing is named, the torch and NumPy of this process are probed.

    Args:
        torch: Versions to install, each with each of ``numpy``.
        numpy: Versions to install, each with each of ``torch``.
        pythons: Existing interpreters, or environments' folders.
        details: Also run what takes seconds: compiled graphs and Triton.
        folder: Where environments are kept; None for the user's cache folder.
        installer: Makes environments; None for uv where it is installed, else venv and pip.
    """

    torch: tuple[str, ...] = ()
    numpy: tuple[str, ...] = ()
    pythons: tuple[Path, ...] = ()
    details: bool = False
    folder: Path | None = None
    installer: Installer | None = None


@dataclass(frozen=True)
class PreparedProbe:
    """A probe whose every version and interpreter was checked; nothing is installed yet."""

    options: ProbeOptions
    versions: tuple[Versions, ...]
    pythons: tuple[Path, ...]


def prepare_probe(options: ProbeOptions) -> PreparedProbe:
    """Checks what was asked for.

    Raises:
        EcbenchError: A version that is none (exit 2), or an interpreter that is not there (exit 3).
    """
    return PreparedProbe(options, _versions(options), tuple(find_python(path) for path in options.pythons))


def _versions(options: ProbeOptions) -> tuple[Versions, ...]:
    """Pairs the versions; where only one library is named, the other stays as it is in this process."""
    if not options.torch and not options.numpy:
        return ()
    torches = options.torch or (_released("torch"),)
    numpies = options.numpy or (_released("numpy"),)
    pairs = [Versions(torch, numpy) for torch in torches for numpy in numpies]
    return tuple(dict.fromkeys(pairs))


def _released(package: str) -> str:
    """The installed version without a build's local part, as the package index names it."""
    return installed_version(package).partition("+")[0]


def run_probe(prepared: PreparedProbe, clock: StageClock, progress: Progress) -> ProbeResult:
    """Probes everything that was asked for.

    Args:
        prepared: From `prepare_probe`.
        clock: Takes the time of each stage.
        progress: Told what happens now.

    Returns:
        The result; where Ctrl-C ended the run, it is marked incomplete and holds the finished cases.
    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    environment = describe_environment(open_device("cpu"))
    cases: list[ProbeCase] = []
    complete = False
    try:
        if not prepared.versions and not prepared.pythons:
            cases.append(_probe_here(prepared.options, clock))
        # One append each: what is finished when Ctrl-C comes is kept.
        for versions in prepared.versions:
            cases.append(_probe_versions(versions, prepared.options, clock, progress))  # noqa: PERF401
        for python in prepared.pythons:
            cases.append(_probe_python(python, prepared.options, clock, progress))  # noqa: PERF401
        complete = True
    except KeyboardInterrupt:
        pass
    return RunResult(
        schema_version=SCHEMA_VERSION,
        kind=KIND,
        started_at=started_at,
        environment=environment,
        settings=_settings(prepared),
        cases=cases,
        complete=complete,
        stages_s=clock.seconds_by_stage(),
    )


def _settings(prepared: PreparedProbe) -> dict[str, Param]:
    return {
        "torch": list(prepared.options.torch),
        "numpy": list(prepared.options.numpy),
        "python": [str(path) for path in prepared.options.pythons],
        "pythons": len(prepared.pythons),
        "details": prepared.options.details,
    }


def _probe_here(options: ProbeOptions, clock: StageClock) -> ProbeCase:
    import numpy  # noqa: PLC0415, ICN001 - the modules themselves are under test
    import torch  # noqa: PLC0415 - as above

    with clock.stage("probe"):
        document = probe(torch, numpy, details=options.details)
    return judge_document(read_document(document))


def _probe_versions(versions: Versions, options: ProbeOptions, clock: StageClock, progress: Progress) -> ProbeCase:
    folder = options.folder or environments_folder()
    try:
        with clock.stage("environments"):
            python = prepare_environment(versions, folder, options.installer or choose_installer(), progress)
        return _probe_in(python, str(versions), options, clock, progress)
    except UnavailableError as error:
        params: dict[str, Param] = {
            "torch": versions.torch,
            "numpy": versions.numpy,
            "python": platform.python_version(),
        }
        return ProbeCase(case_id=case_id(versions.torch, versions.numpy), params=params, reason=str(error))


def _probe_python(python: Path, options: ProbeOptions, clock: StageClock, progress: Progress) -> ProbeCase:
    try:
        return _probe_in(python, str(python), options, clock, progress)
    except UnavailableError as error:
        return ProbeCase(case_id=f"python-{python}", params={"interpreter": str(python)}, reason=str(error))


def _probe_in(python: Path, name: str, options: ProbeOptions, clock: StageClock, progress: Progress) -> ProbeCase:
    progress(f"{name}: probing")
    with clock.stage("probe"):
        return judge_document(read_document(probe_with(python, details=options.details)))


def exit_code_of(result: ProbeResult, fail_on: FailOn) -> ExitCode:
    """Decides the exit code: a failed check counts more than a version that could not be probed."""
    if not result.complete:
        return ExitCode.INTERRUPTED
    if any(must_fail(case, fail_on) for case in result.cases):
        return ExitCode.CHECK_FAILED
    return ExitCode.UNAVAILABLE if any(case.reason is not None for case in result.cases) else ExitCode.OK
