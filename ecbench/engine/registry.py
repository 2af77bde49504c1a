"""Which devices and copy engines there are, and which engine runs on which device.

To add a device or an engine: one module, one line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.errors import UnavailableError, unknown_name
from ecbench.core.registry import load_registered

if TYPE_CHECKING:
    from ecbench.core.protocols import CopyEngine, Device

AUTO = "auto"
_DEVICES = "ecbench.engine.devices"
DEVICES: dict[str, str] = {
    "cpu": f"{_DEVICES}.cpu:CpuDevice",
    "cuda": f"{_DEVICES}.accelerator:open_cuda",
    "xpu": f"{_DEVICES}.accelerator:open_xpu",
    "xpu-sim": f"{_DEVICES}.xpu_sim:XpuSimDevice",
}
_HOST_ENGINES: dict[str, str] = {
    "memmove": "ecbench.engine.copy_engines.host:MemmoveEngine",
    "gather": "ecbench.engine.copy_engines.host:GatherEngine",
    "per-copy": "ecbench.engine.copy_engines.per_copy:PerCopyEngine",
}
ENGINE_NAMES: tuple[str, ...] = (AUTO, *_HOST_ENGINES)
DEVICE_NAMES: tuple[str, ...] = (AUTO, *DEVICES)


def open_device(name: str) -> Device:
    """Opens a device; ``auto`` takes an accelerator where torch sees one, else the CPU.

    Raises:
        EcbenchError: No such name; the message lists the choices.
        UnavailableError: The device is not here; the message says what is missing and what to do.
    """
    if name not in DEVICE_NAMES:
        raise unknown_name("device", name, DEVICE_NAMES)
    device: Device = load_registered("device", _resolve(name), DEVICES)()
    return device


def _resolve(name: str) -> str:
    if name != AUTO:
        return name
    import torch  # noqa: PLC0415 - only a device needs torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator.type if accelerator is not None and accelerator.type in DEVICES else "cpu"


def open_engine(name: str, device: Device) -> CopyEngine:
    """Makes a copy engine for a device.

    Args:
        name: A registered name, or ``auto``: the best for each batch.
        device: What it is to run on.

    Raises:
        EcbenchError: No such name; the message lists the choices.
        UnavailableError: The device cannot run it.
    """
    if name not in ENGINE_NAMES:
        raise unknown_name("engine", name, ENGINE_NAMES)
    if not device.copies_inside_submit:
        raise UnavailableError(
            f"engine {name!r} copies between host addresses and cannot run on device {device.name!r}"
        )
    return _auto_engine(device) if name == AUTO else _host_engine(name, device)


def _auto_engine(device: Device) -> CopyEngine:
    from ecbench.engine.copy_engines.auto import AutoHostEngine  # noqa: PLC0415 - imports NumPy

    return AutoHostEngine(_host_engine("gather", device), _host_engine("memmove", device))


def _host_engine(name: str, device: Device) -> CopyEngine:
    from ecbench.engine.copy_engines.high_address import HighAddressEngine  # noqa: PLC0415 - imports torch
    from ecbench.engine.devices.xpu_sim import XpuSimDevice  # noqa: PLC0415 - imports torch

    engine: CopyEngine = load_registered("engine", name, _HOST_ENGINES)()
    return HighAddressEngine(engine, device) if isinstance(device, XpuSimDevice) else engine
