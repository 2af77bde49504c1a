"""Facts about the host that need neither torch nor NumPy."""

from __future__ import annotations

import platform
import re
from pathlib import Path

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
