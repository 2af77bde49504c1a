"""`load_model`: a model by name, by its Hugging Face config, or by a TOML file of groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.groups import GroupKind, HybridModel
from ecbench.kv_offload.models.geometry import Geometry, catalogue
from ecbench.kv_offload.models.group_file import FileRequest, read_groups, read_request
from ecbench.kv_offload.models.grouping import group_caches
from ecbench.kv_offload.models.hugging_face import read_geometry
from ecbench.kv_offload.models.layer_caches import DEFAULT_BLOCK_SIZE, cache_bytes, layer_caches

if TYPE_CHECKING:
    from ecbench.kv_offload.groups import CacheGroup, CacheTensor
    from ecbench.kv_offload.models.grouping import Bucket
    from ecbench.kv_offload.models.layer_caches import RegisteredCache

DEFAULT_CACHE_DTYPE = "fp8_ds_mla"
DEFAULT_INDEXER = "fp8"
_CONFIG_NAME = "config.json"


class ModelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may be asked of a model besides its name. None takes the model's own, or the default."""

    cache_dtype: str | None = None
    """`cache_dtypes`; DeepSeek-V4 only."""
    indexer: str | None = None
    """`indexers`; DeepSeek-V4 only."""
    mtp: bool = False
    """Adds the MTP layers; DeepSeek-V4 only."""
    eagle: bool = False
    """Adds the MTP layers and marks the group that holds the last of them; DeepSeek-V4 only."""
    block_size: int | None = None
    """Tokens of a block of the full-attention groups."""
    sliding_window: int | None = None
    """Takes the place of the model's sliding window; DeepSeek-V4 only."""


_DEFAULT_OPTIONS = ModelOptions()


def model_names() -> tuple[str, ...]:
    """Models that have a name."""
    return tuple(catalogue().models)


def cache_dtypes() -> tuple[str, ...]:
    """Cache dtypes that `load_model` knows."""
    return tuple(catalogue().cache_dtypes)


def indexers() -> tuple[str, ...]:
    """Indexer formats that `load_model` knows."""
    return tuple(catalogue().indexers)


def load_model(
    name_or_path: str | Path,
    *,
    cache_dtype: str | None = None,
    indexer: str | None = None,
    mtp: bool = False,
    eagle: bool = False,
    block_size: int | None = None,
    sliding_window: int | None = None,
) -> HybridModel:
    """Makes a model's cache groups.

    Args:
        name_or_path: A name of `model_names`, a Hugging Face ``config.json`` or the folder that holds one, or a TOML
            file of groups.
        cache_dtype: One of `cache_dtypes`; by default fp8_ds_mla.
        indexer: One of `indexers`; by default fp8.
        mtp: Adds the MTP layers.
        eagle: Adds the MTP layers and marks the group that holds the last of them as an EAGLE group.
        block_size: Tokens of a block of the full-attention groups; by default 256, or what the TOML file says.
        sliding_window: Tokens, in place of the model's own.

    Returns:
        The model; groups in the order of registration.

    Raises:
        EcbenchError: An unknown name, a file that does not fit, or an option that does not apply; it is named.
    """
    options = ModelOptions(
        cache_dtype=cache_dtype,
        indexer=indexer,
        mtp=mtp,
        eagle=eagle,
        block_size=block_size,
        sliding_window=sliding_window,
    )
    geometry = _find_geometry(str(name_or_path))
    return _from_groups(Path(name_or_path), options) if geometry is None else _deepseek_v4(geometry, options)


def _find_file(name: str) -> Path:
    path = Path(name)
    try:
        path = path / _CONFIG_NAME if path.is_dir() else path
        exists = path.exists()
    except OSError:
        exists = False
    if not exists:
        raise EcbenchError(
            f"unknown model {name!r}: choose one of {', '.join(model_names())}, "
            "or give a Hugging Face config.json or a TOML file of groups"
        )
    return path


