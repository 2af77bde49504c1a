"""What a user of ``dsv4-swa-savings`` asks for, and the prompts, policies and models that this comes to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload import (
    ENGINE_RETENTION_INTERVAL,
    HostLayout,
    OffloadSettings,
    lay_out,
    load_model,
    policy_names,
)
from ecbench.workflows.savings_case import SavingsPlan
from ecbench.workflows.savings_copies import CopyMeasurement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.records import Param
    from ecbench.kv_offload import HybridModel

DEFAULT_MODEL = "deepseek-v4-flash"
DEFAULT_TOKENS = 100_000
NO_RETENTION = "none"
RETENTION_FREE_POLICY = "pr"
"""Knows no retention interval, so it is shown once."""
MAX_CASES = 1000
"""More are a mistake in a list."""


@dataclass(frozen=True)
class SavingsOptions:
    """What a user can ask; lists may hold commas.

    Args:
        models: Names or paths; empty for Flash.
        tokens: Prompt lengths; empty for 100,000.
        policies: Empty for all.
        retention_intervals: ``none``, 0 or tokens; empty for none and what the engine does by default.
        block_size: Tokens of a block of the full-attention groups; None for the model's own.
        connector_block_size: The connector's own ``block_size``.
        cache_dtype: None for the model's own; likewise `indexer`.
        replicated: One copy in a host slot in place of one per rank.
        prove: Try every advertised boundary; None for prompts of up to `PROVED_UP_TO_TOKENS`.
        measure: Copy real bytes; None plans only.
        device: Registered name.
    """

    models: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    retention_intervals: tuple[str, ...] = ()
    alignment_tokens: int | None = None
    block_size: int | None = None
    blocks_per_chunk: int | None = None
    connector_block_size: int | None = None
    eagle: bool = False
    mtp: bool = False
    indexer: str | None = None
    cache_dtype: str | None = None
    tensor_parallel: int = 1
    host_layout: HostLayout = HostLayout.PER_RANK
    host_memory_bytes: int = 64 << 30
    prove: bool | None = None
    measure: CopyMeasurement | None = field(default_factory=CopyMeasurement)
    device: str = "auto"


def requested_plans(options: SavingsOptions) -> list[SavingsPlan]:
    """Resolves lists and names: a plan per model, prompt, policy and retention interval.

    Raises:
        EcbenchError: A name or number that does not fit.
    """
    wanted = [
        plan
        for name in _listed(options.models, "model") or [DEFAULT_MODEL]
        for tokens in _numbers(options.tokens, "tokens") or [DEFAULT_TOKENS]
        for plan in _plans_of_prompt(name, tokens, options)
    ]
    _refuse_doubtful(wanted)
    return wanted


def _plans_of_prompt(name: str, tokens: int, options: SavingsOptions) -> list[SavingsPlan]:
    model_with = partial(_load, name, options)
    model = model_with(options.block_size)
    retentions = _retentions(options)
    for retention in retentions:
        lay_out(model, _settings_of(options, RETENTION_FREE_POLICY, retention))
    pairs = [
        (policy, None if policy == RETENTION_FREE_POLICY else retention)
        for policy, retention in product(_listed(options.policies, "policy") or policy_names(), retentions)
    ]
    return [
        SavingsPlan(model, model_with, tokens, _settings_of(options, *pair), _params(model, options, tokens, *pair))
        for pair in dict.fromkeys(pairs)
    ]


def _load(name: str, options: SavingsOptions, block_size: int | None) -> HybridModel:
    return load_model(
        name,
        cache_dtype=options.cache_dtype,
        indexer=options.indexer,
        mtp=options.mtp,
        eagle=options.eagle,
        block_size=block_size,
    )


def _settings_of(options: SavingsOptions, policy: str, retention: int | None) -> OffloadSettings:
    return OffloadSettings(
        policy=policy,
        retention_interval=retention,
        blocks_per_chunk=options.blocks_per_chunk,
        connector_block_size=options.connector_block_size,
        alignment_tokens=options.alignment_tokens,
        tensor_parallel=options.tensor_parallel,
        host_layout=options.host_layout,
    )


def _params(
    model: HybridModel, options: SavingsOptions, tokens: int, policy: str, retention: int | None
) -> dict[str, Param]:
    return {
        "model": model.name,
        "tokens": tokens,
        "policy": policy,
        "retention_interval": retention,
        "alignment_tokens": options.alignment_tokens,
        "block_size": options.block_size,
        "blocks_per_chunk": lay_out(model, _settings_of(options, policy, retention)).blocks_per_chunk,
        "eagle": options.eagle,
        "mtp": options.mtp or options.eagle,
        "indexer": options.indexer,
        "cache_dtype": options.cache_dtype,
        "tp": options.tensor_parallel,
        "host_layout": options.host_layout.value,
    }


def _retentions(options: SavingsOptions) -> list[int | None]:
    given = _listed(options.retention_intervals, "retention interval")
    if not given:
        return [None, ENGINE_RETENTION_INTERVAL]
    return [
        None if text.lower() == NO_RETENTION else _whole(text, "retention interval", "none, 0 or a number of tokens")
        for text in given
    ]


def _numbers(texts: Sequence[str], what: str) -> list[int]:
    return [
        _whole(text, what, "whole numbers such as 100000, with commas between them") for text in _listed(texts, what)
    ]


def _listed(texts: Sequence[str], what: str) -> list[str]:
    """The entries of lists with commas, each once."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    if any(not part for part in parts):
        raise EcbenchError(f"{what} {', '.join(map(repr, texts))} has an empty entry: leave it out")
    return list(dict.fromkeys(parts))


def _whole(text: str, what: str, examples: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise EcbenchError(f"{what} {text!r} is no whole number: give {examples}") from error


def _refuse_doubtful(wanted: Sequence[SavingsPlan]) -> None:
    if len(wanted) > MAX_CASES:
        raise EcbenchError(f"{len(wanted)} cases are asked for: give shorter lists, up to {MAX_CASES} cases in all")
    twice = [case_id for case_id, count in Counter(plan.case_id for plan in wanted).items() if count > 1]
    if twice:
        raise EcbenchError(f"case {twice[0]} is asked for twice: give each model another file or folder name")
