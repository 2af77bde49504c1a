"""KV offloading of hybrid models: cache groups, what is stored of a prompt, what a request hits, and the proof.

A *block* is one page of one cache group on the device, a *chunk* what is offloaded at once, a *group* layers that share
one block table. The path through the room is `load_model` -> `plan_store` -> `prove`, `look_up`, `host_capacity`.
"""

from ecbench.kv_offload.block_sizes import BlockSizes, hashes_per_chunk, resolve_block_sizes, resolve_blocks_per_chunk
from ecbench.kv_offload.capacity import HostCapacity, host_capacity
from ecbench.kv_offload.groups import CacheGroup, CacheTensor, GroupKind, HybridModel, KvPlacement, MambaCacheMode
from ecbench.kv_offload.layout import (
    ENGINE_RETENTION_INTERVAL,
    GroupLayout,
    HostLayout,
    OffloadLayout,
    OffloadSettings,
    lay_out,
)
from ecbench.kv_offload.loading import GroupLoad, plan_load
from ecbench.kv_offload.lookup import HitLengths, look_up
from ecbench.kv_offload.mismatches import Mismatch, MismatchKind, find_mismatches
from ecbench.kv_offload.models.group_file import FileRequest
from ecbench.kv_offload.models.layer_caches import RegisteredCache
from ecbench.kv_offload.models.loading import (
    ModelOptions,
    cache_dtypes,
    indexers,
    load_model,
    model_names,
    registered_caches,
    requested_in,
)
from ecbench.kv_offload.planning import GroupPlan, OffloadPlan, PlanTotals, plan_store
from ecbench.kv_offload.policies import policy_names
from ecbench.kv_offload.proof import NotLoadable, Proof, advertised_boundaries, prove
from ecbench.kv_offload.reachability import stored_blocks

__all__ = [
    "ENGINE_RETENTION_INTERVAL",
    "BlockSizes",
    "CacheGroup",
    "CacheTensor",
    "FileRequest",
    "GroupKind",
    "GroupLayout",
    "GroupLoad",
    "GroupPlan",
    "HitLengths",
    "HostCapacity",
    "HostLayout",
    "HybridModel",
    "KvPlacement",
    "MambaCacheMode",
    "Mismatch",
    "MismatchKind",
    "ModelOptions",
    "NotLoadable",
    "OffloadLayout",
    "OffloadPlan",
    "OffloadSettings",
    "PlanTotals",
    "Proof",
    "RegisteredCache",
    "advertised_boundaries",
    "cache_dtypes",
    "find_mismatches",
    "hashes_per_chunk",
    "host_capacity",
    "indexers",
    "lay_out",
    "load_model",
    "look_up",
    "model_names",
    "plan_load",
    "plan_store",
    "policy_names",
    "prove",
    "registered_caches",
    "requested_in",
    "resolve_block_sizes",
    "resolve_blocks_per_chunk",
    "stored_blocks",
]
