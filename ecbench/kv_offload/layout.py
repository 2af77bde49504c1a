"""How a model is offloaded under one set of settings: chunks, alignment, block stride and host slots."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.block_sizes import (
    hashes_per_chunk,
    resolve_block_sizes,
    resolve_blocks_per_chunk,
    scaled_block_size,
)
from ecbench.kv_offload.groups import CacheGroup, GroupKind, HybridModel, MambaCacheMode

DEFAULT_POLICY = "vllm-0.33"
HOST_PAGE_BYTES = 4096
"""Host slots are rounded up to pages of the operating system."""
MAX_RANKS = 1 << 16
MAX_BLOCKS_PER_CHUNK = 1 << 16
MAX_SPAN_TOKENS = 1 << 40
"""Far beyond any context; products with a chunk stay within int64."""
ENGINE_RETENTION_INTERVAL = 0
"""What vLLM 0.33.0 uses where nothing is set: one tail per request."""


class HostLayout(StrEnum):
    """What a host slot holds of each block."""

    PER_RANK = "per-rank"
    """A copy from every rank."""
    REPLICATED = "replicated"
    """One copy: all ranks hold the same bytes (MLA, tensor parallel only, one node)."""


class OffloadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set about offloading."""

    policy: str = DEFAULT_POLICY
    """Name of a policy, see `ecbench.kv_offload.policies`."""
    retention_interval: int | None = None
    """Tokens from one kept tail to the next; 0 only at the request's end, None at every alignment boundary. The `pr`
    policy knows no retention and keeps as for None."""
    blocks_per_chunk: int | None = None
    connector_block_size: int | None = None
    """The connector's own ``block_size`` in tokens, where all groups have blocks of one size."""
    alignment_tokens: int | None = None
    """In place of the chunk of the full-attention groups; a multiple of every group's chunk."""
    tensor_parallel: int = 1
    host_layout: HostLayout = HostLayout.PER_RANK
    decode_context_parallel: int = 1
    prefix_match_unit: int | None = None


class GroupLayout(msgspec.Struct, frozen=True, kw_only=True):
    """One group in chunks. Sizes in tokens count all decode-context-parallel ranks."""

    group: CacheGroup
    tokens_per_block: int
    blocks_per_chunk: int
    tokens_per_chunk: int
    hashes_per_chunk: int
    window_chunks: int | None
    """Chunks that a hit needs behind its end; None for full attention, which needs all."""

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group.name

    @property
    def kind(self) -> GroupKind:
        """The group's kind."""
        return self.group.kind

    @property
    def looks_back_at_all(self) -> bool:
        """Full attention."""
        return self.window_chunks is None

    @property
    def rounds_hits(self) -> bool:
        """A Mamba group whose states exist only at the end of chunks."""
        return self.group.mamba_cache_mode == MambaCacheMode.ALIGN


class OffloadLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A model under settings."""

    model: HybridModel
    settings: OffloadSettings
    groups: tuple[GroupLayout, ...]
    scheduler_block_size: int
    hash_block_size: int
    blocks_per_chunk: int
    copies: int
    """Copies of a block in a host slot."""
    host_slot_bytes: int

    @property
    def block_stride_bytes(self) -> int:
        """Bytes from one block to the next on a device."""
        return self.model.block_stride_bytes

    @property
    def full_chunk_sizes(self) -> tuple[int, ...]:
        """Tokens of the chunks of full-attention groups, each size once."""
        return tuple(sorted({group.tokens_per_chunk for group in self.groups if group.looks_back_at_all}))

    @property
    def common_chunk_tokens(self) -> int:
        """Least number of tokens that is a whole number of chunks in every group."""
        return math.lcm(*(group.tokens_per_chunk for group in self.groups))

    @property
    def chunk_step_tokens(self) -> int:
        """Largest number of tokens in steps of which every group's chunks end."""
        return math.gcd(*(group.tokens_per_chunk for group in self.groups))

    @property
    def eagle_chunk_tokens(self) -> int:
        """What must lie behind a boundary before a hit can end on it: the largest chunk of an EAGLE group."""
        return max((group.tokens_per_chunk for group in self.groups if group.group.eagle), default=0)


