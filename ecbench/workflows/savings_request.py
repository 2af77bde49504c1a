"""What a user of ``dsv4-swa-savings`` asks for, and the prompts, policies and models that this comes to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload import (
    ENGINE_RETENTION_INTERVAL,
    HostLayout,
    ModelOptions,
    OffloadSettings,
    lay_out,
    load_model,
    policy_names,
    registered_caches,
    requested_in,
)
from ecbench.kv_offload.real_scheduler import IMPLEMENTED_POLICY
from ecbench.workflows.savings_case import SavingsPlan
from ecbench.workflows.savings_copies import CopyMeasurement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.records import Param
    from ecbench.kv_offload import FileRequest, HybridModel

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
        host_layout: None for a copy per rank.
        tensor_parallel: None for 1.
        prove: Try every advertised boundary; None for prompts of up to `PROVED_UP_TO_TOKENS`.
        measure: Copy real bytes; None plans only.
        device: Registered name.
        against: Registered name of a real scheduler that the plans are held against; its policy is then the default.
        step_tokens: Tokens that the scheduler computes in one step; None computes the prompt at once.

    What neither the options nor a file of groups say is as the field's own default.
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
    tensor_parallel: int | None = None
    host_layout: HostLayout | None = None
    host_memory_bytes: int = 64 << 30
    prove: bool | None = None
    measure: CopyMeasurement | None = field(default_factory=CopyMeasurement)
    device: str = "auto"
    against: str | None = None
    step_tokens: int | None = None


def requested_plans(options: SavingsOptions) -> list[SavingsPlan]:
    """Resolves lists and names: a plan per model, prompt, policy and retention interval.

    Raises:
        EcbenchError: A name or number that does not fit.
    """
    wanted = [plan for name in _listed(options.models, "model") or [DEFAULT_MODEL] for plan in _plans_of(name, options)]
    _refuse_doubtful(wanted)
    if options.step_tokens is not None and options.step_tokens < 1:
        raise EcbenchError(f"step of {options.step_tokens} tokens: give at least 1")
    return wanted


def _plans_of(name: str, options: SavingsOptions) -> list[SavingsPlan]:
    asked = requested_in(name)
    lengths = _numbers(options.tokens, "tokens") or [asked.tokens or DEFAULT_TOKENS]
    return [plan for tokens in lengths for plan in _plans_of_prompt(name, tokens, options, asked)]


def _plans_of_prompt(name: str, tokens: int, options: SavingsOptions, asked: FileRequest) -> list[SavingsPlan]:
    model_with = partial(_load, name, options)
    model = model_with(options.block_size)
    retentions = _retentions(options, asked)
    for retention in retentions:
        lay_out(model, _settings_of(options, asked, RETENTION_FREE_POLICY, retention))
    pairs = [
        (policy, None if policy == RETENTION_FREE_POLICY else retention)
        for policy, retention in product(_policies(options), retentions)
    ]
    return [
        SavingsPlan(
            model,
            model_with,
            tokens,
            settings := _settings_of(options, asked, *pair),
            _params(model, options, tokens, settings, asked),
            caches=partial(registered_caches, name, _model_options(options, options.block_size)),
            shared_prefix=asked.shared_prefix,
            step_tokens=options.step_tokens or asked.step_tokens,
        )
        for pair in dict.fromkeys(pairs)
    ]


def _policies(options: SavingsOptions) -> Sequence[str]:
    default = policy_names() if options.against is None else (IMPLEMENTED_POLICY,)
    return _listed(options.policies, "policy") or default


def _load(name: str, options: SavingsOptions, block_size: int | None) -> HybridModel:
    return load_model(name, **msgspec.structs.asdict(_model_options(options, block_size)))


def _model_options(options: SavingsOptions, block_size: int | None) -> ModelOptions:
    return ModelOptions(
        cache_dtype=options.cache_dtype,
        indexer=options.indexer,
        mtp=options.mtp,
        eagle=options.eagle,
        block_size=block_size,
    )


def _settings_of(options: SavingsOptions, asked: FileRequest, policy: str, retention: int | None) -> OffloadSettings:
    """What the command line says, else what the file of groups says."""
    per_chunk = options.blocks_per_chunk
    if per_chunk is None and options.connector_block_size is None:
        per_chunk = asked.blocks_per_chunk
    ranks = options.tensor_parallel if options.tensor_parallel is not None else asked.tensor_parallel
    return OffloadSettings(
        policy=policy,
        retention_interval=retention,
        blocks_per_chunk=per_chunk,
        connector_block_size=options.connector_block_size,
        alignment_tokens=options.alignment_tokens,
        tensor_parallel=1 if ranks is None else ranks,
        host_layout=options.host_layout or asked.host_layout or HostLayout.PER_RANK,
        prefix_match_unit=asked.prefix_match_unit,
    )


def _params(
    model: HybridModel, options: SavingsOptions, tokens: int, settings: OffloadSettings, asked: FileRequest
) -> dict[str, Param]:
    in_file = {
        "prefix_match_unit": asked.prefix_match_unit,
        "shared_prefix": asked.shared_prefix,
        "step_tokens": options.step_tokens or asked.step_tokens,
    }
    return {
        "model": model.name,
        "tokens": tokens,
        "policy": settings.policy,
        "retention_interval": settings.retention_interval,
        "alignment_tokens": options.alignment_tokens,
        "block_size": options.block_size,
        "blocks_per_chunk": lay_out(model, settings).blocks_per_chunk,
        "eagle": options.eagle,
        "mtp": options.mtp or options.eagle,
        "indexer": options.indexer,
        "cache_dtype": options.cache_dtype,
        "tp": settings.tensor_parallel,
        "host_layout": settings.host_layout.value,
        **{name: value for name, value in in_file.items() if value is not None},
    }


def _retentions(options: SavingsOptions, asked: FileRequest) -> list[int | None]:
    given = _listed(options.retention_intervals, "retention interval")
    if not given and asked.retention_interval is not None:
        given = [str(asked.retention_interval)]
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
