"""``scan-ptrs`` from the sources to the result."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from time import perf_counter
from typing import TYPE_CHECKING

import psutil

from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.core.records import SCHEMA_VERSION, Environment, RunResult
from ecbench.core.scan_records import FailOn, ScanCase, ScanRule, Severity
from ecbench.engine.host_facts import host_cpu_name, last_level_cache_bytes
from ecbench.pointers.scanner.baseline import read_baseline, write_baseline
from ecbench.pointers.scanner.rules import RULES
from ecbench.pointers.scanner.sources import package_folder, python_files, scan_files
from ecbench.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.core.records import Param
    from ecbench.core.scan_records import Finding, ScanResult
    from ecbench.pointers.scanner.sources import ScannedFile

KIND = "scan-ptrs"
NO_DEVICE = "none"
"""Device of a result for which nothing ran: sources are only read."""


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """What to scan and what counts.

    Args:
        path: A file or folder; None where a package is given.
        package: Name of an installed package; None where a path is given.
        fail_on: From which severity on a finding fails the scan.
        baseline: File of findings that do not count.
        write_baseline: Where to write a baseline of all findings.
        strict: Files that cannot be parsed leave the outcome open.
    """

    path: Path | None = None
    package: str | None = None
    fail_on: FailOn = FailOn.CRASH
    baseline: Path | None = None
    write_baseline: Path | None = None
    strict: bool = False


def run_scan(options: ScanOptions) -> ScanResult:
    """Scans sources and sets aside what comments or a baseline accept.

    Raises:
        EcbenchError: Nothing to scan, or a baseline that cannot be written.
        DataError: A baseline that cannot be read.
    """
    started_at, start_s = datetime.now(UTC), perf_counter()
    root = _root(options)
    known = read_baseline(options.baseline) if options.baseline is not None else frozenset()
    files = python_files(root)
    listed_s = perf_counter()
    scanned = scan_files(files)
    scanned_s = perf_counter()
    findings = [finding for file in scanned for finding in file.findings]
    if options.write_baseline is not None:
        write_baseline(findings, options.write_baseline)
        known |= {finding.identity for finding in findings}
    return RunResult(
        schema_version=SCHEMA_VERSION,
        kind=KIND,
        started_at=started_at.isoformat(timespec="seconds"),
        environment=_environment(),
        settings=_settings(options),
        cases=[_case(root, scanned, findings, known)],
        stages_s={"list files": listed_s - start_s, "scan": scanned_s - listed_s},
    )


def exit_code_of(result: ScanResult, options: ScanOptions) -> ExitCode:
    """Whether the scan passes.

    Args:
        result: The scan.
        options: What counts.

    Returns:
        ``CHECK_FAILED`` for a finding of at least ``options.fail_on``, else ``INCONCLUSIVE`` where a file could not be
        parsed and ``options.strict`` asks for it, else ``OK``.
    """
    if options.fail_on is not FailOn.NEVER:
        least = Severity(options.fail_on.value).rank
        if any(finding.severity.rank >= least for case in result.cases for finding in case.findings):
            return ExitCode.CHECK_FAILED
    if options.strict and any(case.unparsable for case in result.cases):
        return ExitCode.INCONCLUSIVE
    return ExitCode.OK


def _root(options: ScanOptions) -> Path:
    if options.path is not None and options.package is not None:
        raise EcbenchError(f"both a path and --package {options.package!r} are given: give one of them")
    if options.package is not None:
        return package_folder(options.package)
    if options.path is None:
        raise EcbenchError("nothing to scan: give a file, a folder, or --package NAME")
    return options.path


def _case(root: Path, scanned: list[ScannedFile], findings: list[Finding], known: frozenset[str]) -> ScanCase:
    unparsable = [file.unparsable for file in scanned if file.unparsable is not None]
    new = [finding for finding in findings if finding.identity not in known]
    return ScanCase(
        case_id=root.name or str(root),
        params={"path": root.as_posix().encode("utf-8", "backslashreplace").decode()},
        findings=new,
        files_scanned=len(scanned) - len(unparsable),
        unparsable=unparsable,
        suppressed=sum(file.suppressed for file in scanned),
        suppressed_without_reason=sum(file.suppressed_without_reason for file in scanned),
        baselined=len(findings) - len(new),
        rules=[ScanRule(id=rule.id, title=rule.title, why=rule.why, mend=rule.mend) for rule in RULES],
    )


def _settings(options: ScanOptions) -> dict[str, Param]:
    accepted = options.write_baseline or options.baseline
    return {
        "path": str(options.path) if options.path is not None else None,
        "package": options.package,
        "fail_on": options.fail_on.value,
        "baseline": str(accepted) if accepted is not None else None,
        "strict": options.strict,
    }


def _environment() -> Environment:
    """The environment without importing torch, which a scan does not need."""
    return Environment(
        device=NO_DEVICE,
        device_name="nothing ran: sources were read",
        torch=_version_of("torch"),
        numpy=_version_of("numpy"),
        python=platform.python_version(),
        ecbench=__version__,
        driver=None,
        host_cpu=host_cpu_name(),
        host_cpus=len(os.sched_getaffinity(0)),
        host_memory_bytes=psutil.virtual_memory().total,
        last_level_cache_bytes=last_level_cache_bytes(),
        kernel=platform.release(),
        pinning=NO_DEVICE,
        emulation=None,
    )


def _version_of(package: str) -> str:
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return "not installed"
