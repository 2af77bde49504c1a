"""The reference worker with one fault each, by the check that must find it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import torch

from ecbench.encoder_cache.blocks import split_copies
from ecbench.targets.reference_conformance_worker import ReferenceWorker
from ecbench.transfer.descriptor_arrays import DescriptorArrays

FOR_EVER = []
"""What a leak keeps."""


class MixesBlocksUp(ReferenceWorker):
    def begin_step(self, saves, loads):
        super().begin_step({key: list(ids)[::-1] for key, ids in saves.items()}, loads)


class ClearsTheLastBlock(ReferenceWorker):
    def begin_step(self, saves, loads):
        super().begin_step(saves, loads)
        for ids in saves.values():
            self.blocks[ids[-1]].fill_(0)


class NeverCoalesces(ReferenceWorker):
    def __init__(self, spec, region):
        super().__init__(spec, region)
        self._worker._layout = split_copies


class SavesEverything(ReferenceWorker):
    def begin_step(self, saves, loads):
        super().begin_step({"a": [0], **saves}, loads)


class SavesOnEveryRank(ReferenceWorker):
    def __init__(self, spec, region):
        super().__init__(dataclasses.replace(spec, tensor_rank=0, context_rank=0), region)


class CutsLargeOutputs(ReferenceWorker):
    def save(self, key, output):
        blocks = self._worker._pending.awaited.get(key, ())
        super().save(key, output[:, : len(blocks) * 8])


class FlushesEachSave(ReferenceWorker):
    def save(self, key, output):
        announced = dict(self._worker._pending.awaited)
        self._worker.begin_step({key: announced.pop(key)})
        super().save(key, output)
        super().flush()
        self._worker.begin_step(announced)


class LosesTheTopBit(ReferenceWorker):
    def batches(self):
        return [[copy._replace(source=copy.source & (2**63 - 1)) for copy in batch] for batch in super().batches()]


class ForgetsShapes(ReferenceWorker):
    def load(self, resident):
        return {key: view.view(-1) for key, view in super().load(resident).items()}


class LoadsOneByOne(ReferenceWorker):
    def load(self, resident):
        loads, views = self._loads, {}
        for key, spec in loads.items():
            self._loads = {key: spec}
            views |= super().load(resident)
        return views


class IgnoresGaps(ReferenceWorker):
    def begin_step(self, saves, loads):
        first = min((load.block_ids[0] for load, _ in loads.values()), default=0)
        moved = {}
        for key, (load, shape) in loads.items():
            moved[key] = (load._replace(block_ids=list(range(first, first + len(load.block_ids)))), shape)
            first += len(load.block_ids)
        super().begin_step(saves, moved)


class SubmitsNothing(ReferenceWorker):
    def load(self, resident):
        if not self._loads:
            self._engine.batches.append([])
        return super().load(resident)


class TrustsResidents(ReferenceWorker):
    def load(self, resident):
        return super().load(resident) | resident


class LoadsOnTheFirstRank(ReferenceWorker):
    def __init__(self, spec, region):
        super().__init__(spec, region)
        self._first = spec.tensor_rank == 0

    def poll(self):
        finished = super().poll()
        return finished if self._first else finished._replace(loaded=())


class DropsAByte(ReferenceWorker):
    def load(self, resident):
        views = super().load(resident)
        for view in views.values():
            view.view(-1)[-1:].view(torch.uint8).bitwise_xor_(1)
        return views


def _without(worker, direction, dropped):
    queue = getattr(worker._worker, direction)
    submit = queue.submit
    queue.submit = lambda *arguments, **named: submit(*arguments, **{**named, dropped: ()})


class LetsGoOfSources(ReferenceWorker):
    def __init__(self, spec, region):
        super().__init__(spec, region)
        _without(self, "_saves", "sources")


class LetsGoOfBuffers(ReferenceWorker):
    def __init__(self, spec, region):
        super().__init__(spec, region)
        _without(self, "_loads", "destinations")


def _share_arrays(queue):
    storage = queue.arrays._allocate(1024)
    queue._arrays = SimpleNamespace(
        acquire=lambda capacity: DescriptorArrays(storage), release=lambda arrays: None, grow=None
    )


class ReusesSaveArrays(ReferenceWorker):
    def __init__(self, spec, region):
        super().__init__(spec, region)
        _share_arrays(self._worker._saves)


class ReusesLoadArrays(ReferenceWorker):
    def __init__(self, spec, region):
        super().__init__(spec, region)
        _share_arrays(self._worker._loads)


class UnlockedViews(ReferenceWorker):
    def flush(self):
        arrays = self._worker._pending.arrays
        if arrays is not None:
            self.raw = tuple(tensor.numpy() for tensor in arrays.tensors)
        super().flush()

    def descriptor_arrays(self):
        return self.raw


class ClaimsToBePinned(ReferenceWorker):
    pinned = True


class KeepsTheRegion(ReferenceWorker):
    def shutdown(self):
        FOR_EVER.append(self._region)


class KeepsTheRegionOfALostDevice(ReferenceWorker):
    def shutdown(self):
        FOR_EVER.append(self._region)
        self._work.refuse_if_lost()
        super().shutdown()
        FOR_EVER.clear()


class ForgetsEmptySaves(ReferenceWorker):
    def poll(self):
        finished = super().poll()
        return finished._replace(saved=tuple(key for key in finished.saved if key != "empty"))


class BreaksAfterEmptySaves(ReferenceWorker):
    had_empty = False

    def save(self, key, output):
        assert not self.had_empty
        self.had_empty = not output.numel()
        super().save(key, output)


class RefusesEmptyLoads(ReferenceWorker):
    def load(self, resident):
        return super().load(resident) if not self._loads or len(self._loads) > 1 else self._first_blocks()

    def _first_blocks(self):
        (spec,) = self._loads.values()
        assert spec.block_ids[0] >= 0
        return super().load({})


class SkipsEmptyLoads(ReferenceWorker):
    def load(self, resident):
        if len(self._loads) > 1:
            self._loads = {key: spec for key, spec in self._loads.items() if len(spec.block_ids)}
        return super().load(resident)


class NeverGivesUp(ReferenceWorker):
    def poll(self):
        return super().poll()._replace(abandoned=())


class IgnoresStrides(ReferenceWorker):
    def save(self, key, output):
        super().save(key, output.as_strided(output.shape, (output.shape[-1], 1)))


class RefusesWithoutAName(ReferenceWorker):
    def save(self, key, output):
        if not output.is_contiguous():
            raise RuntimeError("the strides do not fit")
        super().save(key, output)


class BreaksAfterARefusal(ReferenceWorker):
    broken = False

    def save(self, key, output):
        assert not self.broken
        self.broken = True
        super().save(key, output)


class NamesNoDtypes(ReferenceWorker):
    def save(self, key, output):
        if output.dtype is not self._dtype:
            raise ValueError("64 bytes but only 32 allocated")
        super().save(key, output)


class ReadsBitsAsTheModels(ReferenceWorker):
    def save(self, key, output):
        super().save(key, output if output.dtype.itemsize > self._dtype.itemsize else output.view(self._dtype))


class MixesABatchUp(ReferenceWorker):
    def load(self, resident):
        views = super().load(resident)
        if [*self._loads][:1] == ["c"] and len(views) > 1:
            views["a"] = torch.zeros_like(views["a"])
        return views


class ReportsBeforeTheCopy(ReferenceWorker):
    def poll(self):
        self.run_copies()
        return super().poll()


WORKER_MUTANTS = {
    "worker.exact-fit": MixesBlocksUp,
    "worker.partial-last-block": ClearsTheLastBlock,
    "worker.descriptor-sizes": NeverCoalesces,
    "worker.save-not-announced": SavesEverything,
    "worker.other-ranks-do-not-save": SavesOnEveryRank,
    "worker.oversized-output": CutsLargeOutputs,
    "worker.one-batch": FlushesEachSave,
    "worker.high-addresses": LosesTheTopBit,
    "worker.load-restores": ForgetsShapes,
    "worker.loads-coalesce": LoadsOneByOne,
    "worker.gap-splits-load": IgnoresGaps,
    "worker.no-loads": SubmitsNothing,
    "worker.resident-loaded-again": TrustsResidents,
    "worker.every-rank-loads": LoadsOnTheFirstRank,
    "worker.round-trip": DropsAByte,
    "worker.source-freed-early": LetsGoOfSources,
    "worker.load-buffer-survives": LetsGoOfBuffers,
    "worker.save-buffers-kept": ReusesSaveArrays,
    "worker.load-buffers-kept": ReusesLoadArrays,
    "worker.pinned-where-available": ClaimsToBePinned,
    "worker.shutdown-cleans": KeepsTheRegion,
    "worker.shutdown-after-device-loss": KeepsTheRegionOfALostDevice,
    "edge.stale-descriptor-view": UnlockedViews,
    "edge.zero-length-save": ForgetsEmptySaves,
    "edge.save-after-zero-length": BreaksAfterEmptySaves,
    "edge.zero-length-load": RefusesEmptyLoads,
    "edge.zero-length-load-with-others": SkipsEmptyLoads,
    "edge.save-never-runs": NeverGivesUp,
    "edge.non-contiguous": IgnoresStrides,
    "edge.wider-encoder-dtype": NamesNoDtypes,
    "edge.other-encoder-dtype": ReadsBitsAsTheModels,
    "edge.batch-invariance": MixesABatchUp,
}
FURTHER_WORKER_MUTANTS = (
    ("edge.non-contiguous", RefusesWithoutAName),
    ("edge.non-contiguous", BreaksAfterARefusal),
    ("worker.save-buffers-kept", ReportsBeforeTheCopy),
    ("worker.load-buffers-kept", ReportsBeforeTheCopy),
    ("worker.round-trip", MixesBlocksUp),
)
