"""Holds ecbench's own overhead against its targets, as ratios within one run.

    python benchmarks/overhead.py            everything, about a minute
    python benchmarks/overhead.py writers    one section: copies, writers, allocation, stages or help

Exit code 1 where a target is missed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import torch

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.records import RoundTripResult
from ecbench.encoder_cache import EmbeddingCache
from ecbench.encoder_cache.blocks import coalesced_copies
from ecbench.encoder_cache.worker import _save_plan
from ecbench.engine.host_facts import last_level_cache_bytes
from ecbench.measure.stages import StageClock
from ecbench.transfer.descriptor_arrays import DescriptorArrayPool
from ecbench.transfer.writers import find_writer
from ecbench.workflows.round_trip import RoundTripOptions, prepare_round_trip, run_round_trip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Row = tuple[str, float, str, float]
"""What, measured, '>=' or '<=', target."""

RUN_BLOCKS = 4096
BLOCK_BYTES = 8192
COPY_ROUNDS = 15


def _median_s(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return median(times)


def copies() -> Iterator[Row]:
    """Share of the ceiling, with one thread on both sides and a working set of at least four last-level caches."""
    cache = last_level_cache_bytes() or 0
    for scenario, target in (("ec-image-set", 0.85), ("ec-scattered", 0.5)):
        options = RoundTripOptions(scenarios=(scenario,), device="cpu", rounds=COPY_ROUNDS)
        (case,) = run_round_trip(prepare_round_trip(options), StageClock(), lambda *_: None).cases
        for leg in case.legs:
            assert leg.verify is not None
            assert leg.verify.ok
            assert leg.ceiling_ratio is not None
            fits = f"working set {2 * leg.copied_bytes / cache:.1f} x LLC" if cache else "LLC unknown"
            yield (
                f"{scenario} {leg.direction}, share of the ceiling ({leg.engine}, {fits})",
                leg.ceiling_ratio,
                ">=",
                target,
            )


def writers() -> Iterator[Row]:
    """Cost of a descriptor by writer, at 4096 descriptors of low addresses (every writer takes them)."""
    count = 4096
    plan = CopyPlan(
        np.arange(count) * BLOCK_BYTES,
        np.arange(count) * BLOCK_BYTES,
        np.full(count, BLOCK_BYTES),
        count * BLOCK_BYTES,
        count * BLOCK_BYTES,
    )
    arrays = DescriptorArrayPool(torch.int64).acquire(count)
    cost = {
        name: _median_s(lambda name=name: find_writer(name).write(arrays, 0, plan, 1 << 40, 1 << 41), repeats) / count
        for name, repeats in (("setitem", 5), ("setitem-twos", 5), ("numpy-item", 30), ("numpy-batch", 300))
    }
    for name, seconds in cost.items():
        print(f"    {name:13} {seconds * 1e9:9.1f} ns per descriptor")
    yield "numpy-batch is faster than numpy-item, times", cost["numpy-item"] / cost["numpy-batch"], ">=", 20
    yield "numpy-item is faster than setitem, times", cost["setitem"] / cost["numpy-item"], ">=", 10


def allocation() -> Iterator[Row]:
    """Allocating and describing one run costs what a run costs, however many blocks it has."""
    writer, pool = find_writer("numpy-batch"), DescriptorArrayPool(torch.int64)

    def allocate_and_fill(blocks: int) -> float:
        cache = EmbeddingCache(2 * blocks)
        region_bytes = 2 * blocks * BLOCK_BYTES
        began = time.perf_counter()
        ids = cache.alloc("entry", blocks)
        assert ids is not None
        arrays = pool.acquire(1)
        copies = coalesced_copies(ids, BLOCK_BYTES, blocks * BLOCK_BYTES)
        writer.write(arrays, 0, _save_plan(copies, BLOCK_BYTES, blocks * BLOCK_BYTES, region_bytes), 1 << 40, 1 << 41)
        elapsed = time.perf_counter() - began
        pool.release(arrays)
        return elapsed

    cost = {
        blocks: median(allocate_and_fill(blocks) for _ in range(500)) for blocks in (64, RUN_BLOCKS, 16 * RUN_BLOCKS)
    }
    for blocks, seconds in cost.items():
        print(f"    one run of {blocks:6} blocks: {seconds * 1e6:5.1f} us")
    yield f"allocate and fill one run of {RUN_BLOCKS} blocks, us", cost[RUN_BLOCKS] * 1e6, "<=", 60
    yield "a run 1024 times as long costs as much, times", cost[16 * RUN_BLOCKS] / cost[64], "<=", 1.5


def stages() -> Iterator[Row]:
    """Time of a default run that no named stage accounts for, and the run as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "ecbench", "roundtrip", "--device", "cpu", "--quiet", "--out", folder]
        began = time.perf_counter()
        subprocess.run([*command, "--json", str(path)], check=True)
        wall_s = time.perf_counter() - began
        result = msgspec.json.decode(path.read_bytes(), type=RoundTripResult)
    named_s = sum(seconds for name, seconds in result.stages_s.items() if name != "other")
    yield "default run: share of time in no named stage", 1 - named_s / wall_s, "<=", 0.10
    yield "default run, s", wall_s, "<=", 15


def help_time() -> Iterator[Row]:
    """`ecbench --help` against the import of what it is written with."""
    commands = {"help": ["-m", "ecbench", "--help"], "typer": ["-c", "import typer, rich"]}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(9):
        for name, arguments in commands.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - began)
    yield "ecbench --help against import typer, rich, times", median(times["help"]) / median(times["typer"]), "<=", 3


SECTIONS = {"copies": copies, "writers": writers, "allocation": allocation, "stages": stages, "help": help_time}


def main() -> int:
    """Prints each section and counts missed targets."""
    wanted = sys.argv[1:] or list(SECTIONS)
    missed = 0
    for name in wanted:
        print(name)
        for what, value, relation, target in SECTIONS[name]():
            met = value >= target if relation == ">=" else value <= target
            missed += not met
            print(f"  {'ok    ' if met else 'MISSED'} {value:8.3g} {relation} {target:<5g} {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
