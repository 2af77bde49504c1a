"""How kinds of accelerators differ. Everything else about them is one class over torch's device-generic API."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
AMD_DRIVER = Path("/sys/module/amdgpu/version")
EVENTS_SERIALISE = (
    "timing events serialise concurrent streams on XPU: copy times hold for one direction alone, and overlap with "
    "compute is not measured"
)


@dataclass(frozen=True)
class AcceleratorKind:
    """What sets one kind of accelerator apart.

    Args:
        name: ``cuda``, ``rocm`` or ``xpu``; engines are chosen by it.
        torch_type: What torch calls the device; ROCm builds call theirs ``cuda``.
        pointer_dtype: Of descriptor arrays.
        registration: The driver call that pins existing host memory; None where torch offers none.
        max_descriptors: Most copies in one call of vLLM's operator; None where it has no limit of its own.
        notes: What a reader of any time must know.
        driver: Finds the driver's version, given torch and the device's index; None where it does not tell.
        mend: What to do where no such device is visible.
    """

    name: str
    torch_type: str
    pointer_dtype: torch.dtype
    registration: str | None
    max_descriptors: int | None
    notes: tuple[str, ...]
    driver: Callable[[Any, int], str | None]
    mend: str


def nvidia_driver(_: Any, __: int, version_file: Path = NVIDIA_DRIVER) -> str | None:
    """Version of the kernel's NVIDIA driver."""
    match = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", _read(version_file))
    return match[1] if match else None


def amd_driver(runtime: Any, _: int, version_file: Path = AMD_DRIVER) -> str | None:
    """Version of the amdgpu module, or of HIP where the kernel's own module has none."""
    version = _read(version_file).strip()
    return version or (f"HIP {runtime.version.hip}" if runtime.version.hip else None)


def intel_driver(runtime: Any, index: int) -> str | None:
    """Version of the compute driver, as torch reads it from the device."""
    version = getattr(runtime.xpu.get_device_properties(index), "driver_version", None)
    return str(version) if version else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


CUDA = AcceleratorKind(
    name="cuda",
    torch_type="cuda",
    pointer_dtype=torch.int64,
    registration="cudaHostRegister",
    max_descriptors=None,
    notes=(),
    driver=nvidia_driver,
    mend="install a CUDA build of torch >= 2.9 on a machine with an NVIDIA GPU and its driver",
)
ROCM = AcceleratorKind(
    name="rocm",
    torch_type="cuda",
    pointer_dtype=torch.int64,
    registration="hipHostRegister",
    max_descriptors=8192,  # beyond, ROCm faults (vLLM #43018)
    notes=(),
    driver=amd_driver,
    mend="install a ROCm build of torch >= 2.9 on a machine with an AMD GPU and its driver",
)
XPU = AcceleratorKind(
    name="xpu",
    torch_type="xpu",
    pointer_dtype=torch.uint64,
    registration=None,
    max_descriptors=None,
    notes=(EVENTS_SERIALISE,),
    driver=intel_driver,
    mend="install torch's XPU build (>= 2.9) on a machine with an Intel GPU and its driver, or try --device xpu-sim",
)
KINDS: tuple[AcceleratorKind, ...] = (CUDA, ROCM, XPU)


def kind_of_torch(torch_type: str, runtime: Any) -> AcceleratorKind:
    """The kind behind a torch device type: a ROCm build's ``cuda`` is `ROCM`."""
    if torch_type == XPU.torch_type:
        return XPU
    return ROCM if runtime.version.hip else CUDA
