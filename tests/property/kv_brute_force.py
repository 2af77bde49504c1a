"""The lookup of vLLM 0.33.0 chunk by chunk, for one request at a time: slow, and written apart from the product's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecbench.kv_offload import GroupPlan, OffloadPlan


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)


def hit_tokens(plan: OffloadPlan, length: int, shared: int) -> int:
    """Tokens that a request of `length` hits that shares its first `shared` tokens with the prompt."""
    full = [group for group in plan.groups if group.layout.window_chunks is None]
    windows = [group for group in plan.groups if group.layout.window_chunks is not None]
    windows.sort(key=lambda group: -group.layout.window_chunks)
    upper = length - bool(windows)
    for group in windows:
        if group.layout.rounds_hits:
            upper -= upper % group.layout.tokens_per_chunk
    hit, verified, queue = 0, set(), full + windows
    while queue:
        asked, queue, seen_window = queue, [], False
        for group in asked:
            upper = _upper_after(group, upper, length, shared, verified)
            if upper == 0:
                return 0
            if upper < hit:
                if not group.layout.group.eagle:
                    verified.clear()
                queue = windows if seen_window else queue
            hit = upper
            seen_window |= group.layout.window_chunks is not None
    return hit


def _upper_after(group: GroupPlan, upper: int, length: int, shared: int, verified: set[str]) -> int:
    layout = group.layout
    chunk, eagle = layout.tokens_per_chunk, layout.group.eagle and group.name not in verified
    keys = length // chunk
    upper = min(upper, keys * chunk)
    if upper < chunk:
        return 0
    query = min(upper + chunk, keys * chunk) if eagle else upper
    found = _found(group, min(ceil_div(query, chunk), keys), shared, upper, eagle)
    if found and eagle:
        found -= 1
        verified.add(group.name)
    upper = min(upper, found * chunk)
    return 0 if upper < chunk else upper


def _found(group: GroupPlan, keys: int, shared: int, upper: int, eagle: bool) -> int:
    layout = group.layout
    chunk = layout.tokens_per_chunk

    def is_there(index: int) -> bool:
        return (index + 1) * chunk <= shared and bool(group.stored[index])

    if layout.window_chunks is None:
        return next((index for index in range(keys) if not is_there(index)), keys)
    needed = layout.window_chunks + eagle
    at_edge = needed
    if layout.kind == "sliding":
        end = min(upper, (keys - eagle) * chunk)
        window = layout.group.window_tokens + layout.group.retained_tokens
        at_edge = max(layout.window_chunks, ceil_div(window - 1 + -end % chunk, chunk)) + eagle
    run, run_end = 0, keys
    for index in range(keys - 1, -1, -1):
        if not is_there(index):
            run, run_end = 0, index
            continue
        run += 1
        if run == (at_edge if run_end == keys else needed):
            return run_end
    return run


def needed_chunks(group: GroupPlan, hit: int) -> set[int]:
    """Chunks that hold a token which the one behind the hit looks back at."""
    layout, window = group.layout, group.layout.group.window_tokens
    kept = (window or 1) + layout.group.retained_tokens
    tokens = {
        "full": range(hit),
        "sliding": range(max(hit - kept + 1, 0), hit),
        "chunked": range(hit // (window or 1) * (window or 1), hit),
        "mamba": range(max(hit - 1, 0), hit),
    }[layout.kind.value]
    return {token // layout.tokens_per_chunk for token in tokens}


def used_chunks(group: GroupPlan, hit: int, shared: int) -> set[int]:
    """Chunks that a hit needs to be found or loaded."""
    layout = group.layout
    chunk = layout.tokens_per_chunk
    end = ceil_div(hit, chunk)
    if layout.window_chunks is None:
        return set(range(end))
    run = layout.window_chunks
    if layout.kind == "sliding":
        window = layout.group.window_tokens + layout.group.retained_tokens
        run = max(run, ceil_div(window - 1 + -hit % chunk, chunk))
    return set(range(max(end - run, 0), min(end + layout.group.eagle, shared // chunk)))
