"""GPUs on the PCI bus and the drivers that serve them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.doctor_records import ok, problem, warning
from ecbench.engine.diagnostics.files import read_field, read_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ecbench.core.doctor_records import Check
    from ecbench.engine.diagnostics.commands import CommandOutput, RunCommand

NVIDIA, AMD, INTEL = "NVIDIA", "AMD", "Intel"
_VENDORS = {"0x10de": NVIDIA, "0x1002": AMD, "0x8086": INTEL}
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""PCI classes: VGA, 3D and other display controllers, and processing accelerators."""
_MODULES = {NVIDIA: ("nvidia",), AMD: ("amdgpu",), INTEL: ("xe", "i915")}


@dataclass(frozen=True)
class Gpu:
    """A GPU that the kernel sees.

    Args:
        vendor: `NVIDIA`, `AMD` or `INTEL`.
        address: On the PCI bus.
        numa_node: Where it is attached; None where the kernel does not say.
    """

    vendor: str
    address: str
    numa_node: int | None


def find_gpus(sys_root: Path) -> tuple[Gpu, ...]:
    """Looks for GPUs of known vendors, with or without a driver.

    Args:
        sys_root: /sys.
    """
    gpus = (_gpu_at(folder) for folder in sorted((sys_root / "bus/pci/devices").glob("*")))
    return tuple(gpu for gpu in gpus if gpu is not None)


def _gpu_at(folder: Path) -> Gpu | None:
    vendor = _VENDORS.get(read_line(folder / "vendor") or "")
    if vendor is None or not (read_line(folder / "class") or "").startswith(_GPU_CLASSES):
        return None
    node = read_line(folder / "numa_node")
    return Gpu(vendor, folder.name, int(node) if node is not None and node.isdigit() else None)


def check_nvidia(gpus: Sequence[Gpu], proc_root: Path, run: RunCommand) -> Check:
    """Names NVIDIA GPUs and their driver.

    Args:
        gpus: All GPUs on the bus.
        proc_root: /proc.
        run: Runs ``nvidia-smi``.
    """
    answer = run("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    if answer is not None and answer.code == 0 and "," in answer.first_line:
        devices = [line.strip() for line in answer.text.splitlines() if line.strip()]
        return ok(NVIDIA, "; ".join(devices), {"devices": [*devices]})
    version = _nvidia_module_version(proc_root)
    if version is None:
        on_bus = [gpu for gpu in gpus if gpu.vendor == NVIDIA]
        return _not_driven(NVIDIA, on_bus, "install NVIDIA's driver, or give the container its GPUs (--gpus all)")
    models = _nvidia_models(proc_root)
    detail = f"{', '.join(models) or 'no GPU'}, driver {version}"
    if answer is not None and models:
        return _tool_failed(detail, answer)
    return ok(NVIDIA, detail, {"devices": [*models], "driver": version})


def _tool_failed(detail: str, answer: CommandOutput) -> Check:
    if answer.timed_out:
        mend = "keep the driver awake between programs: nvidia-smi -pm 1, or nvidia-persistenced"
        return warning(NVIDIA, f"{detail}; nvidia-smi gave {answer.first_line}", mend)
    mend = "where it names a version mismatch, reload the driver or restart the machine"
    return problem(NVIDIA, f"{detail}; nvidia-smi fails: {answer.first_line}", mend)


def _nvidia_module_version(proc_root: Path) -> str | None:
    text = read_line(proc_root / "driver/nvidia/version") or ""
    match = re.search(r"Kernel Module\b.*?(\d+\.\d+(?:\.\d+)?)", text)
    return match[1] if match else None


def _nvidia_models(proc_root: Path) -> list[str]:
    folders = sorted((proc_root / "driver/nvidia/gpus").glob("*"))
    return [model for folder in folders if (model := read_field(folder / "information", "Model"))]


def check_amd(gpus: Sequence[Gpu], sys_root: Path, dev_root: Path, run: RunCommand) -> Check:
    """Names AMD GPUs and their driver.

    Args:
        gpus: All GPUs on the bus.
        sys_root: /sys.
        dev_root: /dev.
        run: Runs ``rocm-smi``.
    """
    on_bus = [gpu for gpu in gpus if gpu.vendor == AMD]
    driver = _module(sys_root, AMD)
    if driver is None:
        return _not_driven(AMD, on_bus, "load the amdgpu driver (modprobe amdgpu)")
    answer = run("rocm-smi", "--showproductname", "--csv") if on_bus else None
    products = _csv_column(answer.text, "Card Series") if answer is not None and answer.code == 0 else []
    return _driven(AMD, on_bus, products, driver, [dev_root / "kfd"])


def check_intel(gpus: Sequence[Gpu], sys_root: Path, dev_root: Path, run: RunCommand) -> Check:
    """Names Intel GPUs and their driver.

    Args:
        gpus: All GPUs on the bus.
        sys_root: /sys.
        dev_root: /dev.
        run: Runs ``xpu-smi``.
    """
    on_bus = [gpu for gpu in gpus if gpu.vendor == INTEL]
    driver = _module(sys_root, INTEL)
    if driver is None:
        return _not_driven(INTEL, on_bus, "load Intel's GPU driver (modprobe xe, or i915)")
    answer = run("xpu-smi", "discovery") if on_bus else None
    products = re.findall(r"Device Name:\s*(.+?)\s*\|?$", answer.text, re.MULTILINE) if answer else []
    return _driven(INTEL, on_bus, products, driver, sorted((dev_root / "dri").glob("renderD*")))


def _driven(vendor: str, on_bus: Sequence[Gpu], products: list[str], driver: str, nodes: Sequence[Path]) -> Check:
    if not on_bus:
        return ok(vendor, f"no GPU; driver {driver} is loaded", {"driver": driver})
    detail = f"{', '.join(products) or _at_addresses(on_bus)}, driver {driver}"
    closed = [node for node in nodes if node.exists() and not os.access(node, os.R_OK | os.W_OK)]
    if nodes and len(closed) == len(nodes):
        return warning(
            vendor,
            f"{detail}; {closed[0]} cannot be opened by this user",
            "add the user to the groups that own it (usually render and video) and log in again",
        )
    return ok(vendor, detail, {"devices": [*products] or [gpu.address for gpu in on_bus], "driver": driver})


def _not_driven(vendor: str, on_bus: Sequence[Gpu], mend: str) -> Check:
    if not on_bus:
        return ok(vendor, "not found")
    return warning(vendor, f"{_at_addresses(on_bus)}, but no driver is loaded", mend)


def _at_addresses(gpus: Sequence[Gpu]) -> str:
    count = f"{len(gpus)} GPU{'s' if len(gpus) > 1 else ''}"
    return f"{count} at {', '.join(gpu.address for gpu in gpus)}"


def _module(sys_root: Path, vendor: str) -> str | None:
    """The loaded kernel module with its version; a module of the kernel's own has none."""
    for module in _MODULES[vendor]:
        folder = sys_root / "module" / module
        if folder.is_dir():
            return f"{module} {read_line(folder / 'version') or 'of the kernel'}"
    return None


def _csv_column(text: str, heading: str) -> list[str]:
    rows = [line.split(",") for line in text.splitlines() if "," in line]
    if not rows or heading not in rows[0]:
        return []
    column = rows[0].index(heading)
    return [row[column].strip() for row in rows[1:] if len(row) > column]
