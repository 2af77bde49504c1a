"""Which devices and copy engines there are, and which engine runs on which device.

To add a device or an engine: one module, one line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError, UnavailableError, unknown_name
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.registry import load_registered

if TYPE_CHECKING:
    from ecbench.core.protocols import CopyEngine, Device

AUTO = "auto"
_DEVICES = "ecbench.engine.devices"
DEVICES: dict[str, str] = {
    "cpu": f"{_DEVICES}.cpu:CpuDevice",
    "cuda": f"{_DEVICES}.accelerator:open_accelerator",
    "xpu": f"{_DEVICES}.accelerator:open_accelerator",
    "xpu-sim": f"{_DEVICES}.xpu_sim:XpuSimDevice",
}
ACCELERATORS = frozenset({"cuda", "xpu"})
"""Devices that take an index, as in ``cuda:1``."""
DEVICE_NAMES: tuple[str, ...] = (AUTO, *DEVICES)

HOST = frozenset({"cpu", "xpu-sim"})
GPUS = frozenset({"cuda", "rocm", "xpu"})


@dataclass(frozen=True)
class EngineEntry:
    """A copy engine as the registry knows it.

    Args:
        loads: ``"module:class"``; host engines take no argument, the others take the device.
        kinds: Kinds of device it runs on; a ROCm build's ``cuda`` is ``rocm``.
        does: What it does, in one line.
        requirement: ``"module:function"`` that says what is missing here; None where torch is enough.
    """

    loads: str
    kinds: frozenset[str]
    does: str
    requirement: str | None = None


_ENGINES = "ecbench.engine.copy_engines"
ENGINES: dict[str, EngineEntry] = {
    "memmove": EngineEntry(f"{_ENGINES}.host:MemmoveEngine", HOST, "one memmove per descriptor"),
    "gather": EngineEntry(f"{_ENGINES}.host:GatherEngine", HOST, "one vectorised call for all equal blocks"),
    "per-copy": EngineEntry(f"{_ENGINES}.per_copy:PerCopyEngine", HOST | GPUS, "one torch copy per descriptor"),
    "staged": EngineEntry(f"{_ENGINES}.staged:StagedEngine", GPUS, "packs on the device, then one transfer"),
    "cuda-batch": EngineEntry(
        f"{_ENGINES}.cuda_batch:CudaBatchEngine",
        frozenset({"cuda"}),
        "one cuMemcpyBatchAsync per batch",
        requirement=f"{_ENGINES}.cuda_batch:why_unavailable",
    ),
    "triton": EngineEntry(
        f"{_ENGINES}.triton_kernel:TritonEngine",
        frozenset({"cuda", "rocm"}),
        "a kernel over pinned host memory, 8-byte words",
        requirement=f"{_ENGINES}.triton_kernel:why_unavailable",
    ),
    "vllm-op": EngineEntry(
        f"{_ENGINES}.vllm_op:VllmOpEngine",
        GPUS,
        "vLLM's own swap_blocks_batch",
        requirement=f"{_ENGINES}.vllm_op:why_unavailable",
    ),
}
ENGINE_NAMES: tuple[str, ...] = (AUTO, *ENGINES)


def open_device(name: str, host_memory: HostMemoryKind = HostMemoryKind.PINNED) -> Device:
    """Opens a device; ``auto`` takes an accelerator where torch sees one, else the CPU.

    Args:
        name: A registered name; an accelerator's may carry an index, as in ``cuda:1``.
        host_memory: How an accelerator's host side is to be held.

    Raises:
        EcbenchError: No such name or index; the message lists the choices.
        UnavailableError: The device is not here; the message says what is missing and what to do.
    """
    base, index = _split_index(name)
    resolved = _resolve(base)
    opener = load_registered("device", resolved, DEVICES)
    device: Device = opener(resolved, index, host_memory) if resolved in ACCELERATORS else opener()
    return device


def _split_index(name: str) -> tuple[str, int | None]:
    base, colon, index = name.partition(":")
    if base not in DEVICE_NAMES:
        raise unknown_name("device", name, DEVICE_NAMES)
    if not colon:
        return base, None
    if base not in ACCELERATORS or not (index.isascii() and index.isdigit()):
        raise EcbenchError(f"device {name!r}: only cuda and xpu take an index, a number as in cuda:1")
    return base, int(index)


def _resolve(name: str) -> str:
    if name != AUTO:
        return name
    import torch  # noqa: PLC0415 - only a device needs torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator.type if accelerator is not None and accelerator.type in ACCELERATORS else "cpu"


def kind_of(device: Device) -> str:
    """The kind that decides which engines run: ``cpu``, ``xpu-sim``, ``cuda``, ``rocm`` or ``xpu``."""
    from ecbench.engine.devices.accelerator import AcceleratorDevice  # noqa: PLC0415 - imports torch

    return device.kind.name if isinstance(device, AcceleratorDevice) else device.name


def why_unavailable(engine: str, device: Device) -> str | None:
    """Says why an engine cannot run on a device here.

    Args:
        engine: A registered name or ``auto``.
        device: The device.

    Returns:
        What is missing and the mend; None where the engine can run.

    Raises:
        EcbenchError: No such engine; the message lists the choices.
    """
    if engine not in ENGINE_NAMES:
        raise unknown_name("engine", engine, ENGINE_NAMES)
    if engine == AUTO:
        return None
    entry, kind = ENGINES[engine], kind_of(device)
    if kind not in entry.kinds:
        return f"runs on {', '.join(sorted(entry.kinds))} only, and this is {kind}: use {_fitting(kind)}"
    if entry.requirement is None:
        return None
    reason: str | None = load_registered("requirement", engine, {engine: entry.requirement})()
    return reason


def _fitting(kind: str) -> str:
    return " or ".join(name for name, entry in ENGINES.items() if kind in entry.kinds)


def open_engine(name: str, device: Device) -> CopyEngine:
    """Makes a copy engine for a device.

    Args:
        name: A registered name, or ``auto``: the best for each batch.
        device: What it is to run on.

    Raises:
        EcbenchError: No such name; the message lists the choices.
        UnavailableError: The device cannot run it, or it lacks something here.
    """
    reason = why_unavailable(name, device)
    if reason is not None:
        raise UnavailableError(f"engine {name!r} is not available on device {device.name!r}: {reason}")
    return _auto_engine(device) if name == AUTO else _make_engine(name, device)


def _auto_engine(device: Device) -> CopyEngine:
    kind = kind_of(device)
    if kind in HOST:
        from ecbench.engine.copy_engines.auto import AutoHostEngine  # noqa: PLC0415 - imports NumPy

        return AutoHostEngine(_make_engine("gather", device), _make_engine("memmove", device))
    from ecbench.engine.copy_engines.auto_accelerator import AutoAcceleratorEngine  # noqa: PLC0415 - imports NumPy

    def find(name: str) -> CopyEngine | None:
        return None if why_unavailable(name, device) is not None else _make_engine(name, device)

    return AutoAcceleratorEngine(kind, find)


def _make_engine(name: str, device: Device) -> CopyEngine:
    from ecbench.engine.copy_engines.high_address import HighAddressEngine  # noqa: PLC0415 - imports torch
    from ecbench.engine.devices.xpu_sim import XpuSimDevice  # noqa: PLC0415 - imports torch

    make = load_registered("engine", name, {name: ENGINES[name].loads})
    engine: CopyEngine = make(device) if ENGINES[name].kinds.isdisjoint(HOST) else make()
    return HighAddressEngine(engine, device) if isinstance(device, XpuSimDevice) else engine
