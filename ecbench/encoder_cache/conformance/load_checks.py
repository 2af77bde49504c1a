"""Behaviours 7 to 12: what a worker's loads give back, and in which descriptors."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import torch

from ecbench.encoder_cache.conformance.definitions import Check, NoInput, require_bytes, require_equal
from ecbench.encoder_cache.conformance.outputs import BLOCK_BYTES, MODEL_DTYPE, bytes_of, one_row
from ecbench.encoder_cache.conformance.steps import load_step, require_saved, save_step, stored_bytes

if TYPE_CHECKING:
    from ecbench.core.conformance_protocols import ConformanceWorker
    from ecbench.encoder_cache.conformance.bench import Bench


class Saved(NamedTuple):
    """One entry."""

    blocks: tuple[int, ...]
    output_bytes: int


class Ranks(NamedTuple):
    """A worker's place."""

    tensor_rank: int
    context_rank: int


class Order(NamedTuple):
    """In which order entries are given to a load."""

    order: tuple[str, ...]


class Entries(NamedTuple):
    """Blocks of each entry, and how many bytes the last block lacks."""

    blocks: tuple[tuple[int, ...], ...]
    short_by: int


def _restores(bench: Bench, given: Saved) -> None:
    worker = bench.worker()
    output = bench.content(given.output_bytes)
    saved = worker.to_device(output)
    save_step(worker, {"a": (saved, given.blocks)})
    require_saved(worker, ["a"])
    shape = (2, given.output_bytes // MODEL_DTYPE.itemsize // 2)
    view = load_step(worker, {"a": (given.blocks, shape)})["a"]
    worker.run_copies()
    require_equal(tuple(view.shape), shape, "shape")
    require_equal(view.dtype, MODEL_DTYPE, "dtype")
    require_equal(view.device, saved.device, "device")
    require_bytes(bytes_of(worker.to_host(view)), bytes_of(output), "loaded output")


_NEIGHBOURS = {"a": (2, 3), "b": (4,), "c": (5, 6)}


def _loads_coalesce(bench: Bench, given: Order) -> None:
    worker = bench.worker()
    content = _fill(bench, worker, range(2, 7))
    views = load_step(worker, {key: (_NEIGHBOURS[key], _shape(_NEIGHBOURS[key])) for key in given.order})
    worker.run_copies()
    require_equal([copy.size_bytes for copy in worker.batches()[-1]], [5 * BLOCK_BYTES], "bytes of the descriptors")
    for key, ids in _NEIGHBOURS.items():
        wanted = b"".join(content[block] for block in ids)
        require_bytes(bytes_of(worker.to_host(views[key])), wanted, f"entry {key!r}")


def _gap_splits(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    content = _fill(bench, worker, (2, 3, 5))
    views = load_step(worker, {"a": ((2, 3), _shape((2, 3))), "b": ((5,), _shape((5,)))})
    worker.run_copies()
    sizes = [copy.size_bytes for copy in worker.batches()[-1]]
    require_equal(sizes, [2 * BLOCK_BYTES, BLOCK_BYTES], "bytes of the descriptors")
    require_bytes(bytes_of(worker.to_host(views["a"])), content[2] + content[3], "entry 'a'")
    require_bytes(bytes_of(worker.to_host(views["b"])), content[5], "entry 'b'")


def _no_loads(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    require_equal(load_step(worker, {}), {}, "loaded")
    worker.run_copies()
    require_equal(worker.batches(), [], "batches")
    require_equal(tuple(worker.poll().loaded), (), "reported loads")


def _resident_is_loaded_again(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    first = load_step(worker, {"a": ((1,), _shape((1,)))})
    worker.run_copies()
    require_equal(len(worker.poll().loaded), 1, "reported loads")
    content = _fill(bench, worker, (1,))
    second = load_step(worker, {"a": ((1,), _shape((1,)))}, resident=first)
    worker.run_copies()
    require_equal(len(worker.poll().loaded), 1, "reports of an entry that was resident")
    require_bytes(bytes_of(worker.to_host(second["a"])), content[1], "the entry, loaded again")


def _every_rank_loads(bench: Bench, given: Ranks) -> None:
    name = bench.new_name()
    content = _fill(bench, bench.worker(bench.spec(name)), (3,))
    worker = bench.another_worker(bench.spec(name, ranks=given))
    view = load_step(worker, {"a": ((3,), _shape((3,)))})["a"]
    worker.run_copies()
    require_equal(len(worker.poll().loaded), 1, "reported loads")
    require_bytes(bytes_of(worker.to_host(view)), content[3], "loaded output")


def _round_trip(bench: Bench, given: Entries) -> None:
    blocks = 1 + max(max(ids) for ids in given.blocks)
    worker = bench.worker(bench.spec(blocks=blocks))
    placed = {f"entry {number}": ids for number, ids in enumerate(given.blocks)}
    outputs = {key: bench.content(len(ids) * BLOCK_BYTES - given.short_by) for key, ids in placed.items()}
    save_step(worker, {key: (worker.to_device(outputs[key]), ids) for key, ids in placed.items()})
    require_saved(worker, list(placed))
    views = load_step(worker, {key: (ids, one_row(outputs[key].nbytes)) for key, ids in placed.items()})
    worker.run_copies()
    require_equal(len(worker.poll().loaded), len(placed), "reported loads")
    for key, output in outputs.items():
        require_bytes(bytes_of(worker.to_host(views[key])), bytes_of(output), key)


def _fill(bench: Bench, worker: ConformanceWorker, block_ids: range | tuple[int, ...]) -> dict[int, bytes]:
    """Puts random bytes into blocks of the region, past the target."""
    for block in block_ids:
        content = bytes_of(bench.content(BLOCK_BYTES))
        worker.blocks[block].view(torch.uint8).copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    return {block: stored_bytes(worker, [block]) for block in block_ids}


def _shape(block_ids: tuple[int, ...]) -> tuple[int, int]:
    return one_row(len(block_ids) * BLOCK_BYTES)


_SHUFFLED = (9, 3, 4, 5, 0)
_LONG = tuple(range(40, 1064))

CHECKS = (
    Check(
        "worker.load-restores", 7, "a load gives the output back as it was",
        "same shape, dtype, bytes and device", _restores,
        (Saved((3,), 16), Saved((5, 6, 1), 48), Saved((5, 6, 1), 40)),
    ),
    Check(
        "worker.loads-coalesce", 8, "neighbouring entries of a load share a descriptor, whatever their order",
        "one descriptor over three neighbouring entries, each with its own bytes",
        _loads_coalesce, tuple(Order(order) for order in permutations("abc")),
    ),
    Check(
        "worker.gap-splits-load", 8, "a gap between entries splits the load",
        "one descriptor before the gap and one behind it", _gap_splits,
    ),
    Check("worker.no-loads", 9, "a step without loads", "no batch and no report", _no_loads),
    Check(
        "worker.resident-loaded-again", 10, "an entry that is on the device already is loaded again",
        "the bytes of the region, and one report per load", _resident_is_loaded_again,
    ),
    Check(
        "worker.every-rank-loads", 11, "every rank loads",
        "the region's bytes and one report, whatever the rank",
        _every_rank_loads, (Ranks(0, 0), Ranks(1, 0), Ranks(0, 1), Ranks(1, 1)),
    ),
    Check(
        "worker.round-trip", 12, "what was saved comes back",
        "every byte of every output", _round_trip,
        (
            Entries(((0,),), 0),
            Entries(((0,),), 14),
            Entries((_SHUFFLED,), 6),
            Entries((_SHUFFLED, (7, 8)), 2),
            Entries((tuple(range(0, 40, 2)), _LONG, (1, 3)), 4),
        ),
    ),
)  # fmt: skip
