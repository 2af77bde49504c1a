"""Planning and proving what is offloaded, against a loop over blocks.

    python benchmarks/kv_planning.py

Prints times by prompt length, by policy, and how many times faster the product is than the loops below, which do the
same block by block. Exits with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from ecbench.kv_offload import GroupPlan, OffloadPlan, OffloadSettings, load_model, plan_store, prove

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = (64_000, 256_000, 1_000_000, 4_000_000)
MEASURED_TOKENS = 1_000_000
PLAN_LIMIT_S = 0.050
PROVE_LIMIT_S = 0.500
LEAST_RATIO = 20
REQUESTS = 10_000
REQUEST_TOKENS = 8_000
REQUESTS_LIMIT_S = 2.0
GROWTH_LIMIT = 1.5
"""Cost of a token at the longest length over that at the shortest: 1 is linear, the rest is for noise."""
REPEATS = 5
SETTINGS = {
    "pr": OffloadSettings(policy="pr"),
    "vllm-0.33, retention none": OffloadSettings(),
    "vllm-0.33, retention 0": OffloadSettings(retention_interval=0),
}
Result = TypeVar("Result")


def loop_plan(plan: OffloadPlan) -> list[list[bool]]:
    """`plan_store` of the default settings, one block at a time."""
    return [_loop_group(plan, group) for group in plan.groups]


def _loop_group(plan: OffloadPlan, group: GroupPlan) -> list[bool]:
    block, window = group.layout.tokens_per_block, group.layout.group.window_tokens
    blocks = plan.prompt.tokens // block
    if window is None:
        return [True] * blocks
    per_segment = plan.alignment_tokens // block
    need = -(-(window - 1) // block)
    stored = []
    for index in range(blocks):
        in_tail = index % per_segment >= per_segment - need
        in_last = index >= max(blocks - need, blocks // per_segment * per_segment)
        stored.append(need >= per_segment or in_tail or in_last)
    return stored


def loop_prove(plan: OffloadPlan, stored: list[list[bool]]) -> tuple[list[int], int]:
    """`prove` for groups without EAGLE: boundaries that do not load, and chunks that no replay uses."""
    step = plan.alignment_tokens
    unfit = []
    used = [[False] * len(chunks) for chunks in stored]
    for boundary in range(step, plan.prompt.tokens + 1, step):
        for length in (boundary, boundary + 1):
            hit = _loop_hit(plan, stored, length, boundary)
            if length > boundary > hit:
                unfit.append(boundary)
            _mark_used(plan, used, hit)
    unused = sum(
        kept and not use
        for chunks, uses in zip(stored, used, strict=True)
        for kept, use in zip(chunks, uses, strict=True)
    )
    return unfit, unused


def _loop_hit(plan: OffloadPlan, stored: list[list[bool]], length: int, shared: int) -> int:
    upper = length - 1
    while True:
        before = upper
        for group, chunks in zip(plan.groups, stored, strict=True):
            chunk, window = group.layout.tokens_per_chunk, group.layout.window_chunks
            present = min(-(-upper // chunk), shared // chunk)
            found = _loop_prefix(chunks, present) if window is None else _loop_window(chunks, present, window)
            upper = min(upper, found * chunk)
        if upper == before or upper <= 0:
            return max(upper, 0)


def _loop_prefix(chunks: list[bool], present: int) -> int:
    for index in range(present):
        if not chunks[index]:
            return index
    return present


def _loop_window(chunks: list[bool], present: int, window: int) -> int:
    run = 0
    for index in range(present - 1, -1, -1):
        run = run + 1 if chunks[index] else 0
        if run == window:
            return index + window
    return run


def _mark_used(plan: OffloadPlan, used: list[list[bool]], hit: int) -> None:
    for group, uses in zip(plan.groups, used, strict=True):
        end = -(-hit // group.layout.tokens_per_chunk)
        window = group.layout.window_chunks
        for index in range(0 if window is None else max(end - window, 0), end):
            uses[index] = True


def timed(work: Callable[[], Result], repeats: int = 1) -> tuple[Result, float]:
    """The last result and the best time in seconds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return result, best