def lay_out(model: HybridModel, settings: OffloadSettings) -> OffloadLayout:
    """Works out chunks and host slots of a model.

    Raises:
        EcbenchError: A setting is out of range or does not fit the model's groups; it is named.
    """
    _check_numbers(settings)
    sizes = resolve_block_sizes(
        model.groups,
        decode_context_parallel=settings.decode_context_parallel,
        prefix_match_unit=settings.prefix_match_unit,
    )
    blocks_per_chunk = resolve_blocks_per_chunk(
        model.groups,
        blocks_per_chunk=settings.blocks_per_chunk,
        connector_block_size=settings.connector_block_size,
        decode_context_parallel=settings.decode_context_parallel,
    )
    copies = settings.tensor_parallel if settings.host_layout == HostLayout.PER_RANK else 1
    groups = tuple(
        _lay_out_group(group, settings.decode_context_parallel, blocks_per_chunk, sizes.hash_block_size)
        for group in model.groups
    )
    _check_rounding(groups)
    _check_alignment(groups, settings.alignment_tokens)
    _check_retention(groups, settings.retention_interval)
    return OffloadLayout(
        model=model,
        settings=settings,
        groups=groups,
        scheduler_block_size=sizes.scheduler_block_size,
        hash_block_size=sizes.hash_block_size,
        blocks_per_chunk=blocks_per_chunk,
        copies=copies,
        host_slot_bytes=_round_up(model.block_stride_bytes * copies * blocks_per_chunk, HOST_PAGE_BYTES),
    )


def _lay_out_group(group: CacheGroup, ranks: int, blocks_per_chunk: int, hash_block_size: int) -> GroupLayout:
    tokens_per_block = scaled_block_size(group, ranks)
    tokens_per_chunk = tokens_per_block * blocks_per_chunk
    return GroupLayout(
        group=group,
        tokens_per_block=tokens_per_block,
        blocks_per_chunk=blocks_per_chunk,
        tokens_per_chunk=tokens_per_chunk,
        hashes_per_chunk=hashes_per_chunk(tokens_per_chunk, hash_block_size, group.name),
        window_chunks=_window_chunks(group, tokens_per_chunk),
    )


def _window_chunks(group: CacheGroup, tokens_per_chunk: int) -> int | None:
    if group.kind == GroupKind.FULL:
        return None
    if group.kind == GroupKind.MAMBA:
        return 1
    window = group.window_tokens or 1
    retained = window - 1 + group.retained_tokens if group.retained_tokens else 0
    return -(-max(window, retained) // tokens_per_chunk)


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


def _check_numbers(settings: OffloadSettings) -> None:
    for what, value, most in (
        ("tensor-parallel size", settings.tensor_parallel, MAX_RANKS),
        ("decode-context-parallel size", settings.decode_context_parallel, MAX_RANKS),
        ("blocks_per_chunk", settings.blocks_per_chunk, MAX_BLOCKS_PER_CHUNK),
        ("alignment in tokens", settings.alignment_tokens, MAX_SPAN_TOKENS),
    ):
        if value is not None and not 1 <= value <= most:
            raise EcbenchError(f"{what} is {value}: give 1 to {most}")
    retention = settings.retention_interval
    if retention is not None and not 0 <= retention <= MAX_SPAN_TOKENS:
        raise EcbenchError(f"retention interval is {retention} tokens: give 0 to {MAX_SPAN_TOKENS}, or none")


def _check_rounding(groups: tuple[GroupLayout, ...]) -> None:
    rounding = [group for group in groups if group.rounds_hits]
    if len({group.tokens_per_chunk for group in rounding}) > 1:
        raise EcbenchError(f"mamba groups round hits to different chunks: {_named(rounding)}: give them one block size")


def _check_alignment(groups: tuple[GroupLayout, ...], alignment_tokens: int | None) -> None:
    if alignment_tokens is None:
        return
    odd = [group for group in groups if alignment_tokens % group.tokens_per_chunk]
    if odd:
        raise EcbenchError(
            f"alignment of {alignment_tokens} tokens is no multiple of the chunk of {_named(odd)}: "
            f"give a multiple of {math.lcm(*(group.tokens_per_chunk for group in groups))}"
        )


def _check_retention(groups: tuple[GroupLayout, ...], retention_interval: int | None) -> None:
    if retention_interval is None:
        return
    skipping = [group for group in groups if group.kind in {GroupKind.SLIDING, GroupKind.MAMBA}]
    odd = [group for group in skipping if retention_interval % group.tokens_per_chunk]
    if odd:
        raise EcbenchError(
            f"retention interval of {retention_interval} tokens is no multiple of the chunk of {_named(odd)}: "
            f"give 0 or a multiple of {math.lcm(*(group.tokens_per_chunk for group in skipping))}"
        )


def _named(groups: list[GroupLayout]) -> str:
    return ", ".join(f"{group.name} ({group.tokens_per_chunk} tokens)" for group in groups)
