"""Our models as vLLM's KV cache planner takes them: a spec per cache, in order of registration, and a config around."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.errors import UnavailableError
from ecbench.kv_offload import GroupKind, HostLayout
from ecbench.kv_offload.real_scheduler import RequestRefusedError
from ecbench.targets.vllm.installation import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecbench.kv_offload import CacheGroup, RegisteredCache
    from ecbench.kv_offload.real_scheduler import SchedulerRequest

_SPECS = "vllm.v1.kv_cache_interface"
_PLANNERS = ("vllm.v1.core.kv_cache_planning", "vllm.v1.core.kv_cache_utils")
"""0.33 moved the planner out of the second."""
_MARKS_DRAFTS_LAST = "get_global_kv_cache_groups"
"""Where it exists, grouping alone marks no draft layers."""
KV_LAYOUT = "BLHNC"
"""Blocks outermost: all layers of a group lie packed in a block."""
MAX_LAYERS = 4096
"""More caches in one group are a mistake, and each is an object of vLLM's."""
_SHARED_REGION_EXECUTOR = "mp"
_OTHER_EXECUTOR = "ray"
"""With it every rank keeps a copy of its own."""
SPARE_BLOCKS = 8
"""Beside those of the prompt and its replay: vLLM keeps one back for itself."""


@cache
def named(module: str, name: str) -> Any:
    """A name of one of vLLM's modules, looked up once per process.

    Raises:
        UnavailableError: It is not there.
    """
    return find(module, name)


@cache
def planner(name: str) -> Any:
    """A function of vLLM's KV cache planner.

    Raises:
        UnavailableError: There is none of that name.
    """
    try:
        return find(_PLANNERS[0], name)
    except UnavailableError:
        return find(_PLANNERS[1], name)


def planned_groups(config: Any, specs: dict[str, Any]) -> list[Any]:
    """Lets vLLM group the caches of a model's layers and mark the group of the draft layers.

    Args:
        config: From `engine_config`.
        specs: From `layer_specs`.
    """
    try:
        groups: list[Any] = planner(_MARKS_DRAFTS_LAST)(config, [specs])
    except UnavailableError:
        groups = planner("get_kv_cache_groups")(config, specs)
    return groups


def layer_specs(caches: tuple[RegisteredCache, ...]) -> dict[str, Any]:
    """Specs of a DeepSeek-V4 model's caches by name, in order of registration."""
    full, sliding = named(_SPECS, "MLAAttentionSpec"), named(_SPECS, "SlidingWindowMLASpec")
    return {registered.name: _mla_spec(full, sliding, registered) for registered in caches}


def given_groups(groups: tuple[CacheGroup, ...]) -> list[Any]:
    """Makes vLLM's groups of groups that are given, so that its planner has nothing to group.

    Raises:
        RequestRefusedError: A group that the real scheduler cannot be asked about.
    """
    make = named(_SPECS, "KVCacheGroupSpec")
    made = []
    for group in groups:
        specs = dict(_group_specs(group))
        made.append(make(list(specs), _one_spec(specs), is_eagle_group=group.eagle))
    return made


def engine_config(request: SchedulerRequest, blocks: int) -> Any:
    """The namespace that stands in for vLLM's configuration.

    Args:
        request: What is scheduled.
        blocks: Blocks on the device.
    """
    settings = request.settings
    executor = _SHARED_REGION_EXECUTOR if settings.host_layout is HostLayout.REPLICATED else _OTHER_EXECUTOR
    draft = any(group.eagle for group in request.model.groups)
    length = request.tokens + 2
    return SimpleNamespace(
        cache_config=_CacheConfig(request, blocks),
        parallel_config=_parallel_config(settings.tensor_parallel, executor),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        model_config=SimpleNamespace(
            use_mla=True,
            model=request.model.name,
            dtype=torch.bfloat16,
            max_model_len=length,
            supports_kv_cache_grouping=False,
            get_total_num_kv_heads=lambda: 1,
            hf_config=SimpleNamespace(model_type="deepseek_v4"),
        ),
        speculative_config=_DRAFT if draft else None,
        kv_transfer_config=SimpleNamespace(engine_id="ecbench", kv_connector_extra_config=_connector_config(request)),
        kv_events_config=None,
        use_v2_model_runner=False,
        num_prefill_lookahead_tokens=0,
        max_in_flight_tokens=length,
        device_config=SimpleNamespace(device_type="cpu"),
    )


_DRAFT = SimpleNamespace(method="mtp", use_eagle=lambda: True, use_eagle_block_drop=lambda: True)


