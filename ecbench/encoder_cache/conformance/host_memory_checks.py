"""Edge cases of the region's memory: odd capacities, a small /dev/shm, and a killed process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ecbench.core.conformance_protocols import NotApplicableError
from ecbench.core.units import parse_size
from ecbench.encoder_cache.conformance.definitions import (
    Check,
    CheckFailedError,
    NoInput,
    describe_error,
    require,
    require_equal,
)
from ecbench.encoder_cache.conformance.forks import run_forked
from ecbench.encoder_cache.conformance.kernel_faults import (
    kill_self,
    limit_file_size,
    refuse_populate,
    shrink_shm,
)
from ecbench.encoder_cache.conformance.outputs import BLOCK_BYTES, PAD
from ecbench.encoder_cache.conformance.refusals import names_bytes, names_number, names_text, refusal_of

if TYPE_CHECKING:
    from ecbench.encoder_cache.conformance.bench import Bench

_SMALL_SHM_BYTES = 1 << 20


class Bytes(NamedTuple):
    """What a user gives as the region's memory."""

    capacity: int


class Text(NamedTuple):
    """What a user gives as the region's memory, with a unit."""

    capacity: str


class RegionBytes(NamedTuple):
    """How large a region is, and how large /dev/shm."""

    region_bytes: int
    shm_bytes: int


def _too_small(bench: Bench, given: Bytes) -> None:
    name = bench.new_name()
    error = refusal_of(lambda: bench.target.worker(bench.spec(name, capacity=given.capacity)), "the capacity")
    faults = [] if names_number(error, given.capacity) else [f"does not name {given.capacity}"]
    _require_clean_refusal(bench, name, error, faults)


def _written_with_unit(bench: Bench, given: Text) -> None:
    name = bench.new_name()
    try:
        worker = bench.worker(bench.spec(name, capacity=given.capacity))
    except Exception as error:
        named = names_text(error, str(given.capacity)) and names_text(error, bench.target.capacity_option)
        faults = [] if named else [f"does not name {bench.target.capacity_option} and {given.capacity!r}"]
        _require_clean_refusal(bench, name, error, faults)
        return
    wanted = parse_size(given.capacity) // BLOCK_BYTES
    require_equal(worker.blocks.shape[0], wanted, "blocks of the region")


def _rounds_down(bench: Bench, given: Bytes) -> None:
    blocks = bench.worker(bench.spec(capacity=given.capacity)).blocks
    require_equal(tuple(blocks.shape), (given.capacity // BLOCK_BYTES, BLOCK_BYTES), "shape of the region")


def _require_clean_refusal(bench: Bench, name: str, error: Exception, faults: list[str]) -> None:
    left = bench.left_files(name)
    faults = [*faults, *([f"leaves {', '.join(left)}"] if left else [])]
    require(not faults, f"{describe_error(error)} ({'; '.join(faults)})")


def _small_shm(bench: Bench, given: RegionBytes) -> None:
    sizes = [given.region_bytes]
    try:
        shrink_shm(given.shm_bytes)
        sizes.append(given.shm_bytes)
    except NotApplicableError:
        limit_file_size(given.shm_bytes)
    name = bench.new_name()
    error = refusal_of(
        lambda: bench.create_region(name, given.region_bytes // BLOCK_BYTES), "a region larger than /dev/shm"
    )
    faults = [f"does not name {size} bytes" for size in sizes if not names_bytes(error, size)]
    _require_clean_refusal(bench, name, error, faults)


def _small_shm_old_kernel(bench: Bench, given: RegionBytes) -> None:
    shrink_shm(given.shm_bytes)
    refuse_populate()
    name = bench.new_name()
    error = refusal_of(
        lambda: bench.create_region(name, given.region_bytes // BLOCK_BYTES).blocks.fill_(PAD),
        "a region larger than /dev/shm",
    )
    _require_clean_refusal(bench, name, error, [])


def _killed(bench: Bench, _: NoInput) -> None:
    name = bench.new_name()

    def create_and_die() -> None:
        worker = bench.target.worker(bench.spec(name))
        worker.blocks.fill_(PAD)
        kill_self()

    ended = run_forked(create_and_die)
    if ended.signal != "SIGKILL":
        raise CheckFailedError(f"the process to be killed ended before: {ended.error or ended.signal}")
    require_equal(bench.left_files(name), [], "files after its process was killed")


_CLEAN = "no file is left"
_LARGE = (
    RegionBytes(2 * _SMALL_SHM_BYTES, _SMALL_SHM_BYTES),
    RegionBytes(8 * _SMALL_SHM_BYTES, _SMALL_SHM_BYTES),
)

CHECKS = (
    Check("edge.capacity-below-one-block", None, "less memory than one block is granted",
          f"an error that names the capacity; {_CLEAN}", _too_small, (Bytes(1), Bytes(BLOCK_BYTES - 1))),
    Check("edge.capacity-negative", None, "a negative capacity",
          f"an error that names the capacity; {_CLEAN}", _too_small, (Bytes(-1), Bytes(-(1 << 20)))),
    Check("edge.capacity-not-in-blocks", None, "the capacity is no whole number of blocks",
          "as many whole blocks as it holds", _rounds_down, (Bytes(BLOCK_BYTES + 1), Bytes(3 * BLOCK_BYTES - 1))),
    Check("edge.capacity-with-unit", None, "the capacity is written with a unit",
          f"as many bytes, or an error that names the option and its value; {_CLEAN}",
          _written_with_unit, (Text("4KiB"), Text("1MiB"))),
    Check("edge.small-shm", None, "shared memory is smaller than the region",
          f"an error that names the bytes needed and the bytes free; {_CLEAN}", _small_shm, _LARGE),
    Check("edge.small-shm-old-kernel", None, "shared memory is smaller than the region, without MADV_POPULATE_WRITE",
          f"an error, before the region is used; {_CLEAN}", _small_shm_old_kernel, _LARGE),
    Check("edge.killed", None, "the process that made the region is killed (SIGKILL)", _CLEAN, _killed),
)  # fmt: skip
