"""Situations in which a copy with one wait too few, or memory given back too early, moves the wrong bytes.

Each runs on any device, real or fake, and tells whether every byte was right. ``delay`` queues work on the compute
stream, so that on a real device there is something to overtake.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from ecbench.core.descriptors import Direction
from ecbench.measure.content import content_bytes
from ecbench.transfer.queue import TransferQueue
from tests.engine.transfers import KEY, block_plan, fill_both, make_buffers, submit, verdict


def nothing(device):
    """A compute stream with nothing to do."""


PLAN = block_plan(16, 64, Direction.TO_HOST)
LOAD_PLAN = block_plan(16, 64, Direction.TO_DEVICE)


def save_after_a_slow_producer(device, engine, queue_class=TransferQueue, delay=nothing):
    """The compute stream still has to write the source."""
    buffers = make_buffers(device, PLAN, Direction.TO_HOST)
    delay(device)
    fill_both(device, PLAN, buffers, Direction.TO_HOST)
    queue = queue_class(device, engine, Direction.TO_HOST)
    submit(device, queue, PLAN, buffers, Direction.TO_HOST)
    queue.wait()
    return verdict(PLAN, buffers, Direction.TO_HOST).ok


def load_under_a_delayed_reader(device, engine, queue_class=TransferQueue, delay=nothing):
    """The compute stream still has to read what the destination held before."""
    buffers = make_buffers(device, LOAD_PLAN, Direction.TO_DEVICE)
    fill_both(device, LOAD_PLAN, buffers, Direction.TO_DEVICE)
    device.synchronize()
    seen = device.empty(LOAD_PLAN.destination_bytes)
    before = buffers.on_device.cpu()
    delay(device)
    seen.copy_(buffers.on_device)
    queue = queue_class(device, engine, Direction.TO_DEVICE)
    stream = submit(device, queue, LOAD_PLAN, buffers, Direction.TO_DEVICE)
    device.current_stream().wait_stream(stream)
    queue.wait()
    return torch.equal(seen.cpu(), before) and verdict(LOAD_PLAN, buffers, Direction.TO_DEVICE).ok


def load_before_a_reader(device, engine, queue_class=TransferQueue, delay=nothing):
    """The compute stream reads what was loaded, without the host waiting in between."""
    buffers = make_buffers(device, LOAD_PLAN, Direction.TO_DEVICE)
    delay(device)
    fill_both(device, LOAD_PLAN, buffers, Direction.TO_DEVICE)
    queue = queue_class(device, engine, Direction.TO_DEVICE)
    stream = submit(device, queue, LOAD_PLAN, buffers, Direction.TO_DEVICE)
    device.current_stream().wait_stream(stream)
    seen = device.empty(LOAD_PLAN.destination_bytes)
    seen.copy_(buffers.on_device)
    result = verdict(LOAD_PLAN, dataclasses.replace(buffers, on_device=seen), Direction.TO_DEVICE)
    queue.wait()
    return result.ok


def source_freed_after_submitting(device, engine, queue_class=TransferQueue, delay=nothing):
    """The encoder's output goes out of scope while its copy is queued."""
    buffers = make_buffers(device, PLAN, Direction.TO_HOST)
    delay(device)
    fill_both(device, PLAN, buffers, Direction.TO_HOST)
    queue = queue_class(device, engine, Direction.TO_HOST)
    submit(device, queue, PLAN, buffers, Direction.TO_HOST)
    buffers.on_device = None
    queue.wait()
    source = torch.from_numpy(np.array(content_bytes(KEY, 0, PLAN.source_bytes)))
    return verdict(PLAN, dataclasses.replace(buffers, on_device=source), Direction.TO_HOST).ok


def two_batches_in_flight(device, engine, queue_class=TransferQueue, delay=nothing):
    """A second batch is written while the first one waits to run."""
    queue = queue_class(device, engine, Direction.TO_HOST)
    pairs = []
    for seed in range(2):
        plan = block_plan(16, 64, Direction.TO_HOST, seed)
        buffers = make_buffers(device, plan, Direction.TO_HOST)
        delay(device)
        fill_both(device, plan, buffers, Direction.TO_HOST)
        submit(device, queue, plan, buffers, Direction.TO_HOST)
        pairs.append((plan, buffers))
    queue.wait()
    return all(verdict(plan, buffers, Direction.TO_HOST).ok for plan, buffers in pairs)


def the_same_buffers_over_100_steps(device, engine, queue_class=TransferQueue, delay=nothing):
    """Pools hand out the same streams, events and arrays again and again."""
    buffers = make_buffers(device, PLAN, Direction.TO_HOST)
    queue = queue_class(device, engine, Direction.TO_HOST)
    right = []
    for step in range(100):
        delay(device)
        fill_both(device, PLAN, buffers, Direction.TO_HOST, key=step)
        submit(device, queue, PLAN, buffers, Direction.TO_HOST)
        queue.wait()
        right.append(verdict(PLAN, buffers, Direction.TO_HOST, key=step).ok)
    return all(right)


HAZARDS = [
    save_after_a_slow_producer,
    load_under_a_delayed_reader,
    load_before_a_reader,
    source_freed_after_submitting,
    two_batches_in_flight,
    the_same_buffers_over_100_steps,
]
