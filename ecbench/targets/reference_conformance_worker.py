"""ecbench's own encoder-cache worker behind what the conformance suite asks of a worker."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.conformance_protocols import Descriptor, Finished, Load
from ecbench.encoder_cache.blocks import BlockIds, coalesced_copies
from ecbench.encoder_cache.worker import EncoderCacheWorker, LoadSpec, Rank
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.xpu_sim import XpuSimDevice
from ecbench.engine.registry import AUTO, open_engine
from ecbench.targets.held_copies import HeldCpuDevice, HeldEngine, HeldWork, HeldXpuSimDevice
from ecbench.transfer.writers import find_writer

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.core.conformance_protocols import ConnectorSpec
    from ecbench.core.copy_plan import CopyPlan
    from ecbench.core.descriptors import DescriptorBatch, PreparedCopy
    from ecbench.core.protocols import CopyEngine, DescriptorArrays, DescriptorWriter, Device
    from ecbench.transfer.shared_region import SharedRegion


class _RecordingEngine:
    """Notes the descriptors of every batch."""

    def __init__(self, inner: CopyEngine) -> None:
        self._inner = inner
        self.batches: list[list[Descriptor]] = []

    @property
    def name(self) -> str:
        return self._inner.name

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        columns = (batch.sources.tolist(), batch.destinations.tolist(), batch.sizes.tolist())
        self.batches.append([Descriptor(*row) for row in zip(*columns, strict=True)])
        return self._inner.prepare(batch)


class _RecordingWriter:
    """Keeps the views it wrote through, as code that forgets to let go of them does."""

    def __init__(self, inner: DescriptorWriter) -> None:
        self._inner = inner
        self.views: tuple[NDArray[np.uint64], ...] = ()

    @property
    def name(self) -> str:
        return self._inner.name

    def write(
        self, arrays: DescriptorArrays, start: int, plan: CopyPlan, source_address: int, destination_address: int
    ) -> None:
        self._inner.write(arrays, start, plan, source_address, destination_address)
        self.views = arrays.views


class ReferenceWorker:
    """`EncoderCacheWorker` over the CPU, or over the emulated XPU where addresses may be high.

    Args:
        spec: How it is made.
        region: Where it saves to; closed by `shutdown`.
    """

    def __init__(self, spec: ConnectorSpec, region: SharedRegion) -> None:
        self._region = region
        self._work = HeldWork()
        self._device = self._open_device(spec)
        engine = open_engine(AUTO, self._device)
        self._engine = _RecordingEngine(HeldEngine(engine, self._work) if spec.holds_copies else engine)
        self._writer = _RecordingWriter(find_writer("numpy-batch"))
        self._dtype = spec.dtype
        self._worker = EncoderCacheWorker(
            region,
            self._device,
            self._engine,
            self._writer,
            layout=coalesced_copies,
            dtype=spec.dtype,
            rank=Rank(spec.tensor_rank, spec.context_rank),
        )
        self._registration = self._device.register_host(region.whole)
        self._loads: dict[str, LoadSpec] = {}
        self._tickets: defaultdict[str, list[Hashable]] = defaultdict(list)

    def _open_device(self, spec: ConnectorSpec) -> Device:
        if spec.holds_copies:
            return HeldXpuSimDevice(self._work) if spec.unsigned_addresses else HeldCpuDevice(self._work)
        return XpuSimDevice() if spec.unsigned_addresses else CpuDevice()

    @property
    def blocks(self) -> Tensor:
        """The region's blocks."""
        return self._region.blocks

    @property
    def pinned(self) -> bool:
        """A host device registers nothing."""
        return not self._device.pinning.startswith("none")

    def to_device(self, host: Tensor) -> Tensor:
        """A copy in the device's pool."""
        tensor = self._device.empty(host.nbytes)
        self._device.memory(tensor).to_host()[:] = host.reshape(-1).view(torch.uint8).numpy()
        return tensor.view(host.dtype).view(host.shape)

    def to_host(self, tensor: Tensor) -> Tensor:
        """A copy of what the device's memory holds."""
        content = self._device.memory(tensor.view(-1).view(torch.uint8)).to_host().copy()
        return torch.from_numpy(content).view(tensor.dtype).view(tensor.shape)

    def begin_step(self, saves: Mapping[str, Sequence[int]], loads: Mapping[str, tuple[Load, tuple[int, int]]]) -> None:
        """Announces the saves and keeps the loads."""
        self._worker.begin_step({key: BlockIds.of(ids) for key, ids in saves.items()})
        self._loads = {
            key: LoadSpec(BlockIds.of(load.block_ids), shape, self._dtype) for key, (load, shape) in loads.items()
        }
        for key, (load, _) in loads.items():
            self._tickets[key].append(load.ticket)

    def save(self, key: str, output: Tensor) -> None:
        """Adds an output to the step's saves."""
        self._worker.save(key, output)

    def flush(self) -> None:
        """Submits the step's saves."""
        self._worker.flush()

    def load(self, resident: Mapping[str, Tensor]) -> dict[str, Tensor]:  # noqa: ARG002 - the protocol's signature
        """Submits the step's loads, those of resident outputs, too."""
        return self._worker.load(self._loads)

    def poll(self) -> Finished:
        """What ended, loads by their tickets."""
        finished = self._worker.poll()
        loaded = tuple(self._tickets[key].pop(0) for key in finished.loaded)
        return Finished(finished.saved, loaded, finished.abandoned)

    def batches(self) -> list[list[Descriptor]]:
        """Every batch's descriptors."""
        return self._engine.batches

    def run_copies(self) -> None:
        """Runs what is held."""
        self._work.run()

    def descriptor_arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The views that the last batch was written through."""
        sources, destinations, sizes = self._writer.views
        return sources, destinations, sizes

    def lose_device(self) -> None:
        """Waiting fails from now on."""
        self._work.lost = True

    def shutdown(self) -> None:
        """Forgets held copies, then ends the worker."""
        self._work.discard()
        try:
            self._worker.shutdown()
        finally:
            self._registration.release()
