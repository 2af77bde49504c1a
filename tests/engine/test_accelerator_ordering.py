"""Order and lifetimes: each hazard is tried on right code, and on code that was broken on purpose to see it caught."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from ecbench.core.descriptors import Direction, PreparedCopy
from ecbench.engine.copy_engines.per_copy import PerCopyEngine
from ecbench.engine.copy_engines.pieces import locate
from ecbench.engine.devices.accelerator import AcceleratorDevice
from ecbench.engine.devices.host_registration import PinnedHost
from ecbench.transfer.descriptor_arrays import DescriptorArrayPool
from ecbench.transfer.queue import TransferQueue
from tests.engine.fake_accelerator import fake_device
from tests.engine.fake_streams import FakeEvent, FakeStream, Order
from tests.engine.hazards import (
    HAZARDS,
    PLAN,
    load_before_a_reader,
    load_under_a_delayed_reader,
    save_after_a_slow_producer,
    source_freed_after_submitting,
    two_batches_in_flight,
)
from tests.engine.test_accelerator_engines import ON_CUDA, cuda_batch, per_copy, staged
from tests.engine.transfers import make_buffers, queue_fill, submit, transfer


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("make", ON_CUDA)
@pytest.mark.parametrize("hazard", HAZARDS)
def test_right_code_withstands(hazard, make, order):
    device = fake_device(order)
    assert hazard(device, make(device))
    assert device.runtime.gpu.violations == []


class EngineOnWhateverIsCurrent(PerCopyEngine):
    """Forgets to enter the transfer's stream."""

    def prepare(self, batch):
        sources = locate(batch.sources, batch.sizes, batch.source_tensors, self.name).pieces()
        destinations = locate(batch.destinations, batch.sizes, batch.destination_tensors, self.name).pieces()

        def run(stream):
            for destination, source in zip(destinations, sources, strict=True):
                destination.copy_(source, non_blocking=True)

        return PreparedCopy(self.name, threads=0, run=run)


class EngineStagingOnTheComputeStream(PerCopyEngine):
    """Takes its staging buffer from the wrong stream's pool, so that it may be handed out again too early."""

    def __init__(self, device):
        self.device = device

    def prepare(self, batch):
        source = locate(batch.sources, batch.sizes, batch.source_tensors, self.name)
        destination = locate(batch.destinations, batch.sizes, batch.destination_tensors, self.name).span()

        def run(stream):
            packed = self.device.empty(destination.nbytes)
            with stream:
                torch.cat(source.pieces(), out=packed)
                destination.copy_(packed, non_blocking=True)

        return PreparedCopy(self.name, threads=0, run=run)


class QueueThatForgets(TransferQueue):
    """Keeps no tensor alive until the end event."""

    def _start(self, label, arrays, batch, fill_s):
        stream = super()._start(label, arrays, batch, fill_s)
        kept = self._in_flight.pop()
        nothing = PreparedCopy(kept.prepared.engine, 0, run=lambda _: None)
        thin = dataclasses.replace(batch, source_tensors=(), destination_tensors=())
        self._in_flight.append(dataclasses.replace(kept, batch=thin, prepared=nothing))
        return stream


class QueueThatReusesArrays(TransferQueue):
    """Gives descriptor arrays back when they were submitted, not when they were done."""

    def _start(self, label, arrays, batch, fill_s):
        stream = super()._start(label, arrays, batch, fill_s)
        self._arrays.release(arrays)
        unused = DescriptorArrayPool(self._device.pointer_dtype).acquire(1)
        self._in_flight.append(dataclasses.replace(self._in_flight.pop(), arrays=unused))
        return stream


def no_wait(monkeypatch, device):
    monkeypatch.setattr(FakeStream, "wait_stream", lambda self, other: None)


def no_record(monkeypatch, device):
    monkeypatch.setattr(AcceleratorDevice, "record_stream", lambda self, tensor, stream: None)


def events_that_always_fired(monkeypatch, device):
    monkeypatch.setattr(FakeEvent, "query", lambda self: True)
    monkeypatch.setattr(FakeEvent, "synchronize", lambda self: None)
    monkeypatch.setattr(FakeEvent, "elapsed_time", lambda self, end: 0.0)


def streams_of_another_gpu(monkeypatch, device):
    monkeypatch.setattr(device, "new_stream", lambda: device.runtime.Stream("cuda:0"))


def nothing(monkeypatch, device):
    pass


BREAKAGES = {
    "a save that does not wait for its producer": (save_after_a_slow_producer, per_copy, TransferQueue, no_wait),
    "a load that does not wait for readers": (load_under_a_delayed_reader, per_copy, TransferQueue, no_wait),
    "a reader that does not wait for the load": (load_before_a_reader, per_copy, TransferQueue, no_wait),
    "a copy reported before its event": (
        save_after_a_slow_producer,
        per_copy,
        TransferQueue,
        events_that_always_fired,
    ),
    "a copy on the wrong stream": (
        save_after_a_slow_producer,
        lambda device: EngineOnWhateverIsCurrent(),
        TransferQueue,
        nothing,
    ),
    "a staging buffer of the wrong stream": (
        save_after_a_slow_producer,
        EngineStagingOnTheComputeStream,
        TransferQueue,
        nothing,
    ),
    "a source nobody keeps": (source_freed_after_submitting, cuda_batch, QueueThatForgets, no_record),
    "descriptor arrays reused too early": (two_batches_in_flight, cuda_batch, QueueThatReusesArrays, nothing),
    "addresses on another GPU's stream": (
        save_after_a_slow_producer,
        cuda_batch,
        TransferQueue,
        streams_of_another_gpu,
    ),
    "tensors on another GPU's stream": (
        save_after_a_slow_producer,
        per_copy,
        TransferQueue,
        streams_of_another_gpu,
    ),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_broken_code_is_caught(name, monkeypatch):
    hazard, make, queue_class, break_it = BREAKAGES[name]
    caught = []
    for order in Order:
        device = fake_device(order)
        with monkeypatch.context() as patch:
            break_it(patch, device)
            caught.append(not hazard(device, make(device), queue_class) or device.runtime.gpu.violations)
    assert any(caught)


def test_recording_the_stream_is_enough_for_a_source_nobody_keeps():
    for order in Order:
        device = fake_device(order)
        assert source_freed_after_submitting(device, cuda_batch(device), QueueThatForgets)


def test_a_device_without_its_index_is_caught(monkeypatch):
    device = fake_device(Order.LATE)
    monkeypatch.setattr(device, "name", "cuda")
    with pytest.raises(AssertionError, match="leaves the index to whatever is current"):
        transfer(device, staged(device), PLAN, Direction.TO_HOST)


def test_memory_is_unregistered_only_when_no_copy_uses_it():
    device = fake_device(Order.LATE)
    leave_in_flight(device)
    assert device.runtime.unregistered_in_flight == []


def test_unregistering_under_a_copy_is_caught(monkeypatch):
    device = fake_device(Order.LATE)
    monkeypatch.setattr(PinnedHost, "unregister", lambda self, tensor: device.runtime._unregister(tensor.data_ptr()))
    leave_in_flight(device)
    assert len(device.runtime.unregistered_in_flight) == 1


def leave_in_flight(device):
    buffers = make_buffers(device, PLAN, Direction.TO_HOST)
    queue_fill(device, buffers.on_device, np.zeros(PLAN.source_bytes, dtype=np.uint8))
    queue = TransferQueue(device, per_copy(device), Direction.TO_HOST)
    submit(device, queue, PLAN, buffers, Direction.TO_HOST)
    buffers.registration.release()
