"""What the KV worker needs beyond `stand_ins` where it runs alone.

On an accelerator only the barrier is stood in for. On a CPU the worker refuses caches that do not say that they are a
device's, and a vLLM that found no platform would pin its descriptors.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _disabled_torch_function_impl

from ecbench.targets.vllm.installation import find
from ecbench.targets.vllm.stand_ins import install_stand_ins

if TYPE_CHECKING:
    from torch import Tensor

KV_WORKER_MODULE = "vllm.v1.kv_offload.cpu.gpu_worker"
_BARRIER = "KV worker barrier (one rank)"
_IS_CUDA = "Tensor.is_cuda of KV caches (says yes)"
_UNPINNED = "PIN_MEMORY of the KV worker (says no)"


@cache
def install_kv_stand_ins(device_type: str) -> tuple[str, ...]:
    """Puts in what the device needs; a second call changes nothing.

    Args:
        device_type: As `VllmInstallation` has it; empty is made a CPU.

    Returns:
        What is stood in for, in words; with those of `install_stand_ins`.

    Raises:
        UnavailableError: A vLLM without the names that are replaced.
    """
    names = (*install_stand_ins(device_type), _BARRIER)
    if device_type not in {"", "cpu"}:
        return names
    names = (*names, _IS_CUDA)
    if find(KV_WORKER_MODULE, "PIN_MEMORY"):
        find("sys", "modules")[KV_WORKER_MODULE].PIN_MEMORY = False
        names = (*names, _UNPINNED)
    return names


def all_ranks_are_here() -> None:
    """The barrier of a single rank: nobody to wait for."""


def as_device_tensor(tensor: Tensor) -> Tensor:
    """The same memory, as a tensor that the worker takes for a device's; one that is, comes back as it is.

    Args:
        tensor: Any shape and dtype.
    """
    return tensor.as_subclass(_CountsAsCuda) if tensor.device.type == "cpu" else tensor


class _CountsAsCuda(torch.Tensor):
    """Host memory that says it is a GPU's, also of its views. Everything else goes torch's own way, as fast as ever."""

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]
    is_cuda = True

    def view(self, *shape: Any) -> _CountsAsCuda:
        """A view that says so, too."""
        return super().view(*shape).as_subclass(_CountsAsCuda)