class _CacheConfig(SimpleNamespace):
    def __init__(self, request: SchedulerRequest, blocks: int) -> None:
        settings = request.settings
        super().__init__(
            block_size=_engine_block_size(request),
            prefix_match_unit=settings.prefix_match_unit,
            enable_prefix_caching=True,
            prefix_cache_retention_interval=settings.retention_interval,
            num_gpu_blocks_override=blocks,
            kv_cache_layout=KV_LAYOUT,
            cache_dtype="auto",
        )

    def get_resolved_kv_cache_layout(self) -> Any:
        return named(_SPECS, "KVCacheLayout")[KV_LAYOUT]


def _engine_block_size(request: SchedulerRequest) -> int:
    groups = request.model.groups
    return next(
        (group.tokens_per_block for group in groups if group.kind == GroupKind.FULL), groups[0].tokens_per_block
    )


def _parallel_config(ranks: int, executor: str) -> SimpleNamespace:
    return SimpleNamespace(
        world_size=ranks,
        tensor_parallel_size=ranks,
        pipeline_parallel_size=1,
        prefill_context_parallel_size=1,
        decode_context_parallel_size=1,
        distributed_executor_backend=executor,
        nnodes_within_dp=1,
        rank=0,
        data_parallel_index=0,
        data_parallel_size=1,
        data_parallel_rank_local=0,
    )


def _connector_config(request: SchedulerRequest) -> dict[str, Any]:
    settings = request.settings
    sizes = {"blocks_per_chunk": settings.blocks_per_chunk, "block_size": settings.connector_block_size}
    slot_bytes = request.plan().layout.host_slot_bytes
    chunks = sum(request.tokens // group.tokens_per_block for group in request.model.groups)
    return {
        **{name: size for name, size in sizes.items() if size is not None},
        "cpu_bytes_to_use": 2 * slot_bytes * (chunks + SPARE_BLOCKS),
    }


def _mla_spec(full: Any, sliding: Any, registered: RegisteredCache) -> Any:
    cache, shape = registered.cache, registered.cache.shape
    pages = _pages(shape.tokens_per_block, cache.page_size_bytes, cache.real_page_size_bytes, cache.tokens_per_entry)
    draft = {"is_draft": registered.draft} if "is_draft" in full.__dataclass_fields__ else {}
    common = {**pages, **draft, "num_kv_heads": 1, "head_size": 1, "max_tp_shards": 1, "model_version": "deepseek_v4"}
    if shape.window_tokens is None:
        return full(**common)
    return sliding(**common, sliding_window=shape.window_tokens)


def _pages(tokens_per_block: int, page_bytes: int, real_bytes: int, tokens_per_entry: int) -> dict[str, Any]:
    entries = tokens_per_block // tokens_per_entry
    return {
        "block_size": tokens_per_block,
        "dtype": torch.uint8,
        "tokens_per_state": tokens_per_entry,
        "state_content_bytes": real_bytes // entries if entries else 0,
        "page_size_padded": page_bytes if page_bytes != real_bytes else None,
    }


def _group_specs(group: CacheGroup) -> Iterator[tuple[str, Any]]:
    if group.layers > MAX_LAYERS:
        raise RequestRefusedError(f"group {group.name!r} has {group.layers} caches: give at most {MAX_LAYERS}")
    for tensor in group.tensors:
        spec = _given_spec(group, tensor.page_size_bytes, tensor.real_page_size_bytes)
        for layer in range(tensor.layers):
            yield f"{group.name}.{tensor.name}.{layer}", spec


def _given_spec(group: CacheGroup, page_bytes: int, real_bytes: int) -> Any:
    # One entry per block where a token has no whole number of bytes: only the page's size counts here.
    per_entry = group.tokens_per_block if real_bytes % group.tokens_per_block else 1
    common = {
        **_pages(group.tokens_per_block, page_bytes, real_bytes, per_entry),
        "num_kv_heads": 1,
        "head_size": 1,
        "max_tp_shards": 1,
    }
    match group.kind:
        case GroupKind.FULL:
            return named(_SPECS, "FullAttentionSpec")(**common)
        case GroupKind.SLIDING:
            retained = group.retained_tokens
            return named(_SPECS, "SlidingWindowSpec")(
                **common, sliding_window=group.window_tokens, extra_retained_tokens=retained
            )
        case GroupKind.CHUNKED:
            return named(_SPECS, "ChunkedLocalAttentionSpec")(**common, attention_chunk_size=group.window_tokens)
        case _:
            raise RequestRefusedError(
                f"group {group.name!r} keeps Mamba states, which vLLM's engine hands over in a way of its own: "
                "leave it out to compare the others"
            )


def _one_spec(specs: dict[str, Any]) -> Any:
    """The spec that layers have in common, or vLLM's wrapper of those of different pages."""
    different = set(specs.values())
    return different.pop() if len(different) == 1 else named(_SPECS, "UniformTypeKVCacheSpecs").from_specs(specs)
