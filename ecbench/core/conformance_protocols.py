"""What an encoder-cache connector must offer to be checked for conformance.

A class that offers `ConformanceTarget` can be checked with ``ecbench conformance --target module:Class``. Everything a
check hands over or gets back is plain: block ids are lists of ints, descriptors are addresses and bytes, tensors are
torch's. A part that a target cannot offer raises `NotApplicableError` with the reason.

An operation that refuses raises; which exception does not matter, what its text names does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor


class NotApplicableError(BaseException):
    """A check says nothing about this target, or cannot be made on this machine; the message says why.

    No `Exception`: a check that takes any of those for a refusal must not take this for one.
    """


class Descriptor(NamedTuple):
    """One copy of a submitted batch, by absolute addresses from 0 to 2**64 - 1."""

    source: int
    destination: int
    size_bytes: int


class Load(NamedTuple):
    """An entry to load: the scheduler hands it out, the worker reports its ticket."""

    ticket: Hashable
    """What the worker reports when the load is done; may be the key."""
    block_ids: list[int]


class StepPlan(NamedTuple):
    """What a step saves and loads."""

    saves: dict[str, list[int]]
    loads: dict[str, Load]


class Finished(NamedTuple):
    """What a worker reports as ended since it was asked last."""

    saved: tuple[str, ...] = ()
    """Keys whose bytes are in the region."""
    loaded: tuple[Hashable, ...] = ()
    """Tickets of loads whose bytes are on the device."""
    abandoned: tuple[str, ...] = ()
    """Keys that were to be saved and will not be; empty where a connector has no such report."""


@dataclass(frozen=True)
class ConnectorSpec:
    """How a worker or a scheduler is to be made; those of one connector are given the same name.

    Args:
        name: Unique among all connectors of a run; part of the names of the target's files.
        capacity: Host memory for the region as a user writes it: bytes, or a text such as ``"1GiB"``.
        row_elements: Elements of one row of an encoder output; a row is a block.
        dtype: The model's dtype.
        participants: Workers that load and report.
        tensor_rank: This worker's tensor-parallel rank.
        context_rank: This worker's prefill-context-parallel rank.
        holds_copies: Copies wait until `ConformanceWorker.run_copies`, as those of a busy device do.
        unsigned_addresses: The device's descriptors are uint64 and its addresses may be 2**63 or more.
    """

    name: str
    capacity: int | str
    row_elements: int
    dtype: torch.dtype
    participants: int = 1
    tensor_rank: int = 0
    context_rank: int = 0
    holds_copies: bool = False
    unsigned_addresses: bool = False


class ConformanceAllocator(Protocol):
    """Blocks of a region by entry, without a region."""

    def alloc(self, key: str, blocks: int) -> list[int] | None:
        """Allocates blocks for a new entry; None where there is no room now."""

    def mark_ready(self, key: str) -> None:
        """Makes an entry loadable and evictable."""

    def pin(self, key: str) -> None:
        """Keeps a ready entry from being evicted."""

    def unpin(self, key: str) -> None:
        """Takes one pin off."""

    def discard(self, key: str) -> None:
        """Gives up an entry that is not ready."""

    def holds(self, key: str) -> bool:
        """Tells whether there is such an entry."""

    def is_ready(self, key: str) -> bool:
        """Tells whether there is such an entry and it was marked ready."""


class ConformanceRegion(Protocol):
    """Shared host memory."""

    @property
    def blocks(self) -> Tensor:
        """One byte per element, shape ``(num_blocks, block_size_bytes)``."""

    def cleanup(self) -> None:
        """Gives the region up; may be called twice."""


class ConformanceWorker(Protocol):
    """Saves encoder outputs and loads them. A step: `begin_step`, `load`, `save` for each output, `flush`, `poll`."""

    @property
    def blocks(self) -> Tensor:
        """The region: one byte per element, shape ``(num_blocks, block_size_bytes)``."""

    @property
    def pinned(self) -> bool:
        """The region is registered with a driver."""

    def to_device(self, host: Tensor) -> Tensor:
        """A copy of a contiguous host tensor where encoder outputs live."""

    def to_host(self, tensor: Tensor) -> Tensor:
        """A host copy of a contiguous tensor that `to_device` or `load` gave."""

    def begin_step(self, saves: Mapping[str, Sequence[int]], loads: Mapping[str, tuple[Load, tuple[int, int]]]) -> None:
        """Announces what a step does.

        Args:
            saves: Blocks by key.
            loads: What to load by key, with the shape of the encoder output.
        """

    def save(self, key: str, output: Tensor) -> None:
        """Adds an output to the step's saves."""

    def flush(self) -> None:
        """Submits the step's saves."""

    def load(self, resident: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Submits the step's loads.

        Args:
            resident: Outputs that are on the device already, by key.

        Returns:
            Every output that was loaded, by key.
        """

    def poll(self) -> Finished:
        """Reports what ended; never waits."""

    def batches(self) -> list[list[Descriptor]]:
        """The descriptors of every batch submitted so far."""

    def run_copies(self) -> None:
        """Lets held copies run; does nothing where none are held."""

    def descriptor_arrays(self) -> tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]:
        """NumPy arrays over the source, destination and size columns of the batch that was submitted last."""

    def lose_device(self) -> None:
        """From now on, waiting for a copy raises RuntimeError."""

    def shutdown(self) -> None:
        """Ends the worker and gives up the region; may be called twice."""


class ConformanceScheduler(Protocol):
    """Decides what is saved and loaded."""

    def plan_step(self, touched: Mapping[str, int]) -> StepPlan:
        """Plans a step.

        Args:
            touched: Rows of the encoder output of each entry that the step's requests use.
        """

    def report(self, participant: int, finished: Finished) -> None:
        """Takes the report of one worker, counted from 0."""

    def shutdown(self) -> None:
        """Ends the scheduler; may be called twice."""


class ConformanceTarget(Protocol):
    """A connector that can be checked. Made once, without arguments; each check uses it in a process of its own."""

    known_differences: ClassVar[Mapping[str, str]]
    """Why this target is meant to do otherwise, by the name of a check."""
    capacity_option: ClassVar[str]
    """What users call the setting behind `ConnectorSpec.capacity`."""

    @property
    def version(self) -> str:
        """What is checked, with its version."""

    @property
    def device(self) -> str:
        """Where encoder outputs live: a device of ``ecbench list devices``."""

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Parts of the target or its device that are replaced, in words."""

    def files(self, name: str) -> tuple[str, ...]:
        """Paths of every file that a connector or a region of this name may make."""

    def allocator(self, num_blocks: int) -> ConformanceAllocator:
        """A fresh allocator."""

    def create_region(self, name: str, num_blocks: int, block_size_bytes: int) -> ConformanceRegion:
        """A new region."""

    def open_region(self, name: str, num_blocks: int, block_size_bytes: int) -> ConformanceRegion:
        """The region that was created under this name by this process or one of its parents, once more."""

    def wait_for_size(self, descriptor: int, size_bytes: int, timeout_s: float) -> None:
        """What an opener does until a file that another process is making has its size; raises after the timeout."""

    def worker(self, spec: ConnectorSpec) -> ConformanceWorker:
        """A worker; the first one of a name creates the region."""

    def scheduler(self, spec: ConnectorSpec) -> ConformanceScheduler:
        """A scheduler."""
