"""From compress ratios to the caches of every layer, in the order in which an engine registers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.models.geometry import SLIDING_ONLY_RATIOS, catalogue

if TYPE_CHECKING:
    from ecbench.kv_offload.models.geometry import Geometry, Ratio

SLIDING_TOKENS_PER_BLOCK = 64
DEFAULT_BLOCK_SIZE = 256
"""What the sparse attention kernels take; smaller ones are planned all the same."""
STATE_ELEMENT_BYTES = 4
"""Compressor states are float32."""
STATE_VALUES = 2
"""A compressor keeps the values and their scores."""


class CacheShape(msgspec.Struct, frozen=True, kw_only=True):
    """What caches must agree on to share a block table."""

    group: str
    """Name of the group, before it is split."""
    tokens_per_block: int
    window_tokens: int | None
    """None for compressed attention, which looks back at everything."""


class LayerCache(msgspec.Struct, frozen=True, kw_only=True):
    """One cache of one layer."""

    tensor: str
    shape: CacheShape
    page_size_bytes: int
    real_page_size_bytes: int
    tokens_per_entry: int = 1
    """Tokens that one entry stands for: the ratio of compressed attention."""


class RegisteredCache(msgspec.Struct, frozen=True, kw_only=True):
    """A layer's cache as an engine registers it."""

    name: str
    """Layer and tensor, unlike that of any other cache of the model."""
    cache: LayerCache
    draft: bool
    """Belongs to an MTP layer."""


class CacheBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes per entry under the chosen formats."""

    entry: int
    index_entry: int
    page_alignment: int

    def page(self, real_bytes: int) -> int:
        """A page of so many bytes, rounded up."""
        return -(-real_bytes // self.page_alignment) * self.page_alignment


def cache_bytes(geometry: Geometry, cache_dtype: str, indexer: str) -> CacheBytes:
    """Works out bytes per entry.

    Raises:
        EcbenchError: An unknown format, or one that does not fit the head size.
    """
    packed = catalogue().cache_dtype(cache_dtype)
    return CacheBytes(
        entry=packed.bytes_per_entry(geometry.head_dim),
        index_entry=catalogue().indexer(indexer).bytes_per_entry(geometry.index_head_dim),
        page_alignment=packed.page_alignment_bytes,
    )


def layer_caches(geometry: Geometry, sizes: CacheBytes, block_size: int, mtp_layers: int) -> list[RegisteredCache]:
    """Lists the caches of a model.

    Args:
        geometry: The model.
        sizes: From `cache_bytes`.
        block_size: Tokens of a block of compressed attention.
        mtp_layers: MTP layers to add behind the model's own.

    Returns:
        All caches in the order of registration.

    Raises:
        EcbenchError: The block size does not fit a ratio or a neighbouring block.
    """
    _check_block_size(geometry, block_size)
    ratios = (*geometry.compress_ratios, *geometry.mtp_ratios[:mtp_layers])
    return [
        RegisteredCache(
            name=f"layers.{layer}.{cache.tensor}", cache=cache, draft=layer >= len(geometry.compress_ratios)
        )
        for layer, ratio in enumerate(ratios)
        for cache in _caches_of_layer(geometry, sizes, block_size, ratio)
    ]


def _caches_of_layer(geometry: Geometry, sizes: CacheBytes, block_size: int, ratio: int) -> list[LayerCache]:
    caches = [_sliding_cache(geometry, sizes)]
    if ratio in SLIDING_ONLY_RATIOS:
        return caches
    kept = catalogue().ratio(ratio)
    caches.append(_attention_cache(f"c{ratio}", sizes.entry, block_size, ratio, sizes))
    caches.append(_state_cache(f"c{ratio}-state", geometry.head_dim, ratio, kept, sizes))
    if kept.indexer:
        caches.append(_attention_cache(f"c{ratio}-index", sizes.index_entry, block_size, ratio, sizes))
        caches.append(_state_cache(f"c{ratio}-index-state", geometry.index_head_dim, ratio, kept, sizes))
    return caches


def _sliding_cache(geometry: Geometry, sizes: CacheBytes) -> LayerCache:
    shape = CacheShape(group="swa", tokens_per_block=SLIDING_TOKENS_PER_BLOCK, window_tokens=geometry.sliding_window)
    return _cache("swa", shape, SLIDING_TOKENS_PER_BLOCK * sizes.entry, sizes)


def _attention_cache(tensor: str, entry_bytes: int, block_size: int, ratio: int, sizes: CacheBytes) -> LayerCache:
    shape = CacheShape(group="mla", tokens_per_block=block_size, window_tokens=None)
    return _cache(tensor, shape, block_size // ratio * entry_bytes, sizes, tokens_per_entry=ratio)


def _state_cache(tensor: str, head_dim: int, ratio: int, kept: Ratio, sizes: CacheBytes) -> LayerCache:
    shape = CacheShape(
        group=f"c{ratio}-states",
        tokens_per_block=kept.state_tokens_per_block,
        window_tokens=kept.overlap * ratio,
    )
    token_bytes = STATE_VALUES * kept.overlap * head_dim * STATE_ELEMENT_BYTES
    return _cache(tensor, shape, kept.state_tokens_per_block * token_bytes, sizes)


def _cache(tensor: str, shape: CacheShape, real_bytes: int, sizes: CacheBytes, tokens_per_entry: int = 1) -> LayerCache:
    return LayerCache(
        tensor=tensor,
        shape=shape,
        page_size_bytes=sizes.page(real_bytes),
        real_page_size_bytes=real_bytes,
        tokens_per_entry=tokens_per_entry,
    )


def _check_block_size(geometry: Geometry, block_size: int) -> None:
    ratios = sorted(set(geometry.compress_ratios) - set(SLIDING_ONLY_RATIOS))
    blocks = {SLIDING_TOKENS_PER_BLOCK, *(catalogue().ratio(ratio).state_tokens_per_block for ratio in ratios)}
    if block_size < 1 or (ratios and block_size % ratios[0]):
        raise EcbenchError(
            f"block size of {block_size} tokens holds no whole states of ratio {(ratios or [1])[0]}: "
            f"give a multiple of it, for example {DEFAULT_BLOCK_SIZE}"
        )
    odd = sorted(block for block in blocks if block_size % block and block % block_size)
    if odd:
        raise EcbenchError(
            f"block size of {block_size} tokens neither divides nor is divided by blocks of "
            f"{', '.join(map(str, odd))} tokens: give a power of two, for example {DEFAULT_BLOCK_SIZE}"
        )
