"""vLLM's real ``ECCPUWorker`` behind what the conformance suite asks of a worker."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.conformance_protocols import Descriptor, Finished, NotApplicableError
from ecbench.targets.held_copies import HeldWork
from ecbench.targets.vllm.installation import find, part_of
from ecbench.targets.vllm.stand_ins import WORKER_MODULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.core.conformance_protocols import ConnectorSpec, Load

COMMON_MODULE = "vllm.distributed.ec_transfer.ec_connector.cpu.common"
_BUFFERS_MODULE = f"{WORKER_MODULE}.descriptor_buffers"
_POINTER_DTYPE = "_PTR_DTYPE"
_SUBMIT, _MAKE_EVENT = "_submit_transfer", "_acquire_event"
_RANK_GETTERS = ("get_tensor_model_parallel_rank", "get_pcp_group")
HELD = "events and recorded memory of held copies (they wait for ecbench)"
"""What is stood in for beyond `install_stand_ins`, in words."""


class _HeldEvent:
    """``torch.Event`` that is reached when the held work before it was done."""

    def __init__(self, work: HeldWork) -> None:
        self._work = work
        self._reached = False

    def record(self, stream: Any = None) -> None:  # noqa: ARG002 - torch's signature
        self._reached = False
        self._work.add(self._reach)

    def _reach(self) -> None:
        self._reached = True

    def query(self) -> bool:
        self._work.refuse_if_lost()
        return self._reached

    def synchronize(self) -> None:
        self._work.refuse_if_lost()

    def elapsed_time(self, end_event: Any) -> float:  # noqa: ARG002 - torch's signature
        return 0.0


class VllmWorker:
    """A real worker over a region of vLLM's.

    Args:
        spec: How it is made.
        config: What it reads of vLLM's configuration.
        device_type: torch's name of the device.

    Raises:
        NotApplicableError: Copies that wait, or unsigned addresses, on a real device.
    """

    def __init__(self, spec: ConnectorSpec, config: Any, device_type: str) -> None:
        self._device_type = device_type
        self._work = HeldWork()
        self._batches: list[list[Descriptor]] = []
        self._last_buffers: Any = None
        self._step: Any = None
        if device_type != "cpu" and (spec.holds_copies or spec.unsigned_addresses):
            raise NotApplicableError(f"the copies and addresses of a real {device_type} device cannot be arranged")
        if spec.unsigned_addresses:
            _use_unsigned_descriptors()
        with _ranks(spec.tensor_rank, spec.context_rank):
            self._worker = find(WORKER_MODULE, "ECCPUWorker")(config)
        self._region = part_of(self._worker, "_region")
        self._submit = part_of(self._worker, _SUBMIT)
        setattr(self._worker, _SUBMIT, self._hold if spec.holds_copies else self._note)
        if spec.holds_copies:
            self._hold_memory()
            setattr(self._worker, _MAKE_EVENT, lambda: _HeldEvent(self._work))

    def _note(self, buffers: Any, count: int, direction: Any) -> None:
        self._remember(buffers, count)
        self._submit(buffers, count, direction)

    def _hold(self, buffers: Any, count: int, direction: Any) -> None:
        self._remember(buffers, count)
        self._work.add(lambda: self._submit(buffers, count, direction))

    def _remember(self, buffers: Any, count: int) -> None:
        columns = (buffers.src_np, buffers.dst_np, buffers.sizes_np)
        rows = zip(*(column[:count].tolist() for column in columns), strict=True)
        self._batches.append([Descriptor(*row) for row in rows])
        self._last_buffers = buffers

    def _hold_memory(self) -> None:
        """A caching allocator keeps memory that was recorded on a stream until the stream has done its work."""

        def record_stream(tensor: Tensor, stream: Any) -> None:  # noqa: ARG001 - torch's signature
            self._work.add(lambda: tensor)

        torch.Tensor.record_stream = record_stream  # type: ignore[assignment, method-assign]

    @property
    def blocks(self) -> Tensor:
        """int8, shape ``(num_blocks, block_size_bytes)``."""
        blocks: Tensor = self._region.blocks
        return blocks

    @property
    def pinned(self) -> bool:
        """Registered with CUDA."""
        return bool(part_of(self._region, "_is_pinned"))

    def to_device(self, host: Tensor) -> Tensor:
        """A copy on vLLM's device."""
        return host.to(self._device_type, copy=True)

    def to_host(self, tensor: Tensor) -> Tensor:
        """A host copy."""
        return tensor.to("cpu", copy=True)

    def begin_step(self, saves: Mapping[str, Sequence[int]], loads: Mapping[str, tuple[Load, tuple[int, int]]]) -> None:
        """Binds the step's metadata."""
        self._step = find(COMMON_MODULE, "ECCPUConnectorMetadata")(
            saves={key: list(ids) for key, ids in saves.items()},
            loads={key: (load.ticket, list(load.block_ids), shape) for key, (load, shape) in loads.items()},
        )

    def save(self, key: str, output: Tensor) -> None:
        """Offers an output of the step."""
        self._worker.save_caches({key: output}, key, connector_metadata=self._step)

    def flush(self) -> None:
        """Submits the step's saves."""
        self._worker.flush_saves()

    def load(self, resident: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Submits the step's loads."""
        outputs = dict(resident)
        self._worker.start_load_caches(outputs, connector_metadata=self._step)
        return {key: outputs[key] for key in self._step.loads}

    def poll(self) -> Finished:
        """What ended; this connector has no word for a save that will not come."""
        report = self._worker.build_connector_worker_meta()
        if report is None:
            return Finished()
        return Finished(tuple(report.completed_saves), tuple(report.completed_loads))

    def batches(self) -> list[list[Descriptor]]:
        """Every batch's descriptors."""
        return self._batches

    def run_copies(self) -> None:
        """Runs what is held."""
        self._work.run()

    def descriptor_arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The arrays that the last batch was written through."""
        buffers = self._last_buffers
        return buffers.src_np, buffers.dst_np, buffers.sizes_np

    def lose_device(self) -> None:
        """Waiting fails from now on."""
        self._work.lost = True

    def shutdown(self) -> None:
        """Forgets held copies, then ends the worker."""
        self._work.discard()
        self._worker.shutdown()


def _use_unsigned_descriptors() -> None:
    """What the module does on its own where it finds an XPU."""
    find(_BUFFERS_MODULE, _POINTER_DTYPE)
    setattr(sys.modules[_BUFFERS_MODULE], _POINTER_DTYPE, torch.uint64)


@contextmanager
def _ranks(tensor_rank: int, context_rank: int) -> Iterator[None]:
    """A worker asks for its ranks when it is made."""
    kept = [find(WORKER_MODULE, name) for name in _RANK_GETTERS]
    ranks = (lambda: tensor_rank, lambda: SimpleNamespace(rank_in_group=context_rank))
    module = sys.modules[WORKER_MODULE]
    _set_all(module, ranks)
    try:
        yield
    finally:
        _set_all(module, kept)


def _set_all(module: ModuleType, getters: Sequence[object]) -> None:
    for name, getter in zip(_RANK_GETTERS, getters, strict=True):
        setattr(module, name, getter)
