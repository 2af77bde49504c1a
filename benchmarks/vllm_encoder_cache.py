"""Holds the reference's encoder-cache connector against the installed vLLM's, side by side in one run.

    make .venv-vllm/.installed && .venv-vllm/bin/python benchmarks/vllm_encoder_cache.py

Each model's full-HD image in a fresh and in a churned region, then one run of 4096 blocks with its targets, then where
vLLM spends its time there and what changes to it would gain. Times are the connectors' own work: both sides first save
and load the same entry with real copies, and must agree in ids, descriptors and bytes; then the copies are left out of
both. Exit code 1 where a target is missed or the sides differ.
"""

from __future__ import annotations

import random
import sys
import time
import uuid
from dataclasses import dataclass, field
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ecbench.core.descriptors import PreparedCopy
from ecbench.encoder_cache import EmbeddingCache
from ecbench.encoder_cache.blocks import coalesced_copies
from ecbench.encoder_cache.worker import EncoderCacheWorker, LoadSpec
from ecbench.encoder_cache.workloads.models import encoder_models
from ecbench.engine.registry import AUTO, open_device, open_engine
from ecbench.targets.vllm.installation import find, load_vllm
from ecbench.targets.vllm.stand_ins import WORKER_MODULE, encoder_cache_config, install_stand_ins
from ecbench.transfer.shared_region import create_region
from ecbench.transfer.writers import find_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import Stream

IMAGE = "1920x1080"
RUN_BLOCKS = 4096
RUN_BLOCK_BYTES = 8192
ROUNDS = 200
"""Rounds of all sides in turn; the median of each side counts."""
CHURN_ALLOCATIONS = 1500
CHURN_ENTRIES = 16
TIMES_FASTER = 5.0
"""Target for allocation and fill of one run of blocks."""
DTYPE = torch.bfloat16
KEY = "image"
STEPS = ("allocate", "fill", "flush", "load")


