"""What torch raises when a device is missing, full or gone, in one line each."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from ecbench.core.errors import UnavailableError
from ecbench.core.units import format_bytes

if TYPE_CHECKING:
    from ecbench.engine.devices.accelerator_kinds import AcceleratorKind

_DRIVER_MESSAGE = re.compile(
    r"(CUDA|HIP) (driver )?error|(NVIDIA|AMD|Intel) driver|UR (backend|error)|level[_ ]zero|SYCL|DEVICE_LOST",
    re.IGNORECASE,
)
"""How drivers' errors begin where torch has no class of its own for them."""
_ADVICE = re.compile(r"\s*(Please|For debugging|Compile with|Search for|If you)\b.*", re.DOTALL)


class DeviceLostError(UnavailableError):
    """A device that stopped answering while a case ran."""


def out_of_memory(name: str, what: str, free_bytes: int, total_bytes: int) -> str:
    """The message for something that the device has no room for; names both numbers."""
    return (
        f"device {name} has {format_bytes(free_bytes)} of {format_bytes(total_bytes)} free, {what} does not fit: "
        "use fewer or smaller images, or free the device"
    )


def device_lost(error: RuntimeError, name: str, runtime: Any) -> DeviceLostError | None:
    """Recognises the error of a device that failed while it was used.

    Args:
        error: What torch raised.
        name: The device's name.
        runtime: torch, or what stands for it in a test.

    Returns:
        The error to report; None where the error is not the device's.
    """
    if not isinstance(error, runtime.AcceleratorError) and not _DRIVER_MESSAGE.search(str(error)):
        return None
    return DeviceLostError(
        f"device {name} failed while it was used ({first_sentence(str(error))}): look at the kernel log, then run "
        "ecbench doctor"
    )


def why_absent(kind: AcceleratorKind, runtime: Any) -> str:
    """Why torch sees no device of a kind: a build without it, no driver, or a driver too old for the runtime."""
    module = getattr(runtime, kind.torch_type)
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        try:
            module.init()
        except (RuntimeError, AssertionError, ImportError) as error:
            return first_sentence(str(error))
    if complaints:
        return first_sentence(str(complaints[-1].message))
    return "torch sees none"


def first_sentence(message: str) -> str:
    """The part of a driver's message that says what is wrong, without torch's advice or a full stop."""
    lines = [line for line in message.splitlines() if line.strip()]
    return _ADVICE.sub("", lines[0]).strip().rstrip(".") if lines else "no message"
