"""Cache groups of a hybrid model: layers that share one block table, and the bytes of their blocks."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from ecbench.core.errors import EcbenchError

MAX_GROUP_NUMBER = 1 << 31
"""For anything that counts tokens, layers or bytes of one group; products stay within int64."""
Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_GROUP_NUMBER)]
NotNegative = Annotated[int, msgspec.Meta(ge=0, le=MAX_GROUP_NUMBER)]


class GroupKind(StrEnum):
    """What the layers of a group look back at; decides which chunks a hit needs."""

    FULL = "full"
    """Every earlier token."""
    SLIDING = "sliding"
    """The last `CacheGroup.window_tokens` tokens."""
    CHUNKED = "chunked"
    """The current run of `CacheGroup.window_tokens` tokens (chunked local attention)."""
    MAMBA = "mamba"
    """One state: that of the last chunk."""


class MambaCacheMode(StrEnum):
    """Which states a Mamba group keeps."""

    NONE = "none"
    ALL = "all"
    ALIGN = "align"


class KvPlacement(StrEnum):
    """How K and V of one page lie in memory."""

    TOGETHER = "together"
    """One page, one transfer."""
    APART = "apart"
    """Two halves of the real page, two transfers (flash attention)."""


class CacheTensor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Caches of equal page size inside a group: one for each of `layers` layers."""

    name: str = "kv"
    layers: NotNegative
    """Layers that share the tensor; one that no layer shares is dropped when the caches are registered."""
    page_size_bytes: NotNegative
    """One block of one layer, padding included."""
    real_page_size_bytes: NotNegative
    """What a transfer of one block of one layer moves."""
    kv: KvPlacement = KvPlacement.TOGETHER

    def __post_init__(self) -> None:
        """Refuses a page that is smaller than what it holds, or that cannot be halved."""
        if self.real_page_size_bytes > self.page_size_bytes:
            raise EcbenchError(
                f"{self.name}: real page of {self.real_page_size_bytes} bytes is larger than the page of "
                f"{self.page_size_bytes} bytes: padding only adds"
            )
        if self.kv == KvPlacement.APART and self.real_page_size_bytes % 2:
            raise EcbenchError(
                f"{self.name}: real page of {self.real_page_size_bytes} bytes has no halves for K and V: "
                "give an even number, or kv = 'together'"
            )

    @property
    def transfer_sizes_bytes(self) -> tuple[int, ...]:
        """Bytes of each transfer that moves one block of one layer, in order."""
        if self.kv == KvPlacement.APART:
            return (self.real_page_size_bytes // 2,) * 2
        return (self.real_page_size_bytes,)


class CacheGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that share one block table."""

    name: str
    kind: GroupKind
    tokens_per_block: Positive
    tensors: tuple[CacheTensor, ...]
    """Caches side by side in a block; none of them is without layers."""
    window_tokens: Positive | None = None
    """Set for sliding and chunked groups."""
    eagle: bool = False
    """Holds a draft model's layers: a hit needs one chunk more than it loads."""
    retained_tokens: NotNegative = 0
    """Tokens kept beyond the window, for drafts of several modules."""
    mamba_cache_mode: MambaCacheMode | None = None
    """Set for Mamba groups."""
    prefix_cacheable: bool = True
    """False for scratch that requests never share; it has no say in the hash block."""

    @property
    def retained_window_tokens(self) -> int:
        """The window and the tokens kept beyond it; 0 without a window."""
        return 0 if self.window_tokens is None else self.window_tokens + self.retained_tokens

    @property
    def layers(self) -> int:
        """Caches in the group; a layer with an indexer counts twice."""
        return sum(tensor.layers for tensor in self.tensors)

    @property
    def page_size_bytes(self) -> int:
        """One block of all layers, padding included."""
        return sum(tensor.layers * tensor.page_size_bytes for tensor in self.tensors)

    @property
    def real_page_size_bytes(self) -> int:
        """What transfers move of one block of all layers."""
        return sum(tensor.layers * tensor.real_page_size_bytes for tensor in self.tensors)


class HybridModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as KV offloading sees it."""

    name: str
    title: str
    groups: tuple[CacheGroup, ...]
    """In the order in which the layers register; full attention is not always first."""
    dropped_tensors: tuple[str, ...] = ()
    """``group/tensor`` of each cache tensor that no layer shares."""

    @property
    def block_stride_bytes(self) -> int:
        """Bytes from one block to the next: groups lie over one another, so the widest group decides."""
        return max(group.page_size_bytes for group in self.groups)


def check_group(group: CacheGroup) -> None:
    """Refuses a group whose keys do not fit its kind.

    Raises:
        EcbenchError: A missing or misplaced window or cache mode; the group is named.
    """
    needs_window = group.kind in {GroupKind.SLIDING, GroupKind.CHUNKED}
    if needs_window and group.window_tokens is None:
        raise EcbenchError(f"group {group.name!r} of kind {group.kind.value!r} has no window_tokens: give at least 1")
    if not needs_window and group.window_tokens is not None:
        raise EcbenchError(
            f"group {group.name!r} of kind {group.kind.value!r} has window_tokens = {group.window_tokens}: "
            "leave it out, only sliding and chunked groups have a window"
        )
    is_mamba = group.kind == GroupKind.MAMBA
    if is_mamba != (group.mamba_cache_mode is not None):
        mend = "set it to 'none', 'all' or 'align'" if is_mamba else "leave it out, only mamba groups have one"
        raise EcbenchError(f"group {group.name!r} of kind {group.kind.value!r}: mamba_cache_mode does not fit: {mend}")