def show_lengths(repeats: int) -> dict[str, float]:
    """Prints times by length; returns the worst ones that have a limit."""
    model = load_model("deepseek-v4-flash")
    worst = {"plan": 0.0, "prove": 0.0, "growth": 0.0}
    print(f"{'policy':28}{'tokens':>12}{'plan ms':>10}{'prove ms':>10}{'ns per token':>14}")
    for name, settings in SETTINGS.items():
        per_token = {}
        for tokens in LENGTHS:
            plan, plan_s = timed(lambda: plan_store(model, tokens, settings), repeats)  # noqa: B023 - called at once
            _, prove_s = timed(lambda: prove(plan), repeats)  # noqa: B023 - called at once
            per_token[tokens] = (plan_s + prove_s) / tokens
            print(f"{name:28}{tokens:12,}{plan_s * 1e3:10.2f}{prove_s * 1e3:10.1f}{per_token[tokens] * 1e9:14.1f}")
            if tokens == MEASURED_TOKENS:
                worst["plan"], worst["prove"] = max(worst["plan"], plan_s), max(worst["prove"], prove_s)
        worst["growth"] = max(worst["growth"], per_token[LENGTHS[-1]] / per_token[LENGTHS[0]])
    return worst


def show_loops(repeats: int) -> tuple[float, float]:
    """Prints how many times slower the loops are; returns the ratios of planning and proving."""
    model = load_model("deepseek-v4-flash")
    plan, plan_s = timed(lambda: plan_store(model, MEASURED_TOKENS), repeats)
    proof, prove_s = timed(lambda: prove(plan), repeats)
    stored, loop_plan_s = timed(lambda: loop_plan(plan))
    (unfit, unused), loop_prove_s = timed(lambda: loop_prove(plan, stored))
    if stored != [group.stored.tolist() for group in plan.groups]:
        sys.exit("the loop plans something else: one of them is wrong")
    if (unfit, unused) != ([found.boundary_tokens for found in proof.not_loadable], proof.not_used_by_replays):
        sys.exit("the loop proves something else: one of them is wrong")
    print(f"\nloop over blocks, {MEASURED_TOKENS:,} tokens, same results:")
    print(f"  plan  {loop_plan_s * 1e3:9.1f} ms, {loop_plan_s / plan_s:8.0f} times {plan_s * 1e3:.2f} ms")
    print(f"  prove {loop_prove_s * 1e3:9.1f} ms, {loop_prove_s / prove_s:8.0f} times {prove_s * 1e3:.1f} ms")
    return loop_plan_s / plan_s, loop_prove_s / prove_s


def show_requests(repeats: int) -> float:
    """Prints and returns the time to plan many requests of different lengths."""
    model = load_model("deepseek-v4-flash")

    def plan_all() -> None:
        for number in range(REQUESTS):
            plan_store(model, REQUEST_TOKENS + number % 500)

    _, seconds = timed(plan_all, repeats)
    print(f"\n{REQUESTS:,} requests of {REQUEST_TOKENS:,} tokens planned in {seconds:.2f} s")
    return seconds


def main() -> int:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="the best of so many runs counts")
    repeats = parser.parse_args().repeats
    worst = show_lengths(repeats)
    plan_ratio, prove_ratio = show_loops(repeats)
    requests_s = show_requests(min(repeats, 3))
    limits = [
        (f"plan {MEASURED_TOKENS:,} tokens", worst["plan"] <= PLAN_LIMIT_S, f"<= {PLAN_LIMIT_S * 1e3:.0f} ms"),
        (f"prove {MEASURED_TOKENS:,} tokens", worst["prove"] <= PROVE_LIMIT_S, f"<= {PROVE_LIMIT_S * 1e3:.0f} ms"),
        ("cost per token, longest to shortest prompt", worst["growth"] <= GROWTH_LIMIT, f"<= {GROWTH_LIMIT} times"),
        ("loop to product", min(plan_ratio, prove_ratio) >= LEAST_RATIO, f">= {LEAST_RATIO} times"),
        (f"{REQUESTS:,} requests", requests_s <= REQUESTS_LIMIT_S, f"<= {REQUESTS_LIMIT_S:.0f} s"),
    ]
    print()
    for name, kept, limit in limits:
        print(f"{'kept  ' if kept else 'MISSED'} {name}: {limit}")
    return 0 if all(kept for _, kept, _ in limits) else 1


if __name__ == "__main__":
    sys.exit(main())
