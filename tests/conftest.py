"""What many tests need."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from ecbench.core.copy_plan import CopyPlan
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.xpu_sim import XpuSimDevice

# Shared machines stall: a slow example is no failure. CI runs the same examples every time.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).resolve().parent / "golden"


@pytest.fixture(params=[CpuDevice, XpuSimDevice], ids=["cpu", "xpu-sim"])
def device(request):
    return request.param()


@pytest.fixture
def cpu():
    return CpuDevice()


def random_plan(draw: np.random.Generator, copies: int = 8, unit: int = 8, most_units: int = 12) -> CopyPlan:
    """A plan whose copies are multiples of `unit` bytes, in random order, with gaps between destinations."""
    sizes = draw.integers(1, most_units + 1, copies) * unit
    gaps = draw.integers(0, 3, copies) * unit
    starts = np.cumsum(gaps + sizes) - sizes
    order = draw.permutation(copies)
    source_bytes = int(sizes.sum()) + 16 * unit
    sources = [int(draw.integers(0, (source_bytes - size) // unit + 1)) * unit for size in sizes]
    end = int(starts[-1] + sizes[-1]) + int(draw.integers(0, 3)) * unit
    return CopyPlan(np.array(sources)[order], starts[order], sizes[order], source_bytes, end)


def as_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
