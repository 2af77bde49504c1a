from __future__ import annotations

import gc
import weakref

import pytest

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.core.errors import CopyRefusedError
from ecbench.transfer.addresses import address_of
from ecbench.transfer.queue import ResourcePool, TransferQueue
from ecbench.transfer.writers import find_writer
from tests.fakes import BrokenEngine, DeferredEngine, ManualDevice, filled


def _submit(queue, source, destination, label="a"):
    nbytes = source.nbytes
    arrays = queue.arrays.acquire(1)
    find_writer("numpy-batch").write(
        arrays, 0, CopyPlan([0], [0], [nbytes], nbytes, nbytes), address_of(source), address_of(destination)
    )
    queue.submit(label, arrays, 1, sources=(source,), destinations=(destination,), fill_s=0.25)
    return arrays


@pytest.fixture
def manual():
    return ManualDevice()


@pytest.fixture
def queue(manual):
    return TransferQueue(manual, DeferredEngine(), Direction.TO_HOST)


def test_a_transfer_is_reported_only_when_its_end_event_has_fired(manual, queue):
    source, destination = filled(manual, 64, 5), filled(manual, 64, 0)
    _submit(queue, source, destination)
    assert queue.poll() == []
    manual.run_all()
    (done,) = queue.poll()
    assert (done.label, done.fill_s, done.copy_s, done.descriptors, done.engine) == ("a", 0.25, 1.0, 1, "deferred")
    assert destination.numpy().tolist() == [5] * 64
    assert queue.poll() == []


@pytest.mark.behaviour(15)
@pytest.mark.parametrize("direction", list(Direction))
def test_descriptor_arrays_are_reused_only_after_the_end_event(manual, direction):
    queue = TransferQueue(manual, DeferredEngine(), direction)
    source, destination = filled(manual, 64, 5), filled(manual, 64, 0)
    first = _submit(queue, source, destination, "first")
    address = first.tensors[0].data_ptr()
    other = filled(manual, 64, 9)
    second = _submit(queue, other, filled(manual, 64, 0), "second")
    second_address = second.tensors[0].data_ptr()
    assert second_address != address
    manual.run_all()
    assert [done.label for done in queue.poll()] == ["first", "second"]
    assert destination.numpy().tolist() == [5] * 64
    third = _submit(queue, other, destination)
    assert third.tensors[0].data_ptr() in {address, second_address}


def test_an_unfinished_transfer_holds_back_those_behind_it(manual, queue):
    source, destination = filled(manual, 8, 1), filled(manual, 8, 0)
    _submit(queue, source, destination, "first")
    _submit(queue, source, destination, "second")
    manual.streams[1].run()
    assert queue.poll() == []
    manual.streams[0].run()
    assert [done.label for done in queue.poll()] == ["first", "second"]


def test_tensors_live_until_the_copy_is_done(manual, queue):
    source, destination = filled(manual, 64, 5), filled(manual, 64, 0)
    alive = weakref.ref(source)
    _submit(queue, source, destination)
    del source
    gc.collect()
    assert alive() is not None
    manual.run_all()
    queue.poll()
    gc.collect()
    assert alive() is None
    assert destination.numpy().tolist() == [5] * 64


def test_a_copy_waits_for_the_compute_stream_and_records_its_tensors(manual, queue):
    source, destination = filled(manual, 8, 1), filled(manual, 8, 0)
    _submit(queue, source, destination)
    (stream,) = manual.streams
    assert stream.waited_for == [manual.compute]
    assert manual.recorded == [(source.data_ptr(), stream), (destination.data_ptr(), stream)]


def test_streams_and_events_are_pooled(manual, queue):
    source, destination = filled(manual, 8, 1), filled(manual, 8, 0)
    for _ in range(5):
        _submit(queue, source, destination)
        manual.run_all()
        queue.poll()
    assert len(manual.streams) == 1


def test_waiting_finishes_everything(manual, queue):
    source, destination = filled(manual, 8, 1), filled(manual, 8, 0)
    _submit(queue, source, destination, "first")
    _submit(queue, source, destination, "second")
    assert [done.label for done in queue.wait()] == ["first", "second"]
    assert len(queue) == 0


class RefusingEngine:
    name = "refusing"

    def prepare(self, batch):
        raise CopyRefusedError("engine refusing: never: use another")


@pytest.mark.parametrize(("engine", "error"), [(RefusingEngine(), CopyRefusedError), (BrokenEngine(), RuntimeError)])
def test_a_batch_that_fails_leaves_nothing_in_flight_and_gives_its_arrays_back(manual, engine, error):
    queue = TransferQueue(manual, engine, Direction.TO_HOST)
    source, destination = filled(manual, 8, 1), filled(manual, 8, 0)
    with pytest.raises(error):
        _submit(queue, source, destination)
    assert len(queue) == 0
    assert len(queue.arrays._free) == 1


def test_a_pool_makes_a_new_thing_only_when_none_is_free():
    made = iter("abc")
    pool = ResourcePool(lambda: next(made))
    first = pool.acquire()
    assert pool.acquire() == "b"
    pool.release(first)
    assert pool.acquire() == "a"
