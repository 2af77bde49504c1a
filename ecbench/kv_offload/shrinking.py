"""Makes a request that shows a difference as small as single steps can make it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ecbench.kv_offload.fuzzing import fits
from ecbench.kv_offload.groups import CacheGroup, CacheTensor
from ecbench.kv_offload.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecbench.kv_offload.real_scheduler import SchedulerRequest

MAX_SHRINK_TRIES = 2000
"""A whole scheduler takes up to ten milliseconds for one."""


def shrink(
    request: SchedulerRequest, differs: Callable[[SchedulerRequest], bool], *, max_tries: int = MAX_SHRINK_TRIES
) -> Iterator[SchedulerRequest]:
    """Makes a request that shows a difference smaller, step by step.

    Args:
        request: Shows the difference.
        differs: Whether another request shows it, too.
        max_tries: Requests that are tried at most.

    Yields:
        The request, then smaller and smaller ones that differ as well. Of the last one no smaller neighbour does, where
        the tries were enough.
    """
    tries = 0
    found: SchedulerRequest | None = request
    while found is not None:
        yield found
        candidates, found = smaller_requests(found), None
        for candidate in filter(fits, candidates):
            if tries == max_tries:
                return
            tries += 1
            if differs(candidate):
                found = candidate
                break


def smaller_requests(request: SchedulerRequest) -> Iterator[SchedulerRequest]:
    """Requests that are smaller in one way, the most drastic ways first."""
    yield from _without_a_group(request)
    yield from _plainer_settings(request)
    yield from _shorter(request)
    for index, group in enumerate(request.model.groups):
        for changed in _smaller_groups(group):
            groups = request.model.groups
            yield _with_groups(request, (*groups[:index], changed, *groups[index + 1 :]))
    yield from _smaller_numbers(request)


def _without_a_group(request: SchedulerRequest) -> Iterator[SchedulerRequest]:
    groups = request.model.groups
    if len(groups) > 1:
        for index in range(len(groups)):
            yield _with_groups(request, groups[:index] + groups[index + 1 :])


def _plainer_settings(request: SchedulerRequest) -> Iterator[SchedulerRequest]:
    """Without what can be left out."""
    replace = msgspec.structs.replace
    for name in ("step_tokens", "shared_prefix"):
        if getattr(request, name) is not None:
            yield replace(request, **{name: None})
    for name, value in _PLAIN_SETTINGS.items():
        if getattr(request.settings, name) != value:
            yield replace(request, settings=replace(request.settings, **{name: value}))


_PLAIN_SETTINGS = {
    "retention_interval": None,
    "blocks_per_chunk": 1,
    "prefix_match_unit": None,
    "tensor_parallel": 1,
    "host_layout": HostLayout.PER_RANK,
}


def _shorter(request: SchedulerRequest) -> Iterator[SchedulerRequest]:
    for tokens in _below(request.tokens):
        prefix, step = request.shared_prefix, request.step_tokens
        yield msgspec.structs.replace(
            request,
            tokens=tokens,
            shared_prefix=None if prefix is None else min(prefix, tokens),
            step_tokens=None if step is None else min(step, tokens),
        )


def _smaller_groups(group: CacheGroup) -> Iterator[CacheGroup]:
    replace = msgspec.structs.replace
    if group.eagle:
        yield replace(group, eagle=False)
    for retained in _below(group.retained_tokens, least=0):
        yield replace(group, retained_tokens=retained)
    for block in _below(group.tokens_per_block):
        yield replace(group, tokens_per_block=block, tensors=(_PLAIN,))
    for window in _below(group.window_tokens or 1) if group.window_tokens else ():
        yield replace(group, window_tokens=window)
    if group.tensors != (_PLAIN,):
        yield replace(group, tensors=(_PLAIN,))


_PLAIN = CacheTensor(layers=1, page_size_bytes=64, real_page_size_bytes=64)


def _smaller_numbers(request: SchedulerRequest) -> Iterator[SchedulerRequest]:
    replace = msgspec.structs.replace
    settings = request.settings
    for interval in _below(settings.retention_interval or 0, least=0):
        yield replace(request, settings=replace(settings, retention_interval=interval))
    for per_chunk in _below(settings.blocks_per_chunk or 1):
        yield replace(request, settings=replace(settings, blocks_per_chunk=per_chunk))
    for name in ("step_tokens", "shared_prefix"):
        for value in _below(getattr(request, name) or 1):
            yield replace(request, **{name: value})


def _below(number: int, least: int = 1) -> Iterator[int]:
    """Smaller numbers: the least, the half, and all that are a power of two below."""
    seen = set()
    step = max(number - least, 0)
    while step:
        if number - step not in seen:
            seen.add(number - step)
            yield number - step
        step //= 2


def _with_groups(request: SchedulerRequest, groups: tuple[CacheGroup, ...]) -> SchedulerRequest:
    return msgspec.structs.replace(request, model=msgspec.structs.replace(request.model, groups=groups))