def registered_caches(
    name_or_path: str | Path, options: ModelOptions = _DEFAULT_OPTIONS
) -> tuple[RegisteredCache, ...] | None:
    """Lists the caches of a model's layers as an engine registers them, before they are grouped.

    Args:
        name_or_path: As for `load_model`.
        options: As for `load_model`.

    Returns:
        The caches in order of registration; None for a file of groups, which says nothing of layers.

    Raises:
        EcbenchError: As `load_model`.
    """
    geometry = _find_geometry(str(name_or_path))
    return None if geometry is None else tuple(_register(geometry, options))


def requested_in(name_or_path: str | Path) -> FileRequest:
    """What a file of groups asks to be planned of its model; nothing in particular for other models.

    Raises:
        EcbenchError: As `load_model`.
    """
    return FileRequest() if _find_geometry(str(name_or_path)) is not None else read_request(Path(name_or_path))


def _find_geometry(name: str) -> Geometry | None:
    """The DeepSeek-V4 variant of a name or a config; None for a file of groups."""
    if name in catalogue().models:
        return catalogue().geometry(name)
    path = _find_file(name)
    return None if path.suffix == ".toml" else read_geometry(path)


def _deepseek_v4(geometry: Geometry, options: ModelOptions) -> HybridModel:
    caches = [registered.cache for registered in _register(geometry, options)]
    groups = [
        msgspec.structs.replace(group, eagle=options.eagle and _holds(part, caches[-1]))
        for group, part in group_caches(caches)
    ]
    return HybridModel(name=geometry.name, title=geometry.title, groups=tuple(groups))


def _register(geometry: Geometry, options: ModelOptions) -> list[RegisteredCache]:
    geometry = _with_window(geometry, options.sliding_window)
    mtp_layers = len(geometry.mtp_ratios) if options.mtp or options.eagle else 0
    if (options.mtp or options.eagle) and not mtp_layers:
        raise EcbenchError(f"{geometry.title} has no MTP layer (num_nextn_predict_layers): leave out MTP and EAGLE")
    sizes = cache_bytes(geometry, options.cache_dtype or DEFAULT_CACHE_DTYPE, options.indexer or DEFAULT_INDEXER)
    block_size = DEFAULT_BLOCK_SIZE if options.block_size is None else options.block_size
    return layer_caches(geometry, sizes, block_size, mtp_layers)


def _holds(part: Bucket, cache: object) -> bool:
    """By identity: caches of different layers are equal."""
    return any(member is cache for member in part)


def _with_window(geometry: Geometry, sliding_window: int | None) -> Geometry:
    if sliding_window is None:
        return geometry
    if sliding_window < 1:
        raise EcbenchError(f"sliding window of {sliding_window} tokens: give at least 1")
    return msgspec.structs.replace(geometry, sliding_window=sliding_window)


def _from_groups(path: Path, options: ModelOptions) -> HybridModel:
    misplaced = [
        name
        for name in ("cache_dtype", "indexer", "mtp", "eagle", "sliding_window")
        if getattr(options, name) not in {None, False}
    ]
    if misplaced:
        raise EcbenchError(f"{path}: {', '.join(misplaced)} cannot be set for a file of groups: change the file")
    model = read_groups(path)
    if options.block_size is None:
        return model
    groups = tuple(_with_block_size(group, options.block_size) for group in model.groups)
    return msgspec.structs.replace(model, groups=groups)


def _with_block_size(group: CacheGroup, block_size: int) -> CacheGroup:
    if group.kind != GroupKind.FULL or block_size == group.tokens_per_block:
        return group
    tensors = tuple(_scaled(group, tensor, block_size) for tensor in group.tensors)
    return msgspec.structs.replace(group, tokens_per_block=block_size, tensors=tensors)


def _scaled(group: CacheGroup, tensor: CacheTensor, block_size: int) -> CacheTensor:
    pages = [size * block_size for size in (tensor.page_size_bytes, tensor.real_page_size_bytes)]
    if block_size < 1 or any(page % group.tokens_per_block for page in pages):
        raise EcbenchError(
            f"block size of {block_size} tokens does not divide the pages of group {group.name!r} evenly: "
            f"give a multiple of {group.tokens_per_block}"
        )
    page, real = (page // group.tokens_per_block for page in pages)
    return msgspec.structs.replace(tensor, page_size_bytes=page, real_page_size_bytes=real)
