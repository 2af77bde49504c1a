"""``ecbench doctor``: looks at the machine, judges each thing, and makes one result of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import Check, CheckStatus, DoctorResult, ok, warning
from ecbench.core.errors import ExitCode, UnavailableError
from ecbench.core.probe_records import ProbeCase
from ecbench.core.records import SCHEMA_VERSION, RunResult
from ecbench.engine.diagnostics.commands import RunCommand, run_command
from ecbench.engine.diagnostics.devices import check_amd, check_intel, check_nvidia, find_gpus
from ecbench.engine.diagnostics.memory import (
    check_huge_pages,
    check_memlock,
    check_populate_write,
    check_registration,
    read_memlock_bytes,
    read_total_bytes,
)
from ecbench.engine.diagnostics.numa import check_numa, read_numa
from ecbench.engine.diagnostics.pinned import check_pinned
from ecbench.engine.diagnostics.pointer_ruling import check_pointers
from ecbench.engine.diagnostics.shared_memory import check_room, check_unnamed_file, read_room
from ecbench.engine.diagnostics.stale_files import check_stale_files, find_holders, find_vllm_files
from ecbench.engine.diagnostics.torch_build import TorchFacts, check_torch, read_torch
from ecbench.pointers.probe import probe
from ecbench.pointers.rulings import judge_document, read_document
from ecbench.targets.vllm.installation import KNOWN_RELEASES, installed_version
from ecbench.targets.vllm.installation import why_unavailable as why_no_vllm

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.records import Environment


def probe_pointers() -> ProbeCase:
    """Probes this torch and NumPy."""
    import numpy  # noqa: PLC0415, ICN001 - the modules themselves are under test
    import torch  # noqa: PLC0415 - as above

    try:
        return judge_document(read_document(probe(torch, numpy)))
    except RuntimeError as error:
        # A device that torch sees but cannot use must not take the other checks with it.
        return ProbeCase(case_id="here", params={}, reason=" ".join(str(error).split()))


def check_vllm() -> Check:
    """Looks for a vLLM that ``--target vllm`` can run, without importing it."""
    version, reason = installed_version(), why_no_vllm()
    if reason is None:
        return ok("vLLM", f"{version or 'of unknown version'}: --target vllm runs it", {"version": version})
    if version is None:
        return ok("vLLM", "not installed: --target vllm is not available", {"version": None})
    mend = f"install vLLM {' or '.join(KNOWN_RELEASES)} for --target vllm"
    return warning("vLLM", f"{version}: its connectors are not known", mend, {"version": version})


@dataclass(frozen=True)
class Machine:
    """What the checks look at.

    Args:
        proc: /proc.
        sys: /sys.
        dev: /dev.
        run: Runs vendors' tools.
        torch: Asks torch about itself.
        pointers: Finds out how addresses are stored.
        vllm: Looks for a vLLM.
    """

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    run: RunCommand = run_command
    torch: Callable[[], TorchFacts] = read_torch
    pointers: Callable[[], ProbeCase] = probe_pointers
    vllm: Callable[[], Check] = check_vllm


def diagnose(machine: Machine) -> DoctorResult:
    """Runs every check.

    Args:
        machine: What to look at.

    Raises:
        UnavailableError: torch or NumPy is installed but cannot be imported.
    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    _refuse_broken_install()
    return RunResult(
        schema_version=SCHEMA_VERSION,
        kind="doctor",
        started_at=started_at,
        environment=_environment(),
        settings={},
        cases=check_machine(machine),
    )


def _refuse_broken_install() -> None:
    try:
        import numpy  # noqa: F401, ICN001, PLC0415 - asks only whether it can be imported
        import torch  # noqa: F401, PLC0415 - likewise
    except (ImportError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UnavailableError(f"torch or NumPy cannot be imported ({reason}): reinstall it in this Python") from error


def check_machine(machine: Machine) -> list[Check]:
    """All checks, in the order in which they are shown: devices, memory, shared memory, addresses, vLLM."""
    gpus = find_gpus(machine.sys)
    torch = machine.torch()
    shm = machine.dev / "shm"
    files = find_vllm_files(shm)
    return [
        check_nvidia(gpus, machine.proc, machine.run),
        check_amd(gpus, machine.sys, machine.dev, machine.run),
        check_intel(gpus, machine.sys, machine.dev, machine.run),
        check_torch(torch, gpus),
        check_pinned(torch.kind),
        check_registration(read_total_bytes(machine.proc), torch.kind),
        check_memlock(read_memlock_bytes(), machine.proc, torch.kind),
        check_populate_write(),
        check_huge_pages(machine.sys),
        check_numa(read_numa(machine.sys, machine.proc), gpus),
        check_room(shm, read_room(shm)),
        check_unnamed_file(shm),
        check_stale_files(files, find_holders(files, machine.proc)),
        check_pointers(machine.pointers()),
        machine.vllm(),
    ]


def _environment() -> Environment:
    from ecbench.engine.machine import describe_environment  # noqa: PLC0415 - imports torch
    from ecbench.engine.registry import AUTO, open_device  # noqa: PLC0415 - likewise

    with suppress(UnavailableError, RuntimeError):
        return describe_environment(open_device(AUTO))
    return describe_environment(open_device("cpu"))


def exit_code_of(result: DoctorResult) -> ExitCode:
    """The exit code a result calls for: only a problem fails."""
    has_problem = any(check.status is CheckStatus.PROBLEM for check in result.cases)
    return ExitCode.CHECK_FAILED if has_problem else ExitCode.OK
