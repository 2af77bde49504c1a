"""Facts about the machine that a result depends on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import torch

from ecbench.core.records import Environment
from ecbench.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.protocols import Device

_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_CPU_INFO = Path("/proc/cpuinfo")
_SIZE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_level_cache_bytes(cache: Path = _CACHE) -> int | None:
    """Size of the largest cache that the first core sees; None where the kernel does not tell."""
    sizes = [_cache_size(file) for file in cache.glob("index*/size")]
    return max((size for size in sizes if size), default=None)


def _cache_size(file: Path) -> int | None:
    match = re.fullmatch(r"(\d+)([KMG])", file.read_text().strip())
    return int(match[1]) * _SIZE_UNITS[match[2]] if match else None


def host_cpu_name(cpu_info: Path = _CPU_INFO) -> str:
    """The processor's product name."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", cpu_info.read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()


def describe_environment(device: Device, stand_ins: Sequence[str] = ()) -> Environment:
    """Collects what a result must carry to be comparable.

    Args:
        device: The device of the run.
        stand_ins: Replaced parts of the target, by name.
    """
    return Environment(
        device=device.name,
        device_name=device.description,
        torch=str(torch.__version__),
        numpy=np.__version__,
        python=platform.python_version(),
        ecbench=__version__,
        driver=device.driver,
        host_cpu=host_cpu_name(),
        host_cpus=len(os.sched_getaffinity(0)),
        host_memory_bytes=psutil.virtual_memory().total,
        last_level_cache_bytes=last_level_cache_bytes(),
        kernel=platform.release(),
        pinning=device.pinning,
        emulation=device.emulation,
        stand_ins=list(stand_ins),
    )