@dataclass(frozen=True)
class Entry:
    """What is saved and loaded.

    Args:
        blocks: Blocks, one row of the output each.
        block_bytes: Bytes of one.
    """

    blocks: int
    block_bytes: int

    def output(self) -> torch.Tensor:
        """An encoder output whose rows all differ."""
        words = torch.arange(self.blocks * self.block_bytes // 2, dtype=torch.int32).to(torch.int16)
        return words.view(DTYPE).view(self.blocks, -1)


@dataclass
class Side:
    """One connector around one region, with an allocator of its own.

    Args:
        cache: The allocator.
        steps: What to time, by name.
        region: All blocks: uint8, shape ``(bytes,)``.
        close: Releases everything.
        batches: Descriptors of each batch that was handed over.
    """

    cache: Any
    steps: dict[str, Callable[[], Any]]
    region: torch.Tensor
    close: Callable[[], None]
    batches: list[int] = field(default_factory=list)
    ids: Any = None


class RecordingEngine:
    """Notes how many descriptors a batch has; copies them, or moves nothing so that the connector alone is left."""

    name = "recording"

    def __init__(self, batches: list[int], engine: Any = None) -> None:
        self._batches = batches
        self._engine = engine

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Hands the batch on."""
        self._batches.append(len(batch))
        return self._engine.prepare(batch) if self._engine else PreparedCopy(self.name, 1, _move_nothing)


def _move_nothing(stream: Stream) -> None:
    """The copy that is left out."""


def reference_side(entry: Entry, output: torch.Tensor, cache: EmbeddingCache, engine: Any = None) -> Side:
    """The reference, ready to save and load one entry."""
    batches: list[int] = []
    region = create_region(cache.num_blocks, entry.block_bytes)
    worker = EncoderCacheWorker(
        region,
        open_device("cpu"),
        RecordingEngine(batches, engine),
        find_writer("numpy-batch"),
        layout=coalesced_copies,
        dtype=DTYPE,
    )

    def allocate() -> None:
        side.ids = cache.alloc(KEY, entry.blocks)

    def fill() -> None:
        worker.begin_step({KEY: side.ids})
        worker.save(KEY, output)

    def flush() -> None:
        worker.flush()
        worker.poll()

    def load() -> torch.Tensor:
        loaded = worker.load({KEY: LoadSpec(side.ids, tuple(output.shape), DTYPE)})
        worker.poll()
        return loaded[KEY]

    steps = {"allocate": allocate, "fill": fill, "flush": flush, "load": load}
    side = Side(cache, steps, region.blocks.view(-1), worker.shutdown, batches)
    return side


def vllm_side(entry: Entry, output: torch.Tensor, cache: Any, *, copies: bool = False) -> Side:
    """The worker of vLLM, ready to save and load one entry."""
    config = encoder_cache_config(
        f"ecbench-{uuid.uuid4().hex}",
        hidden_size=entry.block_bytes // DTYPE.itemsize,
        dtype=DTYPE,
        region_bytes=cache._num_blocks * entry.block_bytes,
    )
    worker = find(WORKER_MODULE, "ECCPUWorker")(config)
    batches: list[int] = []
    submit = worker._submit_transfer
    worker._submit_transfer = lambda *batch: (batches.append(batch[1]), submit(*batch) if copies else None)
    outputs: dict[str, torch.Tensor] = {}

    def allocate() -> None:
        side.ids = cache.alloc(KEY, entry.blocks).block_ids
        if isinstance(side.ids, tuple):
            side.ids = list(side.ids)  # as the scheduler hands them to the worker

    def fill() -> None:
        outputs[KEY] = output
        worker.save_caches(outputs, KEY, SimpleNamespace(saves={KEY: side.ids}, loads={}))

    def flush() -> None:
        worker.flush_saves()
        worker.build_connector_worker_meta()

    def load() -> torch.Tensor:
        metadata = SimpleNamespace(saves={}, loads={KEY: (0, side.ids, tuple(output.shape))})
        worker.start_load_caches(outputs, metadata)
        worker.build_connector_worker_meta()
        return outputs[KEY]

    steps = {"allocate": allocate, "fill": fill, "flush": flush, "load": load}
    side = Side(cache, steps, worker._region.blocks.view(torch.uint8).view(-1), worker.shutdown, batches)
    return side


def run_in_turn(sides: Sequence[Side], rounds: int = ROUNDS) -> list[dict[str, float]]:
    """Runs all sides round by round.

    Returns:
        Median seconds of each step, per side.
    """
    times: list[dict[str, list[float]]] = [{step: [] for step in STEPS} for _ in sides]
    for number in range(rounds):
        turn = list(enumerate(sides))
        for index, side in turn if number % 2 == 0 else reversed(turn):
            for step, call in side.steps.items():
                began = time.perf_counter()
                call()
                times[index][step].append(time.perf_counter() - began)
            side.cache.discard(KEY)
    return [{step: median(values) for step, values in side.items()} for side in times]


def refuse_difference(entry: Entry, output: torch.Tensor, caches: tuple[EmbeddingCache, Any]) -> int:
    """Saves and loads one entry on both sides with the same real copies.

    Returns:
        Descriptors that the entry takes.

    Raises:
        SystemExit: Ids, descriptors, or bytes in the region or after the load differ.
    """
    sides = (
        reference_side(entry, output, caches[0], open_engine(AUTO, open_device("cpu"))),
        vllm_side(entry, output, caches[1], copies=True),
    )
    seen = []
    for side in sides:
        side.region.zero_()
        for step in STEPS[:-1]:
            side.steps[step]()
        loaded = side.steps["load"]().view(torch.int16).clone()
        seen.append((list(side.ids), side.batches, side.region, loaded))
        side.cache.discard(KEY)
    ours, theirs = seen
    same = ours[:2] == theirs[:2] and torch.equal(ours[2], theirs[2]) and torch.equal(ours[3], theirs[3])
    right = torch.equal(ours[3], output.view(torch.int16))
    descriptors = sides[0].batches[0]
    del seen, ours, theirs
    for side in sides:
        side.region = torch.empty(0)
        side.close()
    if not (same and right):
        raise SystemExit(f"{entry}: the connectors differ in ids, descriptors or bytes")
    return descriptors


def caches_of(blocks: int, sizes: Sequence[int] | None) -> tuple[EmbeddingCache, Any]:
    """Both allocators after the same allocations: none, or a churn of these sizes."""
    caches = EmbeddingCache(blocks), find(f"{_SCHEDULER}.embedding_cache", "EmbeddingCache")(blocks)
    for cache in caches if sizes else ():
        draw = random.Random(0)
        for number in range(CHURN_ALLOCATIONS):
            if cache.alloc(f"churn-{number}", draw.choice(sizes)) is not None:
                cache.mark_ready(f"churn-{number}")
    return caches


_SCHEDULER = "vllm.distributed.ec_transfer.ec_connector.cpu.scheduler"


def models() -> bool:
    """One full-HD image of each model, in a fresh and in a churned region."""
    print(f"one {IMAGE} image, microseconds of the connector's own work, reference / vLLM")
    header = "  ".join(f"{step:>17}" for step in (*STEPS, "all"))
    print(f"{'model':20} {'region':7} {'blocks':>6} {'descr.':>6}  {header}  per descriptor  vLLM/ref")
    for model in encoder_models().values():
        entry = Entry(model.tokens_of(IMAGE) * model.rows_per_token, model.block_size_bytes)
        sizes = [tokens * model.rows_per_token for tokens in model.tokens.values() if tokens <= model.tokens_of(IMAGE)]
        rooms = (("fresh", 2 * entry.blocks, None), ("churned", CHURN_ENTRIES * sum(sizes) // len(sizes), sizes))
        for region, blocks, churn in rooms:
            _print_model(model.title, region, entry, blocks, churn)
    return True


def _print_model(title: str, region: str, entry: Entry, blocks: int, churn: list[int] | None) -> None:
    output = entry.output()
    caches = caches_of(max(blocks, 2 * entry.blocks), churn)
    if churn:
        _settle(entry, caches)
    descriptors = refuse_difference(entry, output, caches)
    sides = reference_side(entry, output, caches[0]), vllm_side(entry, output, caches[1])
    ours, theirs = (({**times, "all": sum(times.values())}) for times in run_in_turn(sides))
    for side in sides:
        side.region = torch.empty(0)
        side.close()
    cells = "  ".join(f"{ours[step] * 1e6:7.1f} /{theirs[step] * 1e6:8.1f}" for step in (*STEPS, "all"))
    each = f"{ours['all'] * 1e6 / descriptors:6.2f} /{theirs['all'] * 1e6 / descriptors:7.2f}"
    print(
        f"{title:20} {region:7} {entry.blocks:6} {descriptors:6}  {cells}  {each}  {theirs['all'] / ours['all']:7.1f}x"
    )


def _settle(entry: Entry, caches: tuple[EmbeddingCache, Any]) -> None:
    """Makes room for the entry once, so that later allocations evict nothing and meet the same free blocks."""
    for cache in caches:
        if cache.alloc(KEY, entry.blocks) is None:
            raise SystemExit(f"{entry}: no room in the churned region")
        cache.discard(KEY)


class SlicingCache:
    """What vLLM's allocator could do: take a slice of its stack instead of popping block by block."""

    def __init__(self, blocks: int) -> None:
        self._num_blocks = blocks
        self._free = list(range(blocks))
        self._taken: tuple[int, ...] = ()

    def alloc(self, _: str, blocks: int) -> Any:
        """Sorted ids of the last blocks of the stack."""
        taken = self._free[-blocks:]
        del self._free[-blocks:]
        taken.sort()
        self._taken = tuple(taken)
        return SimpleNamespace(block_ids=self._taken)

    def discard(self, _: str) -> None:
        """Puts them back."""
        self._free.extend(self._taken)


class ArrayCache:
    """What it could do beyond that: keep ids in an int64 array all the way to the descriptors."""

    def __init__(self, blocks: int) -> None:
        self._num_blocks = blocks
        self._free = np.arange(blocks)
        self._count = blocks
        self._taken = self._free[:0]

    def alloc(self, _: str, blocks: int) -> Any:
        """Sorted ids of the last blocks of the stack."""
        self._count -= blocks
        self._taken = np.sort(self._free[self._count : self._count + blocks])
        return SimpleNamespace(block_ids=self._taken)

    def discard(self, _: str) -> None:
        """Puts them back."""
        self._free[self._count : self._count + len(self._taken)] = self._taken
        self._count += len(self._taken)


def _runs_of_array(ids: Any) -> tuple[Any, Any, Any]:
    """Runs of consecutive ids, without a copy of ids that are an array already."""
    ids = np.asarray(ids, dtype=np.int64)
    starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1] + 1) + 1))
    return starts, ids[starts], np.diff(starts, append=len(ids))


