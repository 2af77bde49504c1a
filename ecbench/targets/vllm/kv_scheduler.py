"""A request through the installed vLLM's KV cache planner and offloading scheduler; only the workers are absent.

The request is planned, allocated, scheduled, stored and replayed by vLLM's own code. What stands around it is stood in
for: the configuration, the per-layer specs, and the workers' word that a transfer is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ecbench.kv_offload import HostLayout
from ecbench.kv_offload.real_scheduler import RequestRefusedError, Scheduled, ScheduledGroup, SchedulerRequest
from ecbench.targets.vllm.installation import load_vllm
from ecbench.targets.vllm.kv_models import (
    SPARE_BLOCKS,
    engine_config,
    given_groups,
    layer_specs,
    named,
    planned_groups,
    planner,
)
from ecbench.targets.vllm.kv_refusals import refusing
from ecbench.targets.vllm.kv_requests import OUTPUTS, UTILITIES, make_request, step_output

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OFFLOADING = "vllm.distributed.kv_transfer.kv_connector.v1.offloading"
_GIVEN_GROUPS = "cache groups (a file's, where vLLM would group layers)"
_SHARED_REGION = "shared host region (taken to be there, only its sizes count)"
STAND_INS = ("config object", "per-layer KV cache specs", "workers' acknowledgements of transfers")
_PROMPT, _REPLAY = "prompt", "replay"


class VllmScheduler:
    """The installed vLLM's scheduler side of KV offloading.

    Raises:
        UnavailableError: No vLLM, or one without the names that are needed.
    """

    name = "vllm"

    def __init__(self) -> None:
        self.version = load_vllm().version
        self._also: dict[str, None] = {}
        _register_specs()

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """What of the engine was stood in for so far, in words."""
        return (*STAND_INS, *self._also)

    def schedule(self, request: SchedulerRequest) -> Scheduled:
        """Runs a request, from its arrival to the hit of its replay.

        Raises:
            RequestRefusedError: vLLM does not take it, in its own words.
        """
        if request.caches is None:
            self._also[_GIVEN_GROUPS] = None
        if request.settings.host_layout is HostLayout.REPLICATED:
            self._also[_SHARED_REGION] = None
        with refusing():
            return _Engine.start(request).run()

    def masks(self, request: SchedulerRequest) -> tuple[NDArray[np.bool_] | None, ...]:
        """Asks only which chunks each group would store."""
        from ecbench.targets.vllm.kv_mask import group_masks  # noqa: PLC0415 - beside, not below

        with refusing():
            return group_masks(request)


@cache
def _register_specs() -> None:
    named("vllm.v1.core.single_type_kv_cache_manager", "register_all_kvcache_specs")(None)


@dataclass(frozen=True)
class _Engine:
    """vLLM's parts for one request."""

    request: SchedulerRequest
    config: Any
    layers: tuple[tuple[Any, ...], ...]
    """Specs of each group's layers."""
    sizes: tuple[int, int]
    """Scheduler block and hash block, in tokens."""
    spec: Any
    scheduler: Any
    blocks: Any
    """The ``KVCacheManager``."""

    @classmethod
    def start(cls, request: SchedulerRequest) -> _Engine:
        """Plans the caches and starts the scheduler."""
        config = engine_config(request, _device_blocks(request))
        groups = _groups(request, config)
        worker_cache = planner("get_kv_cache_config_from_groups")(config, groups, 1)
        ranks = request.settings.tensor_parallel
        worker_cache.kv_tp_replicas = planner("kv_cache_groups_tp_replicas")(groups, ranks)
        kv_cache = planner("generate_scheduler_kv_cache_config")([worker_cache])
        sizes = named(UTILITIES, "resolve_kv_cache_block_sizes")(kv_cache, config)
        spec = _offloading_spec(request)(named(f"{_OFFLOADING}.config", "build_offloading_config")(config, kv_cache))
        return cls(
            request=request,
            config=config,
            layers=tuple(_specs_of_layers(group) for group in groups),
            sizes=sizes,
            spec=spec,
            scheduler=named(f"{_OFFLOADING}.scheduler", "OffloadingConnectorScheduler")(spec, config, kv_cache),
            blocks=_block_manager(config, kv_cache, sizes),
        )

    def run(self) -> Scheduled:
        """Stores the prompt and looks up its replay."""
        prompt = self._arrive(_PROMPT, self.request.tokens)
        self._store(prompt)
        groups = tuple(self._scheduled_group(group, prompt) for group in self.scheduler.config.kv_group_configs)
        replay = self._arrive(_REPLAY, self.request.tokens + 1)
        hit, _ = self.scheduler.get_num_new_matched_tokens(replay, 0)
        return Scheduled(
            alignment_tokens=self.scheduler.config.alignment_tokens,
            scheduler_block_size=self.sizes[0],
            hash_block_size=self.sizes[1],
            block_stride_bytes=self.spec.config.worker_kv_bytes_per_block,
            host_slot_bytes=self.spec.kv_bytes_per_chunk,
            replay_hit_tokens=hit or 0,
            groups=groups,
        )

    def _arrive(self, name: str, tokens: int) -> Any:
        request = make_request(name, tokens, self.sizes[1], self.request.shared_prefix)
        self.scheduler.on_new_request(request)
        return request

    def _store(self, prompt: Any) -> None:
        """Computes the prompt step by step, lets it produce one token, and finishes it."""
        self.scheduler.get_num_new_matched_tokens(prompt, 0)
        status = named("vllm.v1.request", "RequestStatus")
        step = self.request.step_tokens or self.request.tokens
        for done in range(0, self.request.tokens, step):
            self._compute(prompt, min(step, self.request.tokens - done))
            prompt.status = status.RUNNING
        prompt.append_output_token_ids(0)
        prompt.status = status.FINISHED_LENGTH_CAPPED
        self.scheduler.request_finished(prompt)
        output = named(OUTPUTS, "SchedulerOutput").make_empty()
        output.finished_req_ids = {_PROMPT}
        self._send(output)

    def _compute(self, prompt: Any, tokens: int) -> None:
        new = self.blocks.allocate_slots(prompt, tokens)
        if new is None:
            raise RequestRefusedError("no block is free on the device")
        self.scheduler.update_state_after_alloc(prompt, new, 0)
        self._send(step_output(prompt, new.get_block_ids(), tokens))
        prompt.num_computed_tokens += tokens

    def _send(self, output: Any) -> None:
        """Hands a step to the workers, and says that they have done its transfers."""
        jobs = self.scheduler.build_connector_meta(output).store_jobs
        done = named(f"{_OFFLOADING}.common", "OffloadingWorkerMetadata")(
            completed_jobs=dict.fromkeys(jobs, self.config.parallel_config.world_size)
        )
        self.scheduler.update_connector_output(
            named("vllm.v1.outputs", "KVConnectorOutput")(kv_connector_worker_meta=done)
        )

    def _scheduled_group(self, group: Any, prompt: Any) -> ScheduledGroup:
        layers = self.layers[group.group_idx]
        return ScheduledGroup(
            caches=len(layers),
            tokens_per_block=group.tokens_per_block,
            tokens_per_chunk=group.tokens_per_chunk,
            window_chunks=group.sliding_window_size_in_chunks,
            eagle=group.is_eagle_group,
            page_size_bytes=sum(spec.page_size_bytes for spec in layers),
            real_page_size_bytes=sum(spec.real_page_size_bytes for spec in layers),
            stored=self._stored_chunks(group, prompt),
        )

    def _stored_chunks(self, group: Any, prompt: Any) -> NDArray[np.bool_]:
        """Asks the manager for the key of every whole chunk of the prompt."""
        make_key = named("vllm.v1.kv_offload.base", "make_offload_key")
        hit = named("vllm.v1.kv_offload.base", "LookupResult").HIT
        asker = named("vllm.v1.kv_offload.base", "ReqContext")(req_id="asker")
        per_chunk = group.hashes_per_chunk
        lookup = self.scheduler.manager.lookup
        return np.array(
            [
                lookup(make_key(prompt.block_hashes[(chunk + 1) * per_chunk - 1], group.group_idx), asker) is hit
                for chunk in range(self.request.tokens // group.tokens_per_chunk)
            ],
            dtype=np.bool_,
        )


def _groups(request: SchedulerRequest, config: Any) -> list[Any]:
    """Lets vLLM group the caches of a model's layers; groups of a file are taken as they are."""
    if request.caches is None:
        return given_groups(request.model.groups)
    return planned_groups(config, layer_specs(request.caches))


def _specs_of_layers(group: Any) -> tuple[Any, ...]:
    spec = group.kv_cache_spec
    by_name = getattr(spec, "kv_cache_specs", None)
    return tuple(by_name[name] if by_name else spec for name in group.layer_names)


def _device_blocks(request: SchedulerRequest) -> int:
    """Enough for the whole prompt in every group."""
    return sum(-(-request.tokens // group.tokens_per_block) for group in request.model.groups) + SPARE_BLOCKS


def _offloading_spec(request: SchedulerRequest) -> Any:
    """Picks vLLM's spec of host memory; a replicated layout needs a shared region, which a CPU build has not."""
    spec = named("vllm.v1.kv_offload.cpu.spec", "CPUOffloadingSpec")
    if request.settings.host_layout is HostLayout.PER_RANK:
        return spec
    return type("SharedRegionSpec", (spec,), {"_uses_shared_region": lambda _: True})


def _block_manager(config: Any, kv_cache: Any, sizes: tuple[int, int]) -> Any:
    return named("vllm.v1.core.kv_cache_manager", "KVCacheManager")(
        kv_cache_config=kv_cache,
        max_model_len=config.model_config.max_model_len,
        scheduler_block_size=sizes[0],
        hash_block_size=sizes[1],
        enable_caching=True,
        use_eagle=config.speculative_config is not None,
    )
