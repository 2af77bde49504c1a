"""Targets that crash, hang, print, leave things behind, or are not whole; given to the suite as ``module:Class``."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import ClassVar

from ecbench.core.conformance_protocols import NotApplicableError
from ecbench.targets.reference_conformance import (
    ReferenceAllocator,
    ReferenceConformance,
    ReferenceRegion,
    ReferenceScheduler,
)
from ecbench.targets.reference_conformance_worker import ReferenceWorker

SLEEP_S = os.environ.get("ECBENCH_TEST_SLEEP_S", "76543")
"""By which processes that were left are found."""
sys.stdout.write("printed by the import\n")


def _print(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class CrashingAllocator(ReferenceAllocator):
    def alloc(self, key, blocks):
        _print("about to crash")
        ctypes.string_at(0)


class HangingScheduler(ReferenceScheduler):
    def plan_step(self, touched):
        threading.Event().wait()


class TruncatedRegion(ReferenceRegion):
    def __init__(self, region):
        super().__init__(region)
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as its mapping
        self.file.truncate(mmap.PAGESIZE)
        self.mapping = mmap.mmap(self.file.fileno(), mmap.PAGESIZE)

    @property
    def blocks(self):
        self.file.truncate(0)
        self.mapping[0] = 1
        return super().blocks


class ExitingWorker(ReferenceWorker):
    def load(self, resident):
        os._exit(7)

    def save(self, key, output):
        sys.exit("enough")


class ManyFaults(ReferenceConformance):
    """Every part ends the process in another way when it is used."""

    def allocator(self, num_blocks):
        return CrashingAllocator(num_blocks)

    def scheduler(self, spec):
        return HangingScheduler(spec)

    def create_region(self, name, num_blocks, block_size_bytes):
        return TruncatedRegion(super().create_region(name, num_blocks, block_size_bytes)._region)

    def worker(self, spec):
        return ExitingWorker(spec, super().worker(spec)._region)


class LeavesThingsBehind(ReferenceConformance):
    """Prints wherever it can, and leaves a file for each region and processes for each allocator."""

    known_differences: ClassVar = {"allocator.full-gives-none": "by design", "allocator.zero-blocks": "no difference"}

    def __init__(self):
        super().__init__()
        _print("printed by the constructor")
        os.write(1, b"written past Python\n")

    def files(self, name):
        return (f"/dev/shm/{name}.left",)

    def create_region(self, name, num_blocks, block_size_bytes):
        Path(*self.files(name)).write_bytes(b"x")
        return super().create_region(name, num_blocks, block_size_bytes)

    def open_region(self, name, num_blocks, block_size_bytes):
        threading.Event().wait()

    def allocator(self, num_blocks):
        _print("printed by a check")
        if os.fork() == 0:
            os.setsid()
            os.fork()
            os.execv("/bin/sleep", ["sleep", SLEEP_S])
        return RaisesWhenFull(num_blocks)


class RaisesWhenFull(ReferenceAllocator):
    def alloc(self, key, blocks):
        ids = super().alloc(key, blocks)
        if ids is None:
            raise MemoryError("full")
        return ids


class KillsItsHolder(ReferenceConformance):
    """Kills the process that holds the target, as a machine without memory may."""

    def allocator(self, num_blocks):
        if num_blocks > 1:
            os.kill(os.getppid(), 9)
            threading.Event().wait()
        return super().allocator(num_blocks)


class AllocatorAlone(ReferenceConformance):
    """Has nothing but an allocator, and says so."""

    def create_region(self, name, num_blocks, block_size_bytes):
        raise NotApplicableError("no region")

    def open_region(self, name, num_blocks, block_size_bytes):
        raise NotApplicableError("no region")

    def wait_for_size(self, descriptor, size_bytes, timeout_s):
        raise NotApplicableError("no region")

    def worker(self, spec):
        raise NotApplicableError("no worker")

    def scheduler(self, spec):
        raise NotApplicableError("no scheduler")


class RaisesAtOnce(ReferenceConformance):
    def __init__(self):
        raise ValueError("no licence\nfor this machine")


class ExitsAtOnce(ReferenceConformance):
    def __init__(self):
        _print("cannot go on")
        os._exit(5)


class HangsAtOnce(ReferenceConformance):
    def __init__(self):
        threading.Event().wait()


class NoWorker(ReferenceConformance):
    worker = None


class NoOption(ReferenceConformance):
    capacity_option = None


class OtherSignature(ReferenceConformance):
    def create_region(self, name, size):
        raise NotImplementedError


class PartWithoutMethod(ReferenceConformance):
    def allocator(self, num_blocks):
        return object()


class PartWithOtherSignature(ReferenceConformance):
    def allocator(self, num_blocks):
        return OtherAlloc(num_blocks)


class OtherAlloc(ReferenceAllocator):
    def alloc(self, key):
        raise NotImplementedError


class ForeignFiles(ReferenceConformance):
    def files(self, name):
        return ("/dev/shm/psm_somebody",)


class FilesElsewhere(ReferenceConformance):
    def files(self, name):
        return (f"/etc/{name}",)


class FilesRaise(ReferenceConformance):
    def files(self, name):
        raise OSError("no such thing")


class UnknownDifference(ReferenceConformance):
    known_differences: ClassVar = {"allocator.nothing": "of no check"}


class UnknownDevice(ReferenceConformance):
    device = "abacus"


not_a_class = 1
