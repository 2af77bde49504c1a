"""ecbench's own encoder-cache connector as a target of ``conformance``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from ecbench.core.conformance_protocols import Load, StepPlan
from ecbench.core.units import parse_size
from ecbench.encoder_cache.cache import EmbeddingCache
from ecbench.encoder_cache.region import region_blocks
from ecbench.encoder_cache.scheduler import EncoderCacheScheduler
from ecbench.targets.reference_conformance_worker import ReferenceWorker
from ecbench.transfer.shared_region import RegionHandle, SharedRegion, attach_region, create_region
from ecbench.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from ecbench.core.conformance_protocols import ConnectorSpec, Finished


class ReferenceAllocator:
    """`EmbeddingCache` with plain lists.

    Args:
        num_blocks: Its blocks.
    """

    def __init__(self, num_blocks: int) -> None:
        self._cache = EmbeddingCache(num_blocks)
        self.mark_ready = self._cache.mark_ready
        self.pin = self._cache.pin
        self.unpin = self._cache.unpin
        self.discard = self._cache.discard
        self.is_ready = self._cache.is_ready

    def alloc(self, key: str, blocks: int) -> list[int] | None:
        """Allocates blocks, or gives None."""
        block_ids = self._cache.alloc(key, blocks)
        return None if block_ids is None else list(block_ids)

    def holds(self, key: str) -> bool:
        """Tells whether there is such an entry."""
        return key in self._cache


class ReferenceRegion:
    """A shared region.

    Args:
        region: Created or attached.
    """

    def __init__(self, region: SharedRegion) -> None:
        self._region = region

    @property
    def blocks(self) -> Tensor:
        """The blocks."""
        return self._region.blocks

    def cleanup(self) -> None:
        """Closes it."""
        self._region.close()


class ReferenceScheduler:
    """`EncoderCacheScheduler` with plain lists.

    Args:
        spec: How it is made.
    """

    def __init__(self, spec: ConnectorSpec) -> None:
        self._block_bytes = _block_bytes(spec)
        cache = EmbeddingCache(_num_blocks(spec))
        self._scheduler = EncoderCacheScheduler(cache, self._block_bytes, spec.participants)

    def plan_step(self, touched: Mapping[str, int]) -> StepPlan:
        """Plans a step."""
        plan = self._scheduler.plan_step({key: rows * self._block_bytes for key, rows in touched.items()})
        saves = {key: list(ids) for key, ids in plan.saves.items()}
        return StepPlan(saves, {key: Load(plan.tickets[key], list(ids)) for key, ids in plan.loads.items()})

    def report(self, participant: int, finished: Finished) -> None:
        """Passes a report on."""
        tickets = [ticket for ticket in finished.loaded if isinstance(ticket, int)]
        self._scheduler.report(participant, saved=finished.saved, loaded=tickets, abandoned=finished.abandoned)

    def shutdown(self) -> None:
        """Holds nothing."""


def _block_bytes(spec: ConnectorSpec) -> int:
    return spec.row_elements * spec.dtype.itemsize


def _num_blocks(spec: ConnectorSpec) -> int:
    capacity = parse_size(spec.capacity) if isinstance(spec.capacity, str) else spec.capacity
    return region_blocks(capacity, _block_bytes(spec))


class ReferenceConformance:
    """The reference connector. It has no known difference: it is what the behaviours were written down from."""

    known_differences: ClassVar[Mapping[str, str]] = {}
    capacity_option = "capacity"

    def __init__(self) -> None:
        self._handles: dict[str, RegionHandle] = {}

    @property
    def version(self) -> str:
        """This ecbench."""
        return f"ecbench {__version__}"

    @property
    def device(self) -> str:
        """The host."""
        return "cpu"

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Nothing is replaced."""
        return ()

    def files(self, name: str) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's signature
        """Its regions have no names."""
        return ()

    def allocator(self, num_blocks: int) -> ReferenceAllocator:
        """A fresh allocator."""
        return ReferenceAllocator(num_blocks)

    def create_region(self, name: str, num_blocks: int, block_size_bytes: int) -> ReferenceRegion:
        """A new region, whose handle is kept under its name."""
        return ReferenceRegion(self._create(name, num_blocks, block_size_bytes))

    def open_region(self, name: str, num_blocks: int, block_size_bytes: int) -> ReferenceRegion:  # noqa: ARG002
        """Attaches by the handle, which knows its size."""
        return ReferenceRegion(attach_region(self._handles[name]))

    def wait_for_size(self, descriptor: int, size_bytes: int, timeout_s: float) -> None:
        """Attaches to the descriptor as another rank would."""
        inode = os.fstat(descriptor).st_ino
        attach_region(RegionHandle(os.getpid(), descriptor, inode, 1, size_bytes, 0), timeout_s).close()

    def worker(self, spec: ConnectorSpec) -> ReferenceWorker:
        """A worker over a region of its own, or over that of an earlier one of the same name."""
        known = self._handles.get(spec.name)
        region = attach_region(known) if known else self._create(spec.name, _num_blocks(spec), _block_bytes(spec))
        return ReferenceWorker(spec, region)

    def scheduler(self, spec: ConnectorSpec) -> ReferenceScheduler:
        """A scheduler."""
        return ReferenceScheduler(spec)

    def _create(self, name: str, num_blocks: int, block_size_bytes: int) -> SharedRegion:
        region = create_region(num_blocks, block_size_bytes)
        self._handles[name] = region.handle
        return region
