"""A request as a file of groups with a table ``[request]``, so that it can be run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.kv_offload.groups import GroupKind
from ecbench.kv_offload.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecbench.kv_offload.groups import CacheGroup
    from ecbench.kv_offload.real_scheduler import SchedulerRequest

_PLAIN = {"blocks_per_chunk": (None, 1), "tensor_parallel": (1,), "host_layout": (HostLayout.PER_RANK.value,)}
"""Values that go without saying; of other facts only None does."""
_ALWAYS = ("name", "kind", "tokens_per_block")
_IF_SET = ("window_tokens", "eagle", "retained_tokens", "mamba_cache_mode")


def render_request(request: SchedulerRequest, title: str, comments: Sequence[str] = ()) -> str:
    """Writes a request as TOML that `ecbench.kv_offload.models.group_file` reads.

    Args:
        request: Of a model that is described by its groups.
        title: Of the model.
        comments: Lines about it, for the head of the file.
    """
    lines = [f"# {' '.join(comment.split())}" for comment in comments]
    facts = (f"{name} = {_toml(value)}" for name, value in _request_facts(request) if value is not None)
    return "\n".join([*lines, f"title = {_toml(title)}", "", "[request]", *facts, *_groups(request.model.groups), ""])


def describe_request(request: SchedulerRequest) -> str:
    """A request in one line."""
    facts = [f"{name} {value}" for name, value in _request_facts(request) if value not in _PLAIN.get(name, (None,))]
    return f"{', '.join(facts)}; {'; '.join(map(_group_words, request.model.groups))}"


def _request_facts(request: SchedulerRequest) -> Iterator[tuple[str, object]]:
    settings = request.settings
    yield "tokens", request.tokens
    yield "retention_interval", "none" if settings.retention_interval is None else settings.retention_interval
    yield "blocks_per_chunk", settings.blocks_per_chunk
    yield "prefix_match_unit", settings.prefix_match_unit
    yield "tensor_parallel", settings.tensor_parallel
    yield "host_layout", settings.host_layout.value
    yield "shared_prefix", request.shared_prefix
    yield "step_tokens", request.step_tokens


def _groups(groups: Sequence[CacheGroup]) -> Iterator[str]:
    for group in groups:
        yield from ("", "[[groups]]")
        yield from (f"{name} = {_toml(getattr(group, name))}" for name in _ALWAYS)
        yield from (f"{name} = {_toml(getattr(group, name))}" for name in _IF_SET if getattr(group, name))
        for tensor in group.tensors:
            yield "[[groups.tensors]]"
            yield from (
                f"{name} = {_toml(getattr(tensor, name))}"
                for name in ("name", "layers", "page_size_bytes", "real_page_size_bytes", "kv")
            )


def _group_words(group: CacheGroup) -> str:
    parts = [f"{group.kind.value} {group.tokens_per_block}"]
    if group.kind in {GroupKind.SLIDING, GroupKind.CHUNKED}:
        parts.append(f"window {group.window_tokens}")
    if group.retained_tokens:
        parts.append(f"retained {group.retained_tokens}")
    return " ".join([*parts, *(["EAGLE"] if group.eagle else [])])


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
