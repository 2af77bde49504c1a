"""The installed vLLM's KV offload worker as a target."""

from __future__ import annotations

import itertools
import time
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.descriptors import CopyTimes
from ecbench.core.errors import CopyRefusedError, EcbenchError, UnavailableError
from ecbench.core.units import format_bytes
from ecbench.targets.vllm.installation import keep_off_stdout, load_vllm, part_of
from ecbench.targets.vllm.kv_layout import SLOT_ORDER, refer_to_caches
from ecbench.targets.vllm.kv_stand_ins import install_kv_stand_ins
from ecbench.targets.vllm.kv_worker import create_kv_region, job_of, open_kv_worker
from ecbench.targets.vllm.stand_ins import HostCopies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from ecbench.core.host_memory import SlotOrder
    from ecbench.core.protocols import Device
    from ecbench.kv_offload.placement import PlacedTransfers

_ENGINE = "vllm"
_HOST_THREADS = 1
"""Of the stand-in that copies on a CPU."""
_NO_GUARDS = "vLLM's region has no guard bytes: a write past its end is not seen"
_NOT_PINNED = "vLLM could not pin its region: copies go through pageable memory"
_ROCM = "on ROCm, vLLM's engine would give the worker pinned tensors in place of the shared region used here"
_FILL, _SWAP = "_fill_group_ops", "_swap_blocks_batch"
"""Calls of a handler that write descriptors and hand them over."""


class VllmKvSession:
    """vLLM's worker, opened for one store and one load, as the first rank.

    Args:
        placed: What moves, and the memory it lies in.
        caches: Device memory: uint8, shape ``(placed.memory.device.nbytes,)``.
        device: Holds the caches.

    Raises:
        UnavailableError: No vLLM here, or one that runs on another device.
        DoesNotFitError: The slots do not fit /dev/shm.
        CopyRefusedError: The worker refuses the caches.
    """

    def __init__(self, placed: PlacedTransfers, caches: Tensor, *, device: Device) -> None:
        installation = load_vllm()
        _refuse_other_device(installation.device_type or "cpu", caches, device)
        self.stand_ins: tuple[str, ...] = install_kv_stand_ins(installation.device_type)
        self._version = installation.version
        self._device = device
        self._jobs = itertools.count()
        self._store_job = job_of(placed.stores)
        self._load_job = job_of(placed.loads)
        refs = refer_to_caches(placed.memory)
        self._slot_notes = _slot_notes(refs.slot_bytes, placed.memory.layout.host_slot_bytes)
        with keep_off_stdout():
            self._region = create_kv_region(refs, placed.memory.host.slots)
        try:
            with self._refusals("take the caches"):
                self._worker = open_kv_worker(refs, caches, placed.memory, self._region)
            self._stores = _HandlerClock(part_of(self._worker, "_store_handler"))
            self._loads = _HandlerClock(part_of(self._worker, "_load_handler"))
        except BaseException as error:
            _drop_locals(error)
            with keep_off_stdout():
                self._region.cleanup()
            raise
        self._whole: Tensor | None = self._region.base_tensor.view(torch.uint8)

    @property
    def region(self) -> Tensor:
        """All slots, without guards: uint8, in host memory."""
        if self._whole is None:
            raise EcbenchError("the KV worker's region was used after its close: open a new session")
        return self._whole

    @property
    def slots_offset(self) -> int:
        """The region begins with slot 0."""
        return 0

    @property
    def slot_order(self) -> SlotOrder:
        """Tensor by tensor."""
        return SLOT_ORDER

    @property
    def notes(self) -> tuple[str, ...]:
        """Whose code runs, in what its region differs from the reference's, and whether it is pinned."""
        pinned = self._device.copies_inside_submit or self._region.is_pinned
        whose = "vLLM's own worker, region, descriptors and copies"
        held = (*(() if pinned else (_NOT_PINNED,)), *((_ROCM,) if torch.version.hip else ()))
        return (whose, _NO_GUARDS, *self._slot_notes, *held)

    def store(self) -> CopyTimes:
        """One job that stores every chunk."""
        blocks, slots = self._store_job
        return self._run("store", lambda job: self._worker.submit_store(job, blocks, slots), self._stores)

    def load(self) -> CopyTimes:
        """One job that loads what the replay hits."""
        blocks, slots = self._load_job
        return self._run("load", lambda job: self._worker.submit_load(job, slots, blocks), self._loads)

    def close(self) -> None:
        """Shuts the worker down, and its region with it. May be called twice."""
        if self._whole is None:
            return
        # A tensor of ours over the region would keep vLLM from unmapping it.
        self._whole = None
        with keep_off_stdout():
            self._worker.shutdown()

    def _run(self, what: str, submit: Callable[[int], bool], clock: _HandlerClock) -> CopyTimes:
        """Submits a job, waits for it, and takes the times of its parts."""
        job, moved_before_s = next(self._jobs), HostCopies.moved_s
        with self._refusals(what):
            began = clock.begin()
            submit(job)
            submitted = time.perf_counter()
            self._worker.wait({job})
            finished = self._worker.get_finished()
            total_s = time.perf_counter() - began
            copy_s = _copy_seconds(finished, job)
        on_host, moved_s = self._device.copies_inside_submit, HostCopies.moved_s - moved_before_s
        return CopyTimes(
            total_s=total_s,
            fill_s=clock.filled - began,
            submit_s=submitted - clock.filled - moved_s,
            copy_s=moved_s if on_host else copy_s,
            descriptors=clock.descriptors,
            engine=_ENGINE,
            threads=_HOST_THREADS if on_host else 0,
            notes=(f"copies by {clock.operator}",),
        )

    @contextmanager
    def _refusals(self, what: str) -> Iterator[None]:
        """Turns what vLLM raises into one line; a device that failed is left to who opened it."""
        try:
            with keep_off_stdout():
                yield
        except EcbenchError:
            raise
        except Exception as error:
            if isinstance(error, RuntimeError) and self._device.explain(error) is not None:
                raise
            raise CopyRefusedError(f"vLLM {self._version} did not {what}: {_in_a_line(error)}") from error


