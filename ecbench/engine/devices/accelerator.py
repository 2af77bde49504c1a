"""Accelerators over torch's device-generic API."""

from __future__ import annotations

from typing import NoReturn

import torch

from ecbench.core.errors import UnavailableError

_MENDS = {
    "cuda": "install a CUDA or ROCm build of torch >= 2.9 on a machine with such a GPU and its driver",
    "xpu": "install torch's XPU build (>= 2.9) on a machine with an Intel GPU and its driver, or try --device xpu-sim",
}


def open_cuda() -> NoReturn:
    """Opens the NVIDIA or AMD GPU."""
    _refuse("cuda")


def open_xpu() -> NoReturn:
    """Opens the Intel GPU."""
    _refuse("xpu")


def _refuse(kind: str) -> NoReturn:
    raise UnavailableError(f"device {kind!r} is not available: torch {torch.__version__} sees none: {_MENDS[kind]}")
