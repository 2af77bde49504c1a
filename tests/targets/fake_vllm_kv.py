"""A KV worker with the names and the slots of vLLM's, which moves its bytes by plain loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ecbench.core.errors import UnavailableError
from ecbench.targets.vllm.installation import VllmInstallation
from ecbench.targets.vllm.stand_ins import HostCopies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class FakeRegion:
    def __init__(self, *, engine_id, num_chunks, rank, kv_bytes_per_chunk, cpu_page_size, barrier):
        assert kv_bytes_per_chunk % 4096 == 0
        assert rank == 0
        barrier()
        self.base_tensor = torch.zeros(num_chunks * kv_bytes_per_chunk, dtype=torch.int8)
        self.row_bytes = kv_bytes_per_chunk
        self.rank_bytes = cpu_page_size
        self.is_pinned = False
        self.open = True

    def cleanup(self):
        self.open = False


class FakeHandler:
    def _fill_group_ops(self):
        pass

    def _swap_blocks_batch(self, sources, destinations, sizes, is_src_access_order_any=False):
        HostCopies.moved_s += 1e-9


class FakeWorker:
    """Tensors lie one after the other in a row of the region."""

    def __init__(self, *, kv_caches, blocks_per_chunk, num_cpu_chunks, mmap_region):
        self.region = mmap_region
        self.per_chunk = blocks_per_chunk
        self.groups = kv_caches.group_data_refs
        self.tensors = [cache.tensor.numpy() for cache in kv_caches.tensors]
        pages = [cache.page_size_bytes for cache in kv_caches.tensors]
        self.columns = np.cumsum([0, *(page * blocks_per_chunk for page in pages)]).tolist()
        assert [tensor.shape[1] for tensor in self.tensors] == pages
        assert self.columns[-1] == mmap_region.rank_bytes
        self.rows = mmap_region.base_tensor.numpy().reshape(num_cpu_chunks, mmap_region.row_bytes)
        self._store_handler, self._load_handler = FakeHandler(), FakeHandler()
        self.finished = []
        self.waited_for = []

    def submit_store(self, job, blocks, slots):
        return self._submit(self._store_handler, job, blocks, slots, storing=True)

    def submit_load(self, job, slots, blocks):
        return self._submit(self._load_handler, job, blocks, slots, storing=False)

    def wait(self, jobs):
        self.waited_for.append(jobs)

    def get_finished(self):
        finished, self.finished = self.finished, []
        return finished

    def shutdown(self):
        self.region.cleanup()

    def _submit(self, handler, job, blocks, slots, *, storing):
        copies = list(self._copies(blocks, slots))
        handler._fill_group_ops()
        for there, here in copies:
            (here if storing else there)[:] = there if storing else here
        handler._swap_blocks_batch(*[torch.zeros(len(copies))] * 3, is_src_access_order_any=not storing)
        self.finished.append(SimpleNamespace(job_id=job, success=True, transfer_time=1e-6))
        return True

    def _copies(self, blocks, slots):
        ids, chunks = iter(blocks.block_ids), iter(slots.block_ids)
        for refs, size, first in zip(self.groups, blocks.group_sizes, blocks.block_indices, strict=True):
            chunk = next(chunks) if size else None
            for number in range(first, first + size):
                block, within = next(ids), number % self.per_chunk
                chunk = next(chunks) if within == 0 and number > first else chunk
                for ref in refs:
                    there = self.tensors[ref.tensor_idx][block]
                    column = self.columns[ref.tensor_idx] + within * len(there)
                    yield there[: ref.page_size_bytes], self.rows[chunk][column:][: ref.page_size_bytes]


NAMES: dict[str, Callable[..., Any]] = {
    "SharedOffloadRegion": FakeRegion,
    "CPUOffloadingWorker": FakeWorker,
    "GPULoadStoreSpec": lambda ids, sizes, first: SimpleNamespace(
        block_ids=ids, group_sizes=sizes, block_indices=first
    ),
    "CPULoadStoreSpec": lambda ids: SimpleNamespace(block_ids=ids),
    "CanonicalKVCacheTensor": lambda tensor, size: SimpleNamespace(tensor=tensor, page_size_bytes=size),
    "CanonicalKVCacheRef": lambda tensor, size: SimpleNamespace(tensor_idx=tensor, page_size_bytes=size),
    "CanonicalKVCaches": lambda tensors, groups: SimpleNamespace(tensors=tensors, group_data_refs=groups),
}


@dataclass
class FakeVllm:
    """Stands in for what the adapters find of vLLM. Names can be replaced; regions and workers are kept."""

    device_type: str = "cpu"
    names: dict[str, Callable[..., Any]] = field(default_factory=lambda: dict(NAMES))
    made: list[Any] = field(default_factory=list)

    def find(self, module: str, name: str) -> Callable[..., Any]:
        if name not in self.names:
            raise UnavailableError(f"{module} has no {name}")

        def make(*args: Any, **named: Any) -> Any:
            self.made.append(self.names[name](*args, **named))
            return self.made[-1]

        return make

    def of(self, kind: type) -> Sequence[Any]:
        return [thing for thing in self.made if isinstance(thing, kind)]

    def install(self, monkeypatch) -> None:
        package = "ecbench.targets.vllm"
        installation = VllmInstallation("0.32.0", self.device_type)
        monkeypatch.setattr(f"{package}.kv_worker.find", self.find)
        monkeypatch.setattr(f"{package}.kv_offload.load_vllm", lambda: installation)
        monkeypatch.setattr(f"{package}.kv_offload.install_kv_stand_ins", lambda device_type: (device_type,))
