"""The KV offload scenario: what a TOML file with ``workload = "dsv4"`` may say, and the case that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.device_blocks import KvLayout
from ecbench.kv_offload.layout import DEFAULT_POLICY, ENGINE_RETENTION_INTERVAL, HostLayout, OffloadSettings
from ecbench.kv_offload.loading import plan_load
from ecbench.kv_offload.lookup import look_up
from ecbench.kv_offload.models.loading import load_model, model_names
from ecbench.kv_offload.placement import BlockOrder
from ecbench.kv_offload.planning import plan_store
from ecbench.measure.rounds import DEFAULT_ROUNDS, MAX_ROUNDS

if TYPE_CHECKING:
    from pathlib import Path

    from ecbench.core.records import Param
    from ecbench.kv_offload.loading import GroupLoad
    from ecbench.kv_offload.planning import OffloadPlan

MAX_TOKENS = 1 << 22
"""Four million tokens: beyond any model's context."""


class KvScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A scenario file."""

    workload: Literal["dsv4"]
    title: str
    model: str
    """A name of `ecbench.kv_offload.model_names`, or a path for `load_model`, seen from the scenario's folder."""
    tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
    """Tokens of the prompt; the load is what the same prompt and one more token hit."""
    computed_tokens: Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)] = 0
    """Tokens that the device still holds when the load comes, so that it can begin inside a chunk."""
    policy: str = DEFAULT_POLICY
    retention_interval: int | Literal["none"] = ENGINE_RETENTION_INTERVAL
    """TOML has no null: none is a text here."""
    layout: KvLayout = KvLayout.PACKED
    blocks_per_chunk: int = 1
    tensor_parallel: int = 1
    host_layout: HostLayout = HostLayout.PER_RANK
    alignment_tokens: int | None = None
    block_size: int | None = None
    cache_dtype: str | None = None
    indexer: str | None = None
    mtp: bool = False
    eagle: bool = False
    block_order: BlockOrder = BlockOrder.SHUFFLED
    coalesce: bool = True
    """Joins copies that continue each other on both sides."""
    rounds: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROUNDS)] = DEFAULT_ROUNDS

    @property
    def settings(self) -> OffloadSettings:
        """What the planner is told."""
        return OffloadSettings(
            policy=self.policy,
            retention_interval=self.retention_interval if isinstance(self.retention_interval, int) else None,
            blocks_per_chunk=self.blocks_per_chunk,
            alignment_tokens=self.alignment_tokens,
            tensor_parallel=self.tensor_parallel,
            host_layout=self.host_layout,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCase:
    """One round trip: what a prompt stores, and what its replay loads.

    Args:
        case_id: Names it in a result.
        scenario: Where it comes from.
        seed: Decides content and, with shuffled blocks, where they lie.
        plan: What is stored.
        loads: What is loaded of each group.
        hit_tokens: Tokens that the replay hits.
    """

    case_id: str
    scenario: KvScenario
    seed: int
    plan: OffloadPlan
    loads: tuple[GroupLoad, ...]
    hit_tokens: int

    @property
    def params(self) -> dict[str, Param]:
        """What identifies the workload in a result."""
        scenario, layout = self.scenario, self.plan.layout
        retention = layout.settings.retention_interval
        return {
            "model": layout.model.name,
            "tokens": scenario.tokens,
            "computed_tokens": scenario.computed_tokens,
            "policy": scenario.policy,
            "retention_interval": retention,
            "alignment_tokens": self.plan.alignment_tokens,
            "layout": scenario.layout.value,
            "blocks_per_chunk": layout.blocks_per_chunk,
            "tp": scenario.tensor_parallel,
            "host_layout": scenario.host_layout.value,
            "block_order": scenario.block_order.value,
            "coalesce": scenario.coalesce,
            "block_stride_bytes": layout.block_stride_bytes,
            "host_slot_bytes": layout.host_slot_bytes,
            "copies": layout.copies,
            "replay_hit_tokens": self.hit_tokens,
            "groups": [f"{group.name}: {group.layout.tokens_per_block} tokens per block" for group in self.plan.groups],
        }


def make_case(case_id: str, scenario: KvScenario, seed: int, folder: Path) -> KvCase:
    """Plans a scenario.

    Args:
        case_id: Names the case; the model's name is added.
        scenario: A checked scenario.
        seed: Decides content and placement.
        folder: Where the paths of models are seen from.

    Raises:
        EcbenchError: An unknown model, settings that do not fit it, or a prompt that stores or hits nothing.
    """
    model = load_model(
        _model_source(scenario.model, folder),
        cache_dtype=scenario.cache_dtype,
        indexer=scenario.indexer,
        mtp=scenario.mtp,
        eagle=scenario.eagle,
        block_size=scenario.block_size,
    )
    plan = plan_store(model, scenario.tokens, scenario.settings)
    if scenario.computed_tokens > scenario.tokens:
        raise EcbenchError(f"computed_tokens is {scenario.computed_tokens}: give 0 to {scenario.tokens}, the prompt")
    hit = look_up(plan, scenario.tokens + 1, computed_tokens=scenario.computed_tokens).tokens
    loads = plan_load(plan, hit, computed_tokens=scenario.computed_tokens)
    if not hit or not any(load.real_bytes for load in loads):
        raise EcbenchError(
            f"a replay of {scenario.tokens} tokens, {scenario.computed_tokens} of them computed, loads nothing: "
            f"give a prompt of at least {plan.layout.common_chunk_tokens} tokens more than are computed"
        )
    return KvCase(
        case_id=f"{case_id}/{model.name}", scenario=scenario, seed=seed, plan=plan, loads=loads, hit_tokens=hit
    )


def _model_source(model: str, folder: Path) -> str:
    return model if model in model_names() else str(folder / model)
