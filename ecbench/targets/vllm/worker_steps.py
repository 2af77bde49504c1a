"""Steps of vLLM's encoder-cache worker over blocks that the caller names."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.errors import CopyRefusedError
from ecbench.targets.vllm.installation import find, keep_off_stdout, part_of
from ecbench.targets.vllm.stand_ins import POOLED_TORCH
from ecbench.targets.vllm.timed_worker import TimedWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor

    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import Device

    BlockIds = Mapping[str, Sequence[int]]

CONNECTOR = "vllm.distributed.ec_transfer.ec_connector.cpu"
_REFUSALS = (AssertionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What vLLM raises where it does not take an entry; a RuntimeError may also be a lost device."""


class WorkerSteps:
    """A worker that saves and loads entries whose blocks are known.

    Args:
        worker: vLLM's.
        device: vLLM runs on it.
        version: vLLM's.

    Raises:
        UnavailableError: A worker of another form.
    """

    def __init__(self, worker: Any, *, device: Device, version: str) -> None:
        self._device = device
        self._version = version
        self._metadata = find(f"{CONNECTOR}.common", "ECCPUConnectorMetadata")
        self._timed = TimedWorker(worker, on_host=device.copies_inside_submit)
        self._transfer_ids = itertools.count()
        region = part_of(worker, "_region")
        self._is_pinned = bool(part_of(region, "_is_pinned"))
        self._block_bytes: int = region.block_size_bytes
        self.region: Tensor = region.blocks.view(torch.uint8).view(-1)

    @property
    def notes(self) -> tuple[str, ...]:
        """Whose code runs, and what cannot be checked."""
        notes = [
            "vLLM's own worker, descriptors and copies",
            "vLLM's region has no guard bytes: a write past its end is not seen",
        ]
        if not self._device.copies_inside_submit:
            notes.append("vLLM loads into memory of its own, which has no guard bytes and is copied for the check")
            notes += [] if self._is_pinned else ["vLLM did not pin its region: the driver stages every copy"]
        return tuple(notes)

    def save(self, outputs: Mapping[str, Tensor], block_ids: BlockIds) -> CopyTimes:
        """One step that saves all outputs.

        Args:
            outputs: By entry.
            block_ids: Blocks of each entry.

        Raises:
            CopyRefusedError: vLLM refused an entry, or did not report all.
        """
        metadata = self._metadata(saves={key: list(block_ids[key]) for key in outputs})
        with self._refusals("save"):
            return self._timed.save(outputs, metadata)

    def load(
        self, shapes: Mapping[str, tuple[int, ...]], block_ids: BlockIds, allocate: Callable[[int], Tensor]
    ) -> CopyTimes:
        """One step that loads all entries.

        Args:
            shapes: By entry.
            block_ids: Blocks of each entry.
            allocate: Gives the memory in which the bytes are checked.

        Raises:
            CopyRefusedError: vLLM refused an entry, or did not report all.
        """
        loads = {key: (next(self._transfer_ids), list(block_ids[key]), shape) for key, shape in shapes.items()}
        with self._refusals("load"), _device_memory(allocate, on_host=self._device.copies_inside_submit):
            loaded, times = self._timed.load(self._metadata(loads=loads))
            self._put_where_checked(loaded, block_ids, allocate)
        return times

    def _put_where_checked(
        self, loaded: Mapping[str, Tensor], block_ids: BlockIds, allocate: Callable[[int], Tensor]
    ) -> None:
        """Copies what is not there yet to where it is expected: entries in the order of their first blocks."""
        order = sorted(loaded, key=lambda key: block_ids[key][0])
        ends = list(itertools.accumulate(len(block_ids[key]) * self._block_bytes for key in order))
        whole = allocate(ends[-1])
        misplaced = []
        for key, begin in zip(order, [0, *ends], strict=False):
            found = loaded[key].reshape(-1).view(torch.uint8)
            expected = whole[begin : begin + found.numel()]
            if found.data_ptr() != expected.data_ptr():
                misplaced.append((expected, _apart_from(found, whole)))
        for expected, found in misplaced:
            expected.copy_(found)

    @contextmanager
    def _refusals(self, what: str) -> Iterator[None]:
        try:
            with keep_off_stdout():
                yield
        except _REFUSALS as error:
            raise self._refused(what, error) from error
        except RuntimeError as error:
            if self._device.explain(error) is not None:
                raise
            raise self._refused(what, error) from error

    def _refused(self, what: str, error: Exception) -> CopyRefusedError:
        return CopyRefusedError(f"vLLM {self._version} did not {what}: {type(error).__name__}: {error}")


def _apart_from(found: Tensor, whole: Tensor) -> Tensor:
    """The bytes that were found, kept from being overwritten where they lie in the memory that is filled."""
    shared = found.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
    return found.clone() if shared else found


@contextmanager
def _device_memory(allocate: Callable[[int], Tensor], *, on_host: bool) -> Iterator[None]:
    """On a CPU, lets vLLM's worker allocate from the case's own memory, as from a device's warm pool."""
    POOLED_TORCH.allocate = allocate if on_host else None
    try:
        yield
    finally:
        POOLED_TORCH.allocate = None
