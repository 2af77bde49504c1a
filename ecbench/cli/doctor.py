"""``ecbench doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.cli.common import STDOUT, JsonOption, QuietOption, annotate_result, printing, reports_errors, write_json
from ecbench.core.errors import ExitCode

if TYPE_CHECKING:
    from ecbench.core.doctor_records import DoctorResult


@reports_errors
def doctor(json_path: JsonOption = None, quiet: QuietOption = False) -> ExitCode:
    """Look at devices, drivers, torch, memory and shared memory, and say what to mend. Changes nothing.

    Exit codes: 0 ok or warnings, 1 a problem, 3 torch cannot be imported.
    """
    from ecbench.workflows.doctor import Machine, diagnose, exit_code_of  # noqa: PLC0415 - keeps --help light

    result = diagnose(Machine())
    if json_path != STDOUT:
        _print(result, quiet=quiet)
    if json_path is not None:
        write_json(json_path, result)
    annotate_result(result)
    return exit_code_of(result)


def _print(result: DoctorResult, *, quiet: bool) -> None:
    from ecbench.report.formats.doctor_console import print_complaints, print_diagnosis  # noqa: PLC0415 - imports rich

    with printing() as console:
        (print_complaints if quiet else print_diagnosis)(result, console)
