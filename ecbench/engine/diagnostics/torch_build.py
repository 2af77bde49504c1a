"""Which accelerators the installed torch was built for, and which it sees."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import ok, problem, warning
from ecbench.engine.diagnostics.devices import AMD, INTEL, NVIDIA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.doctor_records import Check
    from ecbench.core.records import Param
    from ecbench.engine.diagnostics.devices import Gpu

CUDA, ROCM, XPU = "CUDA", "ROCm", "XPU"
_RUNTIME_OF = {NVIDIA: CUDA, AMD: ROCM, INTEL: XPU}


@dataclass(frozen=True)
class TorchFacts:
    """What torch says about itself.

    Args:
        version: As torch states it.
        builds: Accelerator runtimes it was built for, with versions, by `CUDA`, `ROCM`, `XPU`.
        kind: The accelerator it sees, by the same names; None where it sees none.
        devices: Product names of the devices it sees.
        complaints: What it said while it looked.
    """

    version: str
    builds: dict[str, str]
    kind: str | None
    devices: tuple[str, ...]
    complaints: tuple[str, ...] = ()


def read_torch() -> TorchFacts:
    """Asks the installed torch; what it raises or warns of on the way is kept as a complaint."""
    import torch  # noqa: PLC0415 - every other check runs without torch

    versions = {CUDA: torch.version.cuda, ROCM: torch.version.hip, XPU: getattr(torch.version, "xpu", None)}
    builds = {name: str(version) for name, version in versions.items() if version}
    devices: tuple[str, ...] = ()
    complaints: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            devices = _device_names()
        except RuntimeError as error:
            complaints.append(_one_line(error))
    return TorchFacts(
        version=str(torch.__version__),
        builds=builds,
        kind=next(iter(builds), None) if devices else None,
        devices=devices,
        complaints=(*complaints, *(_one_line(entry.message) for entry in caught)),
    )


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _device_names() -> tuple[str, ...]:
    import torch  # noqa: PLC0415 - as above

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return ()
    module = torch.get_device_module(accelerator.type)
    return tuple(str(module.get_device_name(index)) for index in range(torch.accelerator.device_count()))


def check_torch(facts: TorchFacts, gpus: Sequence[Gpu]) -> Check:
    """Compares what torch was built for with what it sees and with what is on the bus.

    Args:
        facts: From `read_torch`.
        gpus: From `find_gpus`.
    """
    build = ", ".join(f"{name} {version}" for name, version in facts.builds.items()) or "CPU-only"
    detail = f"{facts.version}, {build} build"
    values: dict[str, Param] = {"version": facts.version, "builds": [*facts.builds], "devices": [*facts.devices]}
    if facts.devices:
        return ok("torch", f"{detail}, sees {', '.join(facts.devices)}", values)
    if facts.complaints:
        mend = "bring the driver up to the runtime torch was built for, or install an older runtime's build of torch"
        return problem("torch", f"{detail}, sees no accelerator: {facts.complaints[0]}", mend, values)
    wanted = sorted({_RUNTIME_OF[gpu.vendor] for gpu in gpus})
    if not wanted:
        return ok("torch", f"{detail}, sees no accelerator", values)
    present = ", ".join(sorted({gpu.vendor for gpu in gpus}))
    unbuilt = [name for name in wanted if name not in facts.builds]
    if unbuilt == wanted:
        mend = f"install torch's {' or '.join(wanted)} build (pytorch.org/get-started)"
        return warning("torch", f"{detail}, but the bus holds a GPU of {present}", mend, values)
    mend = "see the driver's line above; in a container, pass the GPU in; check CUDA_VISIBLE_DEVICES and its like"
    return warning("torch", f"{detail}, sees no accelerator though the bus holds a GPU of {present}", mend, values)
