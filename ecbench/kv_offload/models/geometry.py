"""DeepSeek-V4 in numbers: which caches each layer has and what a block of each weighs; data in ``deepseek_v4.toml``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated

import msgspec

from ecbench.core.errors import EcbenchError, unknown_name
from ecbench.core.toml import convert_table, parse_table

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
_FILE = "deepseek_v4.toml"
SLIDING_ONLY_RATIOS = (0, 1)
"""Ratios of a layer without compressed attention; configs write either."""


class Ratio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What compressed attention of one ratio keeps."""

    state_tokens_per_block: Positive
    overlap: Positive
    indexer: bool


class CacheDtype(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a cached entry is packed, and what pages are rounded up to."""

    page_alignment_bytes: Positive
    bytes_per_element: NotNegative = 0
    entry_bytes: NotNegative = 0
    entry_head_dim: NotNegative = 0

    def bytes_per_entry(self, head_dim: int) -> int:
        """Bytes of one token or compressed state."""
        if not self.entry_bytes:
            return self.bytes_per_element * head_dim
        if head_dim != self.entry_head_dim:
            raise EcbenchError(
                f"head_dim {head_dim} does not fit this cache dtype, which packs {self.entry_head_dim} values into "
                f"{self.entry_bytes} bytes: use fp8 or bfloat16"
            )
        return self.entry_bytes


class Indexer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an index entry is packed."""

    values_per_byte: Positive
    values_per_scale: Positive
    scale_bytes: Positive

    def bytes_per_entry(self, index_head_dim: int) -> int:
        """Bytes of one index entry."""
        return index_head_dim // self.values_per_byte + -(-index_head_dim // self.values_per_scale) * self.scale_bytes


class Geometry(msgspec.Struct, frozen=True, kw_only=True):
    """A DeepSeek-V4 variant."""

    name: str
    title: str
    compress_ratios: tuple[int, ...]
    """One per layer; MTP layers are not in it."""
    mtp_ratios: tuple[int, ...]
    """One per MTP layer."""
    head_dim: Positive
    index_head_dim: Positive
    sliding_window: Positive


class _Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    hidden_layers: Positive
    compress_ratios: list[Annotated[list[NotNegative], msgspec.Meta(min_length=2)]]
    mtp_layers: NotNegative
    head_dim: Positive
    index_head_dim: Positive
    sliding_window: Positive


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole data file."""

    models: dict[str, _Variant]
    ratios: dict[str, Ratio]
    cache_dtypes: dict[str, CacheDtype]
    indexers: dict[str, Indexer]

    def ratio(self, ratio: int) -> Ratio:
        """What layers of a compression ratio keep.

        Raises:
            EcbenchError: A ratio nobody has described; the message lists those that are.
        """
        if str(ratio) not in self.ratios:
            known = ", ".join(["0", *self.ratios])
            raise EcbenchError(f"compress ratio {ratio} is not known: known are {known}; describe its groups in TOML")
        return self.ratios[str(ratio)]

    def cache_dtype(self, name: str) -> CacheDtype:
        """A cache dtype by name."""
        if name not in self.cache_dtypes:
            raise unknown_name("cache dtype", name, tuple(self.cache_dtypes))
        return self.cache_dtypes[name]

    def indexer(self, name: str) -> Indexer:
        """An indexer format by name."""
        if name not in self.indexers:
            raise unknown_name("indexer", name, tuple(self.indexers))
        return self.indexers[name]

    def geometry(self, name: str) -> Geometry:
        """A variant that the file describes."""
        variant = self.models[name]
        ratios = [ratio for times, *run in variant.compress_ratios for ratio in run * times]
        layers, mtp = split_ratios(ratios, variant.hidden_layers, variant.mtp_layers, name)
        return Geometry(
            name=name,
            title=variant.title,
            compress_ratios=layers,
            mtp_ratios=mtp,
            head_dim=variant.head_dim,
            index_head_dim=variant.index_head_dim,
            sliding_window=variant.sliding_window,
        )


@cache
def catalogue() -> Catalogue:
    """The data file, read once."""
    text = files(__package__).joinpath(_FILE).read_text()
    return convert_table(parse_table(text, _FILE), text, _FILE, Catalogue)


def split_ratios(
    ratios: list[int], hidden_layers: int, mtp_layers: int, where: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Splits a config's list of ratios into those of the layers and those of the MTP layers.

    Args:
        ratios: One per layer, with or without those of the MTP layers behind.
        hidden_layers: Layers of the model.
        mtp_layers: MTP layers behind them.
        where: What the list was read from, for messages.

    Returns:
        Ratios of the layers, and of the MTP layers (0 where the list ends before them).

    Raises:
        EcbenchError: The list has another length.
    """
    lengths = sorted({hidden_layers, hidden_layers + mtp_layers})
    if len(ratios) not in lengths:
        raise EcbenchError(
            f"{where}: compress_ratios has {len(ratios)} entries for {hidden_layers} layers and {mtp_layers} MTP "
            f"layers: give {' or '.join(map(str, lengths))}"
        )
    mtp = ratios[hidden_layers:] or [0] * mtp_layers
    return tuple(ratios[:hidden_layers]), tuple(mtp)
