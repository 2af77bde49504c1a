"""Behaviours 13 to 17: what a worker keeps alive, for how long, and what is left after its end."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from ecbench.encoder_cache.conformance.definitions import Check, NoInput, require, require_bytes, require_equal
from ecbench.encoder_cache.conformance.outputs import BLOCK_BYTES, bytes_of, one_row
from ecbench.encoder_cache.conformance.steps import load_step, require_saved, require_stored, save_step, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ecbench.core.conformance_protocols import ConformanceWorker
    from ecbench.encoder_cache.conformance.bench import Bench

_BUSY_LOADS = 6
"""Loads in flight at once; an allocator that reuses memory too early does so at the second."""
_SHM = "/dev/shm/"  # noqa: S108 - looked for, not written


class Blocks(NamedTuple):
    """How large the entries are."""

    blocks: int


def _source_may_go(bench: Bench, given: Blocks) -> None:
    worker = bench.worker(bench.spec(blocks=given.blocks, holds_copies=True))
    output = bench.content(given.blocks * BLOCK_BYTES)
    address = _save_and_forget(worker, output, given.blocks)
    gc.collect()
    # Whatever takes the memory of a source that is still to be read, writes other bytes there.
    others = [worker.to_device(bench.content(output.nbytes)) for _ in range(_BUSY_LOADS)]
    taken = [other for other in others if _overlaps(address, other.data_ptr(), output.nbytes)]
    require(not taken, "the memory of the source was handed out again before the copy had read it")
    require_saved(worker, ["a"])
    require_stored(worker, range(given.blocks), bytes_of(output))


def _save_and_forget(worker: ConformanceWorker, output: Tensor, blocks: int) -> int:
    source = worker.to_device(output)
    save_step(worker, {"a": (source, range(blocks))})
    return source.data_ptr()


def _load_buffer_survives(bench: Bench, given: Blocks) -> None:
    worker = bench.worker(bench.spec(blocks=given.blocks, holds_copies=True))
    nbytes = given.blocks * BLOCK_BYTES
    entries = {"a": (range(given.blocks), one_row(nbytes))}
    addresses: list[int] = []
    for _ in range(_BUSY_LOADS):
        address = load_step(worker, entries)["a"].data_ptr()
        gc.collect()
        again = any(_overlaps(earlier, address, nbytes) for earlier in addresses)
        require(not again, "the memory of a load was handed out again while the load was still to write it")
        addresses.append(address)
    worker.run_copies()
    require_equal(len(worker.poll().loaded), _BUSY_LOADS, "reported loads")


def _overlaps(first: int, second: int, nbytes: int) -> bool:
    return abs(first - second) < nbytes


def _saves_keep_buffers(bench: Bench, _: NoInput) -> None:
    worker = bench.worker(bench.spec(holds_copies=True))
    outputs = {key: bench.content(BLOCK_BYTES) for key in "abc"}
    sources = [worker.to_device(output) for output in outputs.values()]
    for block, (key, source) in enumerate(zip(outputs, sources, strict=True)):
        save_step(worker, {key: (source, [block])})
        require_equal(tuple(worker.poll().saved), (), "reported before the copy ran")
    require_saved(worker, list(outputs))
    for block, output in enumerate(outputs.values()):
        require_stored(worker, [block], bytes_of(output))


def _loads_keep_buffers(bench: Bench, _: NoInput) -> None:
    worker = bench.worker(bench.spec(holds_copies=True))
    outputs = [bench.content(BLOCK_BYTES) for _ in "abc"]
    for block, output in enumerate(outputs):
        worker.blocks[block].view(torch.uint8).copy_(output.view(-1).view(torch.uint8))
    views = []
    for block in range(len(outputs)):
        views.append(load_step(worker, {"a": ([block], one_row(BLOCK_BYTES))})["a"])
        require_equal(tuple(worker.poll().loaded), (), "reported before the copy ran")
    worker.run_copies()
    require_equal(len(worker.poll().loaded), len(outputs), "reported loads")
    for block, (view, output) in enumerate(zip(views, outputs, strict=True)):
        require_bytes(bytes_of(worker.to_host(view)), bytes_of(output), f"load of block {block}")


def _stale_view(bench: Bench, _: NoInput) -> None:
    worker = bench.worker(bench.spec(holds_copies=True))
    outputs = {key: bench.content(BLOCK_BYTES) for key in "ab"}
    save_step(worker, {"a": (worker.to_device(outputs["a"]), [0])})
    destinations = worker.descriptor_arrays()[1]
    require_saved(worker, ["a"])
    save_step(worker, {"b": (worker.to_device(outputs["b"]), [1])})
    # Another block of the same region: a wrong destination, but one that may be written.
    elsewhere = worker.blocks[2].data_ptr()
    with suppress(Exception):
        destinations[0] = elsewhere
    require_saved(worker, ["b"])
    stored = stored_bytes(worker, [1]) == bytes_of(outputs["b"])
    require(stored, "writing through a view of the first save's descriptors sent the second save to another block")


def _pinned(bench: Bench, _: NoInput) -> None:
    available = torch.cuda.is_available() or torch.xpu.is_available()
    pinned = bench.worker().pinned
    require(available or not pinned, "the region counts as registered with a driver although there is none")


def _shutdown_cleans(bench: Bench, _: NoInput) -> None:
    _shut_down(bench, lambda _worker: None)


def _shutdown_cleans_after_loss(bench: Bench, _: NoInput) -> None:
    _shut_down(bench, lambda worker: worker.lose_device())


def _shut_down(bench: Bench, before: Callable[[ConformanceWorker], None]) -> None:
    name = bench.new_name()
    held = _open_regions()
    worker = bench.worker(bench.spec(name, holds_copies=True))
    save_step(worker, {"a": (worker.to_device(bench.content(BLOCK_BYTES)), [0])})
    before(worker)
    for _ in range(2):
        with suppress(RuntimeError):
            worker.shutdown()
    del worker
    # What is mapped stays mapped as long as a tensor over it is in use.
    bench.close()
    require_equal(bench.left_files(name), [], "files after the shutdown")
    left = _open_regions() - held
    require(not left, f"the process still holds {', '.join(sorted(left))} after the shutdown")


def _open_regions() -> set[str]:
    """Files of /dev/shm that this process has mapped or open, named or not."""
    mapped = {line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if _SHM in line}
    opened = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            opened.add(str(link.readlink()))
    return mapped | {path for path in opened if path.startswith(_SHM)}


_SIZES = (Blocks(256), Blocks(4096))
_KEPT = "the memory stays until the copy is done"

CHECKS = (
    Check("worker.source-freed-early", 13, "the source of a save may be freed before the copy ran",
          _KEPT, _source_may_go, _SIZES),
    Check("worker.load-buffer-survives", 14, "a load's buffer survives its eviction while the load is queued",
          _KEPT, _load_buffer_survives, _SIZES),
    Check("worker.save-buffers-kept", 15, "descriptors of saves in flight are not overwritten by later saves",
          "nothing is reported before its copy ran, and every save lands in its own block", _saves_keep_buffers),
    Check("worker.load-buffers-kept", 15, "descriptors of loads in flight are not overwritten by later loads",
          "nothing is reported before its copy ran, and every load gives its own block", _loads_keep_buffers),
    Check("worker.pinned-where-available", 16, "the region is pinned only where a driver can do so",
          "not pinned without a driver", _pinned),
    Check("worker.shutdown-cleans", 17, "shutdown gives the region up, and may run twice",
          "no file, mapping or descriptor of the region is left", _shutdown_cleans),
    Check("worker.shutdown-after-device-loss", 17, "shutdown gives the region up also where waiting for a copy fails",
          "no file, mapping or descriptor of the region is left", _shutdown_cleans_after_loss),
    Check("edge.stale-descriptor-view", None, "a view of descriptors is written after they went back to their pool",
          "the write is refused, or changes no later copy", _stale_view),
)  # fmt: skip
