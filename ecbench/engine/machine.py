"""Facts about the machine that a result depends on."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

import numpy as np
import psutil
import torch

from ecbench.core.records import Environment
from ecbench.engine.host_facts import host_cpu_name, last_level_cache_bytes
from ecbench.version import __version__

if TYPE_CHECKING:
    from ecbench.core.protocols import Device


def describe_environment(device: Device) -> Environment:
    """Collects what a result must carry to be comparable.

    Args:
        device: The device of the run.
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
    )
