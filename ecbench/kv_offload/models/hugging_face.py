"""Reads a model's shape from its Hugging Face ``config.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.models.geometry import Geometry, split_ratios

if TYPE_CHECKING:
    from pathlib import Path

Positive = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
KNOWN_MODEL_TYPES = ("deepseek_v4",)
_KNOWN_ARCHITECTURES = ("DeepseekV4ForCausalLM",)
MAX_LAYERS = 10_000
_REQUIRED = ("num_hidden_layers", "compress_ratios", "head_dim", "index_head_dim", "sliding_window")


class _Config(msgspec.Struct, frozen=True):
    num_hidden_layers: Annotated[int, msgspec.Meta(ge=1, le=MAX_LAYERS)]
    compress_ratios: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(max_length=2 * MAX_LAYERS)]
    head_dim: Positive
    index_head_dim: Positive
    sliding_window: Positive
    num_nextn_predict_layers: Annotated[int, msgspec.Meta(ge=0, le=MAX_LAYERS)] = 0


def read_geometry(path: Path) -> Geometry:
    """Reads a config.

    Args:
        path: A ``config.json``.

    Returns:
        The model it describes.

    Raises:
        EcbenchError: Not JSON, another architecture, a missing key or a value that does not fit; it is named.
    """
    table = _read_table(path)
    _check_architecture(path, table)
    missing = [key for key in _REQUIRED if table.get(key) is None]
    if missing:
        raise EcbenchError(f"{path}: {', '.join(missing)} missing: take the config that the model was published with")
    try:
        config = msgspec.convert(table, _Config)
    except msgspec.ValidationError as error:
        raise EcbenchError(f"{path}: {error}: correct the value") from error
    layers, mtp = split_ratios(
        config.compress_ratios, config.num_hidden_layers, config.num_nextn_predict_layers, str(path)
    )
    name = table.get("_name_or_path")
    return Geometry(
        name=path.parent.name if path.stem == "config" and path.parent.name else path.stem,
        title=name if isinstance(name, str) and name else str(path),
        compress_ratios=layers,
        mtp_ratios=mtp,
        head_dim=config.head_dim,
        index_head_dim=config.index_head_dim,
        sliding_window=config.sliding_window,
    )


def _read_table(path: Path) -> dict[str, Any]:
    try:
        table = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise EcbenchError(f"{path}: cannot be read ({error}): give a config.json or a TOML file of groups") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EcbenchError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(table, dict):
        raise EcbenchError(f"{path}: holds no JSON object: give a model's config.json")
    return table


def _check_architecture(path: Path, table: dict[str, Any]) -> None:
    architectures = table.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    if table.get("model_type") in KNOWN_MODEL_TYPES or set(_KNOWN_ARCHITECTURES) & {str(name) for name in names}:
        return
    found = table.get("model_type") or ", ".join(map(str, names)) or "none"
    raise EcbenchError(
        f"{path}: architecture {found!r} is not known: known is {', '.join(KNOWN_MODEL_TYPES)}; "
        "describe any other hybrid by its groups in a TOML file"
    )
