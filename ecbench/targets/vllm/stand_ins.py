"""What takes the place of a device, and of vLLM's engine around its connectors, where they run alone.

On an accelerator nothing of the data path is replaced. A CPU has neither the copy operator, timed events nor streams
that tensors can be recorded on, and each of them is stood in for. Everything here holds for the whole process.
"""

from __future__ import annotations

import math
import sys
import time
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.descriptors import DescriptorBatch, Direction
from ecbench.engine.registry import AUTO, open_device, open_engine
from ecbench.targets.vllm.installation import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

WORKER_MODULE = "vllm.distributed.ec_transfer.ec_connector.cpu.worker"
MODALITY = "image"
_OPERATORS = "_C_cache_ops"
_SCHEMA = "swap_blocks_batch(Tensor src_ptrs, Tensor dst_ptrs, Tensor sizes, bool is_src_access_order_any=False) -> ()"
_RANKS = "tp and pcp rank 0"
_CONFIG = "config object"


@cache
def install_stand_ins(device_type: str) -> tuple[str, ...]:
    """Puts in what the device needs; a second call changes nothing.

    Args:
        device_type: As `VllmInstallation` has it; empty is made a CPU.

    Returns:
        What is stood in for, in words.

    Raises:
        UnavailableError: A vLLM without the names that are replaced.
    """
    names: tuple[str, ...] = ()
    if not device_type:
        _become_cpu()
        names = ("platform (vLLM found none: its CPU platform)",)
    if device_type in {"", "cpu"}:
        names = (*names, *_stand_in_for_device())
    _fix_ranks()
    return (*names, _RANKS, _CONFIG)


def _become_cpu() -> None:
    """Modules hold the platform object from their import on, so the object itself changes."""
    platform = find("vllm.platforms", "current_platform")
    platform.__class__ = find("vllm.platforms.cpu", "CpuPlatform")


def _stand_in_for_device() -> tuple[str, ...]:
    find("vllm._custom_ops", "swap_blocks_batch")  # registers the operators that this build has
    names = ["torch.Event (host clock)", "Tensor.record_stream (does nothing)", "torch.empty of loads (pooled memory)"]
    if not hasattr(getattr(torch.ops, _OPERATORS), "swap_blocks_batch"):
        _register_operator()
        names.insert(0, "swap_blocks_batch (ecbench's host copies)")
    torch.Event = HostEvent  # type: ignore[assignment, misc]
    torch.Tensor.record_stream = _record_stream  # type: ignore[assignment, method-assign]
    find(WORKER_MODULE, "torch")
    _module(WORKER_MODULE).torch = POOLED_TORCH
    return tuple(names)


_LIBRARIES: list[torch.library.Library] = []
"""torch drops an operator with its library."""


def _register_operator() -> None:
    library: Any = torch.library.Library(_OPERATORS, "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define(_SCHEMA)
    library.impl("swap_blocks_batch", _swap_blocks_batch, "CPU")
    _LIBRARIES.append(library)


@cache
def _engine() -> Any:
    return open_engine(AUTO, open_device("cpu"))


class HostCopies:
    """Keeps the seconds that bytes took to move, apart from what a call around them costs."""

    moved_s: float = 0.0


def _swap_blocks_batch(sources: Tensor, destinations: Tensor, sizes: Tensor, _: bool = False) -> None:
    """Copies as the reference's default engine does, so that the two targets differ in nothing but their own code."""
    batch = DescriptorBatch(Direction.TO_HOST, sources, destinations, sizes, (), ())
    prepared = _engine().prepare(batch)
    began_s = time.perf_counter()
    prepared.run(None)
    HostCopies.moved_s += time.perf_counter() - began_s


class PooledTorch:
    """The module ``torch`` as the worker sees it on a CPU, where no caching allocator keeps a device's memory warm.

    Where `allocate` is set, ``empty`` takes its memory from there: a load then meets no fresh pages, and everything
    around its bytes can be checked.
    """

    allocate: Callable[[int], Tensor] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty(self, *shape: int, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        """As ``torch.empty`` of some lengths and a dtype."""
        if self.allocate is None or dtype is None:
            return torch.empty(*shape, dtype=dtype, **options)
        return self.allocate(math.prod(shape) * dtype.itemsize).view(dtype).view(shape)


POOLED_TORCH = PooledTorch()


_record_on_device = torch.Tensor.record_stream


def _record_stream(tensor: Tensor, stream: Any) -> None:
    """Host memory needs no keeping: host copies are done when their call returns."""
    if tensor.device.type != "cpu":
        _record_on_device(tensor, stream)


class HostEvent:
    """``torch.Event`` where streams are the host itself: what was submitted before the mark is done at the mark."""

    def __init__(self, device: Any = None, **options: Any) -> None:
        self._device = device
        self._options = options
        self._recorded_s: float | None = None

    def record(self, _stream: Any = None) -> None:
        """Takes the time."""
        self._recorded_s = time.perf_counter()

    def wait(self, _stream: Any = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """True: the host has passed the mark."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: HostEvent) -> float:
        """Milliseconds between two marks.

        Raises:
            RuntimeError: One of them was not recorded.
        """
        if self._recorded_s is None or end_event._recorded_s is None:
            raise RuntimeError("both events must be recorded before the time between them is asked for")
        return (end_event._recorded_s - self._recorded_s) * 1e3


def _fix_ranks() -> None:
    """Without vLLM's engine there are no process groups: this process is the first rank of each."""
    for getter in ("get_tensor_model_parallel_rank", "get_pcp_group"):
        find(WORKER_MODULE, getter)  # a getter of another name would not be replaced
    worker = _module(WORKER_MODULE)
    worker.get_tensor_model_parallel_rank = lambda: 0
    worker.get_pcp_group = lambda: SimpleNamespace(rank_in_group=0, world_size=1)


def _module(name: str) -> Any:
    return sys.modules[name]


def encoder_cache_config(
    instance_id: str, *, hidden_size: int, dtype: torch.dtype, region_bytes: Any, output_width: int | None = None
) -> Any:
    """What the encoder-cache connector reads of vLLM's configuration, around a real ``ECTransferConfig``.

    Args:
        instance_id: Names the region: ``/dev/shm/vllm_ec_<instance_id>_dp0.mmap``.
        hidden_size: Elements of one block.
        dtype: The model's.
        region_bytes: ``ec_cpu_bytes``, as a user may write it.
        output_width: Elements of one row of an encoder output; by default the hidden size.
    """
    transfer = find("vllm.config.ec_transfer", "ECTransferConfig")(
        ec_connector="ECCPUConnector",
        ec_role="ec_both",
        engine_id=instance_id,
        ec_connector_extra_config={"ec_cpu_bytes": region_bytes},
    )
    transfer.mm_encoder_output_widths = {MODALITY: output_width or hidden_size}
    return SimpleNamespace(
        instance_id=instance_id,
        ec_transfer_config=transfer,
        model_config=SimpleNamespace(dtype=dtype, get_inputs_embeds_size=lambda: hidden_size, model="ecbench"),
        parallel_config=SimpleNamespace(
            data_parallel_index=0,
            tensor_parallel_size=1,
            prefill_context_parallel_size=1,
            distributed_executor_backend="uni",
        ),
    )
