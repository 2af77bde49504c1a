"""Behaviours 1 to 6: where a worker's saves land, and in which descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from ecbench.core.conformance_protocols import Descriptor
from ecbench.encoder_cache.conformance.definitions import Check, NoInput, require_equal
from ecbench.encoder_cache.conformance.outputs import BLOCK_BYTES, MODEL_DTYPE, bytes_of
from ecbench.encoder_cache.conformance.refusals import names_bytes, refusal_of, require_named
from ecbench.encoder_cache.conformance.steps import require_saved, require_stored, require_untouched, save_step
from ecbench.engine.devices.host_pool import array_at

if TYPE_CHECKING:
    from torch import Tensor

    from ecbench.encoder_cache.conformance.bench import Bench

_TOP = 2**63


class Saved(NamedTuple):
    """One entry."""

    blocks: tuple[int, ...]
    output_bytes: int


class Described(NamedTuple):
    """One entry, and the bytes of each descriptor it comes to."""

    blocks: tuple[int, ...]
    output_bytes: int
    descriptor_bytes: tuple[int, ...]


class Ranks(NamedTuple):
    """A worker's place."""

    tensor_rank: int
    context_rank: int


class Base(NamedTuple):
    """Where an output begins."""

    address: int


def _lands(bench: Bench, given: Saved) -> None:
    worker = bench.worker()
    output = bench.content(given.output_bytes)
    save_step(worker, {"a": (worker.to_device(output), given.blocks)})
    require_saved(worker, ["a"])
    require_stored(worker, given.blocks, bytes_of(output))
    require_untouched(worker, given.blocks)


def _descriptors(bench: Bench, given: Described) -> None:
    worker = bench.worker()
    output = worker.to_device(bench.content(given.output_bytes))
    save_step(worker, {"a": (output, given.blocks)})
    (batch,) = worker.batches()
    require_equal([copy.size_bytes for copy in batch], list(given.descriptor_bytes), "bytes of the descriptors")
    base, copied = worker.blocks.data_ptr(), 0
    for copy in batch:
        first_block = given.blocks[copied // BLOCK_BYTES]
        wanted = Descriptor(output.data_ptr() + copied, base + first_block * BLOCK_BYTES, copy.size_bytes)
        require_equal(copy, wanted, "descriptor")
        copied += copy.size_bytes


def _not_in_the_step(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    worker.begin_step({}, {})
    worker.save("a", worker.to_device(bench.content(BLOCK_BYTES)))
    worker.flush()
    require_saved(worker, [])
    require_untouched(worker, ())


def _other_ranks_do_not_save(bench: Bench, given: Ranks) -> None:
    worker = bench.worker(bench.spec(ranks=given))
    save_step(worker, {"a": (worker.to_device(bench.content(BLOCK_BYTES)), [0])})
    require_saved(worker, [])
    require_untouched(worker, ())


def _oversized(bench: Bench, given: Saved) -> None:
    worker = bench.worker()
    output = worker.to_device(bench.content(given.output_bytes))
    worker.begin_step({"a": list(given.blocks)}, {})
    error = refusal_of(lambda: worker.save("a", output), "the output")
    sizes = (given.output_bytes, len(given.blocks) * BLOCK_BYTES)
    require_named(error, {f"{size} bytes": names_bytes(error, size) for size in sizes})
    worker.flush()
    require_untouched(worker, ())


def _one_batch(bench: Bench, _: NoInput) -> None:
    worker = bench.worker()
    blocks = {"a": (4, 5), "b": (0,), "c": (9, 2)}
    outputs = {key: bench.content(len(ids) * BLOCK_BYTES) for key, ids in blocks.items()}
    save_step(worker, {key: (worker.to_device(outputs[key]), ids) for key, ids in blocks.items()})
    require_equal(len(worker.batches()), 1, "batches")
    require_saved(worker, list(blocks))
    for key, ids in blocks.items():
        require_stored(worker, ids, bytes_of(outputs[key]))


def _high_addresses(bench: Bench, given: Base) -> None:
    worker = bench.worker(bench.spec(holds_copies=True, unsigned_addresses=True))
    output: Tensor = torch.from_numpy(array_at(given.address, 2 * BLOCK_BYTES, None)).view(MODEL_DTYPE).view(1, -1)
    save_step(worker, {"a": (output, (2, 7))})
    (batch,) = worker.batches()
    base = worker.blocks.data_ptr()
    wanted = [
        Descriptor(given.address + slot * BLOCK_BYTES, base + block * BLOCK_BYTES, BLOCK_BYTES)
        for slot, block in enumerate((2, 7))
    ]
    require_equal(batch, wanted, "descriptors")


_OTHER_RANKS = (Ranks(1, 0), Ranks(0, 1), Ranks(1, 1))
_IN_PLACE = "the output's bytes are in the blocks it was given, in order; all other bytes are as before"

CHECKS = (
    Check(
        "worker.exact-fit", 1, "an output that fills its blocks lands in them",
        _IN_PLACE, _lands,
        (Saved((3,), 16), Saved((2, 3, 7), 48), Saved((9, 3, 12, 0), 64)),
    ),
    Check(
        "worker.partial-last-block", 1, "an output that ends inside its last block leaves the rest of that block alone",
        _IN_PLACE, _lands,
        (Saved((3,), 2), Saved((2, 3), 18), Saved((2, 3, 7), 40), Saved((5, 6, 7), 46)),
    ),
    Check(
        "worker.descriptor-sizes", 2, "neighbouring blocks of a save share a descriptor",
        "one descriptor per run of neighbouring blocks, the last cut at the output's end, none for surplus blocks",
        _descriptors,
        (
            Described((2, 3, 4), 48, (48,)),
            Described((1, 3, 5), 48, (16, 16, 16)),
            Described((2, 3, 7), 48, (32, 16)),
            Described((2, 3, 4), 40, (40,)),
            Described((2, 3, 7), 20, (20,)),
            Described((2, 5, 7), 20, (16, 4)),
        ),
    ),
    Check(
        "worker.save-not-announced", 3, "an output that the step does not save is left alone",
        "nothing is copied and nothing is reported", _not_in_the_step,
    ),
    Check(
        "worker.other-ranks-do-not-save", 3, "only the first rank of each group saves",
        "nothing is copied and nothing is reported by ranks other than tp 0, pcp 0",
        _other_ranks_do_not_save, _OTHER_RANKS,
    ),
    Check(
        "worker.oversized-output", 4, "an output larger than its blocks is refused",
        "an error that names the output's bytes and the bytes of its blocks; nothing is written",
        _oversized, (Saved((1,), 18), Saved((1, 2), 34)),
    ),
    Check(
        "worker.one-batch", 5, "all saves of a step go in one batch",
        "one batch for three entries, every entry's bytes in its blocks", _one_batch,
    ),
    Check(
        "worker.high-addresses", 6, "addresses of 2**63 and above are kept exactly",
        "descriptors with the source's own addresses, also in the second run",
        _high_addresses, (Base(_TOP - 128), Base(_TOP), Base(2**64 - 128)),
    ),
)  # fmt: skip