class _HandlerClock:
    """Sees when a handler of the worker has written its descriptors, and how many it hands over.

    Args:
        handler: One direction of the worker; two of its calls are wrapped.

    Raises:
        UnavailableError: It has no such calls.
    """

    def __init__(self, handler: Any) -> None:
        self.filled = 0.0
        self.descriptors = 0
        self._fill = part_of(handler, _FILL)
        self._swap = part_of(handler, _SWAP)
        operator = getattr(self._swap, "func", self._swap)
        self.operator = f"{operator.__module__}.{operator.__name__}"
        setattr(handler, _FILL, self._fill_and_note)
        setattr(handler, _SWAP, self._count_and_swap)

    def begin(self) -> float:
        """Starts a job that has no descriptors yet; returns the time."""
        self.filled, self.descriptors = time.perf_counter(), 0
        return self.filled

    def _fill_and_note(self, *args: Any, **named: Any) -> Any:
        result = self._fill(*args, **named)
        self.filled = time.perf_counter()
        return result

    def _count_and_swap(self, sources: Tensor, destinations: Tensor, sizes: Tensor, **named: Any) -> None:
        self.descriptors = sizes.numel()
        self._swap(sources, destinations, sizes, **named)


def _drop_locals(error: BaseException) -> None:
    """Empties the frames that an error keeps: vLLM cannot unmap a region while tensors of theirs look at it."""
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__


def _slot_notes(slot_bytes: int, reference_bytes: int) -> tuple[str, ...]:
    if slot_bytes == reference_bytes:
        return ()
    note = (
        f"vLLM gives every tensor of every group a part of each slot: {format_bytes(slot_bytes)} per slot, "
        f"where the reference takes {format_bytes(reference_bytes)}"
    )
    return (note,)


def _refuse_other_device(device_type: str, caches: Tensor, device: Device) -> None:
    if device.emulation is None and caches.device.type == device_type:
        return
    raise UnavailableError(
        f"target vllm: the installed vLLM runs on {device_type}, and the caches lie on {device.name}: "
        f"use --device {device_type}, or install vLLM for the device"
    )


def _copy_seconds(finished: Sequence[Any], job: int) -> float:
    """Seconds between the events of a job.

    Raises:
        CopyRefusedError: The job failed, or is not there.
    """
    for result in finished:
        if result.job_id == job and result.success and result.transfer_time is not None:
            return float(result.transfer_time)
    raise CopyRefusedError(f"vLLM did not report job {job} as done, but {list(finished)}")


def _in_a_line(error: Exception) -> str:
    """Kind and message, and the place: vLLM's assertions say nothing."""
    message = next(iter(str(error).splitlines()), "")
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}{f': {message}' if message else ''} ({Path(place.filename).name}:{place.lineno})"