def one_run() -> bool:
    """One run of 4096 blocks: the targets, and what changes to vLLM would gain."""
    entry = Entry(RUN_BLOCKS, RUN_BLOCK_BYTES)
    output = entry.output()
    ours, theirs = caches_of(2 * RUN_BLOCKS, None)
    refuse_difference(entry, output, (ours, theirs))
    names = ("reference", "vLLM", "vLLM, slice instead of pops", "vLLM, ids stay an array")
    sides = (
        reference_side(entry, output, ours),
        vllm_side(entry, output, theirs),
        vllm_side(entry, output, SlicingCache(2 * RUN_BLOCKS)),
        vllm_side(entry, output, ArrayCache(2 * RUN_BLOCKS)),
    )
    _use_array_runs(sides[3])
    times = run_in_turn(sides)
    for side in sides:
        side.region = torch.empty(0)
        side.close()
    print(f"one run of {RUN_BLOCKS} blocks of {RUN_BLOCK_BYTES} bytes, microseconds")
    print(f"{'':30}" + "".join(f"{step:>10}" for step in STEPS))
    for name, steps in zip(names, times, strict=True):
        print(f"{name:30}" + "".join(f"{steps[step] * 1e6:10.1f}" for step in STEPS))
    return _print_targets(times[0], times[1])


