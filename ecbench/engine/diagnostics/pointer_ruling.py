"""What the pointer probe ruled, as one line about this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.doctor_records import ok, problem, warning

if TYPE_CHECKING:
    from ecbench.core.doctor_records import Check
    from ecbench.core.probe_records import ProbeCase

_NAME = "addresses >= 2**63"
_DETAILS = "see ecbench probe-ptr-overflow --details"


def check_pointers(case: ProbeCase) -> Check:
    """Judges how this torch and NumPy store the addresses of an Intel XPU.

    Args:
        case: What the probe found out about them.
    """
    values = {convention.name: str(convention.ruling) for convention in case.conventions if convention.ruling}
    if case.reason is not None:
        return problem(_NAME, f"could not be probed: {case.reason}", _DETAILS)
    if case.recommended is None:
        return problem(_NAME, case.advice, f"use another torch or NumPy; {_DETAILS}", values)
    if case.unexpected:
        first = case.unexpected[0]
        surprise = f"{len(case.unexpected)} unexpected, first {first.name}: {first.found} instead of {first.expected}"
        return warning(_NAME, f"{case.advice} {surprise}", _DETAILS, values)
    return ok(_NAME, case.advice, values)
