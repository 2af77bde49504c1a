"""Behaviours 28 to 32: the shared region."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from ecbench.encoder_cache.conformance.definitions import (
    Check,
    CheckFailedError,
    NoInput,
    describe_error,
    require,
    require_bytes,
    require_equal,
)
from ecbench.encoder_cache.conformance.kernel_faults import refuse_populate
from ecbench.encoder_cache.conformance.outputs import BLOCK_BYTES, PAD, bytes_of
from ecbench.encoder_cache.conformance.refusals import refusal_of

if TYPE_CHECKING:
    from ecbench.core.conformance_protocols import ConformanceRegion
    from ecbench.encoder_cache.conformance.bench import Bench

_BLOCKS = 4
_SHORT_TIMEOUT_S = 0.1
_LONG_TIMEOUT_S = 10.0
_GROWS_AFTER_S = 0.05


class Pages(NamedTuple):
    """How large a region is."""

    pages: int


def _second_opener(bench: Bench, _: NoInput) -> None:
    name = bench.new_name()
    first, second = bench.create_region(name, _BLOCKS), bench.open_region(name, _BLOCKS)
    first.blocks[1].fill_(7)
    require_bytes(_block(second, 1), bytes([7]) * BLOCK_BYTES, "what the creator wrote, as the opener sees it")
    second.blocks[2].fill_(8)
    require_bytes(_block(first, 2), bytes([8]) * BLOCK_BYTES, "what the opener wrote, as the creator sees it")


def _other_process(bench: Bench, _: NoInput) -> None:
    name = bench.new_name()
    region = bench.create_region(name, _BLOCKS)
    bench.run_in_process(lambda: bench.target.open_region(name, _BLOCKS, BLOCK_BYTES).blocks[1].fill_(9))
    require_bytes(_block(region, 1), bytes([9]) * BLOCK_BYTES, "what another process wrote")


def _only_creator_unlinks(bench: Bench, _: NoInput) -> None:
    name = bench.new_name()
    creator, opener = bench.create_region(name, _BLOCKS), bench.open_region(name, _BLOCKS)
    creator.blocks[0].fill_(5)
    opener.cleanup()
    later = bench.open_region(name, _BLOCKS)
    require_bytes(_block(later, 0), bytes([5]) * BLOCK_BYTES, "the region, opened after another opener had left")
    creator.cleanup()
    require_equal(bench.left_files(name), [], "files after the creator had left")
    require_bytes(_block(later, 0), bytes([5]) * BLOCK_BYTES, "the region, used after its creator had left")


def _waits_for_size(bench: Bench, _: NoInput) -> None:
    descriptor = os.memfd_create("growing")
    grower = threading.Timer(_GROWS_AFTER_S, os.ftruncate, (descriptor, BLOCK_BYTES))
    grower.start()
    try:
        bench.target.wait_for_size(descriptor, BLOCK_BYTES, _LONG_TIMEOUT_S)
        require_equal(os.fstat(descriptor).st_size, BLOCK_BYTES, "size of the file when the wait ended")
    finally:
        grower.join()
        os.close(descriptor)


def _wait_times_out(bench: Bench, _: NoInput) -> None:
    descriptor = os.memfd_create("never-whole")
    os.ftruncate(descriptor, BLOCK_BYTES - 1)
    began = time.monotonic()
    try:
        refusal_of(
            lambda: bench.target.wait_for_size(descriptor, BLOCK_BYTES, _SHORT_TIMEOUT_S),
            "a file that never gets its size",
        )
    finally:
        os.close(descriptor)
    waited = time.monotonic() - began
    require(waited >= _SHORT_TIMEOUT_S / 2, f"gave up after {waited:.3f} s of {_SHORT_TIMEOUT_S} s")
    require(waited < _LONG_TIMEOUT_S, f"gave up only after {waited:.0f} s of {_SHORT_TIMEOUT_S} s")


def _prefault_fallback(bench: Bench, given: Pages) -> None:
    refuse_populate()
    name, blocks = bench.new_name(), given.pages * os.sysconf("SC_PAGESIZE") // BLOCK_BYTES
    region = bench.create_region(name, blocks)
    region.blocks.fill_(PAD)
    opener = bench.open_region(name, blocks)
    require_bytes(bytes_of(region.blocks), bytes([PAD]) * blocks * BLOCK_BYTES, "the region after a second opening")
    require_bytes(bytes_of(opener.blocks), bytes([PAD]) * blocks * BLOCK_BYTES, "the region as its opener sees it")


def _cleanup_twice(bench: Bench, _: NoInput) -> None:
    name = bench.new_name()
    creator, opener = bench.create_region(name, _BLOCKS), bench.open_region(name, _BLOCKS)
    for region in (opener, creator):
        for turn in ("first", "second"):
            try:
                region.cleanup()
            except Exception as error:
                raise CheckFailedError(f"the {turn} cleanup ends in {describe_error(error)}") from error
    require_equal(bench.left_files(name), [], "files after the cleanup")


def _block(region: ConformanceRegion, block: int) -> bytes:
    return bytes_of(region.blocks[block])


CHECKS = (
    Check("region.second-opener-shares", 28, "a second opener in the same process sees the same bytes",
          "bytes go both ways", _second_opener),
    Check("region.other-process-shares", 28, "an opener in another process sees the same bytes",
          "bytes that it writes are seen by the creator", _other_process),
    Check("region.only-creator-unlinks", 29, "an opener that leaves takes nothing away; the creator removes the file",
          "openable until the creator has left, no file afterwards, usable for who has it open", _only_creator_unlinks),
    Check("region.size-wait-succeeds", 30, "an opener waits until the creator has sized the file",
          "it goes on when the size is reached, not before", _waits_for_size),
    Check("region.size-wait-times-out", 30, "an opener does not wait for ever",
          "an error after the timeout", _wait_times_out),
    Check("region.prefault-fallback", 31, "a kernel without MADV_POPULATE_WRITE",
          "a region that works, and bytes that a second opening leaves as they are",
          _prefault_fallback, (Pages(1), Pages(3), Pages(64))),
    Check("region.cleanup-twice", 32, "cleanup may run twice", "no error and no file", _cleanup_twice),
)  # fmt: skip