def _use_array_runs(side: Side) -> None:
    """Lets one side split ids into runs in its own way; the function is a global of vLLM's module."""
    module = sys.modules[WORKER_MODULE]
    real = module._coalesce_runs  # type: ignore[attr-defined]

    def with_array_runs(call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            module._coalesce_runs = _runs_of_array  # type: ignore[attr-defined]
            try:
                return call()
            finally:
                module._coalesce_runs = real  # type: ignore[attr-defined]

        return run

    side.steps = {step: with_array_runs(call) for step, call in side.steps.items()}


def _print_targets(ours: dict[str, float], theirs: dict[str, float]) -> bool:
    ratio = (theirs["allocate"] + theirs["fill"]) / (ours["allocate"] + ours["fill"])
    met = ratio >= TIMES_FASTER
    print(f"  {'ok    ' if met else 'MISSED'} {ratio:.1f} >= {TIMES_FASTER:g} allocation and fill, vLLM / reference")
    return met


def main() -> int:
    """Prints all tables."""
    installation = load_vllm()
    stand_ins = install_stand_ins(installation.device_type)
    print(f"vLLM {installation.version}; stand-ins: {', '.join(stand_ins)}")
    return 0 if all([one_run(), models()]) else 1


if __name__ == "__main__":
    sys.exit(main())
