"""Makes vLLM's KV worker, its region and its jobs, from a model's caches and slots."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.errors import DoesNotFitError
from ecbench.targets.vllm.installation import find
from ecbench.targets.vllm.kv_layout import name_blocks
from ecbench.targets.vllm.kv_stand_ins import KV_WORKER_MODULE, all_ranks_are_here, as_device_tensor
from ecbench.transfer.shared_region import refuse_if_too_large

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from ecbench.kv_offload.transfers import GroupTransfer, KvMemory
    from ecbench.targets.vllm.kv_layout import CacheRefs

_OFFLOAD = "vllm.v1.kv_offload"
_BASE = f"{_OFFLOAD}.base"
_RANK = 0


def job_of(transfers: Sequence[GroupTransfer]) -> tuple[Any, Any]:
    """Blocks and slots of a job, as vLLM's scheduler names them to the worker.

    Args:
        transfers: One per group, in the order of the groups.

    Returns:
        ``GPULoadStoreSpec`` and ``CPULoadStoreSpec``.
    """
    ids = name_blocks(transfers)
    blocks = find(_BASE, "GPULoadStoreSpec")(ids.block_ids, ids.group_sizes, ids.first_blocks)
    return blocks, find(f"{_OFFLOAD}.cpu.common", "CPULoadStoreSpec")(ids.slots)


def create_kv_region(refs: CacheRefs, slots: int) -> Any:
    """Makes a ``SharedOffloadRegion``. No other rank comes, so its name leaves /dev/shm as soon as it is mapped.

    Args:
        refs: What a slot holds.
        slots: Slots.

    Raises:
        DoesNotFitError: /dev/shm has less room.
    """
    make = find(f"{_OFFLOAD}.cpu.shared_offload_region", "SharedOffloadRegion")
    refuse_if_too_large(slots * refs.slot_bytes)
    try:
        return make(
            engine_id=f"ecbench_{os.getpid()}_{secrets.token_hex(8)}",
            num_chunks=slots,
            rank=_RANK,
            kv_bytes_per_chunk=refs.slot_bytes,
            cpu_page_size=refs.rank_bytes,
            barrier=all_ranks_are_here,
        )
    except (OSError, RuntimeError) as error:
        raise DoesNotFitError(
            f"vLLM cannot create its region of {slots} slots of {refs.slot_bytes} bytes in /dev/shm "
            f"({type(error).__name__}: {error}): use a shorter prompt, or remount it larger"
        ) from error


def open_kv_worker(refs: CacheRefs, caches: Tensor, memory: KvMemory, region: Any) -> Any:
    """Makes a ``CPUOffloadingWorker``, which owns the region from then on.

    Args:
        refs: Tensors and groups.
        caches: Device memory: uint8, shape ``(memory.device.nbytes,)``.
        memory: Where everything lies.
        region: From `create_kv_region`.
    """
    tensor_of, ref_of = find(_BASE, "CanonicalKVCacheTensor"), find(_BASE, "CanonicalKVCacheRef")
    rows = [caches[place.first_byte : place.end_byte].view(place.rows, place.row_bytes) for place in refs.tensors]
    tensors = [
        tensor_of(as_device_tensor(row.view(torch.int8)), place.row_bytes)
        for row, place in zip(rows, refs.tensors, strict=True)
    ]
    groups = [[ref_of(ref.tensor, ref.size_bytes) for ref in group] for group in refs.groups]
    return find(KV_WORKER_MODULE, "CPUOffloadingWorker")(
        kv_caches=find(_BASE, "CanonicalKVCaches")(tensors, groups),
        blocks_per_chunk=memory.layout.blocks_per_chunk,
        num_cpu_chunks=memory.host.slots,
        mmap_region=region,
    )
