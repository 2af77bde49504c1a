"""Reads a hybrid that is described by its groups, in TOML.

```toml
title = "Hybrid with a window"

[[groups]]
name = "full"
kind = "full"                 # full, sliding, chunked or mamba
tokens_per_block = 16
[[groups.tensors]]            # caches of one page size; several lie side by side in the block
layers = 8                    # 0: no layer shares it, and it is dropped
page_size_bytes = 65536       # one block of one layer
real_page_size_bytes = 65536  # without padding
kv = "apart"                  # together (default), or K and V as two halves

[[groups]]
name = "window"
kind = "sliding"
tokens_per_block = 16
window_tokens = 1024          # for chunked: tokens of an attention chunk
eagle = false
[[groups.tensors]]
layers = 8
page_size_bytes = 65536
real_page_size_bytes = 65536
```

A mamba group has ``mamba_cache_mode`` (none, all, align) instead of a window. ``retained_tokens`` and
``prefix_cacheable`` may be given for any group. A table ``[request]`` may say what is planned of the model where the
command line does not; its keys are those of `FileRequest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ecbench.core.errors import EcbenchError, ScenarioError
from ecbench.core.toml import convert_table, parse_table, read_text
from ecbench.kv_offload.groups import (
    CacheGroup,
    CacheTensor,
    GroupKind,
    HybridModel,
    MambaCacheMode,
    NotNegative,
    Positive,
    check_group,
)
from ecbench.kv_offload.layout import HostLayout  # noqa: TC001 - msgspec reads annotations

if TYPE_CHECKING:
    from pathlib import Path

MAX_GROUPS = 256


class _Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    kind: GroupKind
    tokens_per_block: Positive
    tensors: Annotated[list[CacheTensor], msgspec.Meta(min_length=1)]
    window_tokens: Positive | None = None
    eagle: bool = False
    retained_tokens: NotNegative = 0
    mamba_cache_mode: MambaCacheMode | None = None
    prefix_cacheable: bool = True


class FileRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file asks to be planned; what it leaves out is as on the command line."""

    tokens: Positive | None = None
    """Tokens of the prompt."""
    retention_interval: NotNegative | Literal["none"] | None = None
    blocks_per_chunk: Positive | None = None
    prefix_match_unit: Positive | None = None
    """Tokens of a hash block."""
    tensor_parallel: Positive | None = None
    host_layout: HostLayout | None = None
    shared_prefix: Positive | None = None
    """Tokens of a prefix that another request is known to share."""
    step_tokens: Positive | None = None
    """Tokens that the engine computes in one step; only a real scheduler takes notice."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str
    request: FileRequest = FileRequest()
    groups: Annotated[list[_Group], msgspec.Meta(min_length=1, max_length=MAX_GROUPS)]


def read_groups(path: Path) -> HybridModel:
    """Reads a file of groups.

    Args:
        path: A TOML file.

    Returns:
        The model it describes; tensors without layers, and groups of nothing else, are dropped and listed.

    Raises:
        ScenarioError: A key or value that does not fit, or two groups of one name; key and line are named.
    """
    file = _read(path)
    names = [group.name for group in file.groups]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ScenarioError(f"{path}: two groups are named {twice!r}: give each a name of its own")
    model = HybridModel(
        name=path.stem,
        title=file.title,
        groups=tuple(_make_group(path, group) for group in file.groups if any(t.layers for t in group.tensors)),
        dropped_tensors=tuple(f"{g.name}/{t.name}" for g in file.groups for t in g.tensors if not t.layers),
    )
    if not model.groups or not model.block_stride_bytes:
        raise ScenarioError(f"{path}: no layer has a cache: give a tensor with layers and a page above 0 bytes")
    return model


def read_request(path: Path) -> FileRequest:
    """Reads what a file of groups asks to be planned.

    Raises:
        ScenarioError: A key or value that does not fit; key and line are named.
    """
    return _read(path).request


def _read(path: Path) -> _File:
    text = read_text(path)
    return convert_table(parse_table(text, str(path)), text, str(path), _File)


def _make_group(path: Path, group: _Group) -> CacheGroup:
    made = CacheGroup(
        name=group.name,
        kind=group.kind,
        tokens_per_block=group.tokens_per_block,
        tensors=tuple(tensor for tensor in group.tensors if tensor.layers),
        window_tokens=group.window_tokens,
        eagle=group.eagle,
        retained_tokens=group.retained_tokens,
        mamba_cache_mode=group.mamba_cache_mode,
        prefix_cacheable=group.prefix_cacheable,
    )
    try:
        check_group(made)
    except EcbenchError as error:
        raise ScenarioError(f"{path}: {error}") from error
    return made
