"""The reference target with one fault in its regions each, by the check that must find it."""

from __future__ import annotations

import dataclasses
import mmap
import os
import time
from pathlib import Path

import torch

from ecbench.core.units import parse_size
from ecbench.targets.reference_conformance import ReferenceConformance, ReferenceRegion


class NamedRegion:
    """Shared memory in a file with a name, as simple connectors make it."""

    def __init__(self, path, num_blocks, block_size_bytes):
        self.path = Path(path)
        nbytes = num_blocks * block_size_bytes
        descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
        os.ftruncate(descriptor, nbytes)
        self.mapping = mmap.mmap(descriptor, nbytes)
        self.blocks = torch.frombuffer(memoryview(self.mapping), dtype=torch.uint8).view(num_blocks, block_size_bytes)

    def cleanup(self):
        self.path.unlink(missing_ok=True)


class NamedFiles(ReferenceConformance):
    def files(self, name):
        return (f"/dev/shm/{name}.region",)

    def create_region(self, name, num_blocks, block_size_bytes):
        return NamedRegion(*self.files(name), num_blocks, block_size_bytes)

    open_region = create_region


class SharesNothing(ReferenceConformance):
    def open_region(self, name, num_blocks, block_size_bytes):
        return super().create_region(f"{name} again", num_blocks, block_size_bytes)


class SharesNothingWithOthers(ReferenceConformance):
    home = 0

    def create_region(self, name, num_blocks, block_size_bytes):
        self.home = os.getpid()
        return super().create_region(name, num_blocks, block_size_bytes)

    def open_region(self, name, num_blocks, block_size_bytes):
        opened = self.home == os.getpid()
        return (super().open_region if opened else super().create_region)(name, num_blocks, block_size_bytes)


class EverybodyUnlinks(NamedFiles):
    pass


class NobodyUnlinks(NamedFiles):
    def create_region(self, name, num_blocks, block_size_bytes):
        region = NamedRegion(*self.files(name), num_blocks, block_size_bytes)
        region.cleanup = lambda: None
        return region

    open_region = create_region


class DoesNotWait(ReferenceConformance):
    def wait_for_size(self, descriptor, size_bytes, timeout_s):
        pass


class WaitsInVain(ReferenceConformance):
    def wait_for_size(self, descriptor, size_bytes, timeout_s):
        time.sleep(timeout_s)


class ClearsOnOpening(ReferenceConformance):
    def open_region(self, name, num_blocks, block_size_bytes):
        region = super().open_region(name, num_blocks, block_size_bytes)
        region.blocks.fill_(0)
        return region


class CleansOnce(ReferenceConformance):
    def create_region(self, name, num_blocks, block_size_bytes):
        return OnceCleaned(super().create_region(name, num_blocks, block_size_bytes)._region)


class OnceCleaned(ReferenceRegion):
    cleaned = False

    def cleanup(self):
        assert not self.cleaned
        self.cleaned = True
        super().cleanup()


def _bytes_of(capacity):
    return parse_size(capacity) if isinstance(capacity, str) else capacity


class RoundsUp(ReferenceConformance):
    def worker(self, spec):
        return super().worker(dataclasses.replace(spec, capacity=max(1 << 12, _bytes_of(spec.capacity))))


class IgnoresSigns(ReferenceConformance):
    def worker(self, spec):
        return super().worker(dataclasses.replace(spec, capacity=1 << 12))


class HoldsMoreThanGranted(ReferenceConformance):
    def worker(self, spec):
        return super().worker(dataclasses.replace(spec, capacity=-(-spec.capacity // 16) * 16))


class NamesNothing(ReferenceConformance):
    def worker(self, spec):
        return super().worker(dataclasses.replace(spec, capacity=int(spec.capacity)))


class ReadsUnitsWrong(ReferenceConformance):
    def worker(self, spec):
        wrong = int(spec.capacity.rstrip("KMiB")) * 1000 if isinstance(spec.capacity, str) else spec.capacity
        return super().worker(dataclasses.replace(spec, capacity=wrong))


class NamesNoSizes(NamedFiles):
    def create_region(self, name, num_blocks, block_size_bytes):
        region = super().create_region(name, num_blocks, block_size_bytes)
        region.mapping.madvise(23)
        return region


class NamedWorkers(NamedFiles):
    def worker(self, spec):
        NamedRegion(*self.files(spec.name), 1, 16)
        return super().worker(spec)


REGION_MUTANTS = {
    "region.second-opener-shares": SharesNothing,
    "region.other-process-shares": SharesNothingWithOthers,
    "region.only-creator-unlinks": EverybodyUnlinks,
    "region.size-wait-succeeds": DoesNotWait,
    "region.size-wait-times-out": WaitsInVain,
    "region.prefault-fallback": ClearsOnOpening,
    "region.cleanup-twice": CleansOnce,
    "edge.capacity-below-one-block": RoundsUp,
    "edge.capacity-negative": IgnoresSigns,
    "edge.capacity-not-in-blocks": HoldsMoreThanGranted,
    "edge.capacity-with-unit": NamesNothing,
    "edge.small-shm": NamesNoSizes,
    "edge.small-shm-old-kernel": NamedFiles,
    "edge.killed": NamedWorkers,
}
FURTHER_REGION_MUTANTS = (
    ("region.only-creator-unlinks", NobodyUnlinks),
    ("region.cleanup-twice", NobodyUnlinks),
    ("edge.capacity-with-unit", ReadsUnitsWrong),
)
