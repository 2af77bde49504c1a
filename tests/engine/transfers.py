"""Runs one batch through a queue, a writer and an engine, with content that tells what went wrong."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
import torch

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.measure.content import POISON_BYTE, content_bytes
from ecbench.measure.memory import HostMemory
from ecbench.measure.verification import verify_round
from ecbench.transfer.addresses import address_of
from ecbench.transfer.queue import TransferQueue
from ecbench.transfer.writers import find_writer

KEY = 0x1234_5678_9ABC_DEF1


@dataclass
class Buffers:
    """Both ends of a batch.

    Args:
        on_device: uint8.
        on_host: uint8; registered with the device where `registration` says so.
    """

    on_device: torch.Tensor
    on_host: torch.Tensor
    registration: object

    def ends(self, direction):
        pair = (self.on_device, self.on_host)
        return pair if direction is Direction.TO_HOST else pair[::-1]


def make_buffers(device, plan, direction):
    lengths = (plan.source_bytes, plan.destination_bytes)
    on_device, on_host = lengths if direction is Direction.TO_HOST else lengths[::-1]
    # Pages of its own: a driver registers a page once, and refuses a second buffer on it.
    pages = torch.frombuffer(mmap.mmap(-1, on_host + mmap.PAGESIZE), dtype=torch.uint8)
    return Buffers(device.empty(on_device), pages[:on_host], device.register_host(pages))


def queue_fill(device, tensor, values):
    """Writes in the order of the compute stream, without waiting; the host's memory is written at once."""
    if tensor.device.type == "cpu":
        tensor.copy_(torch.from_numpy(values))
    else:
        tensor.copy_(device.upload(torch.from_numpy(values)))


def submit(device, queue, plan, buffers, direction):
    source, destination = buffers.ends(direction)
    arrays = queue.arrays.acquire(max(1, len(plan)))
    find_writer("numpy-batch").write(arrays, 0, plan, address_of(source), address_of(destination))
    return queue.submit("it", arrays, len(plan), sources=(source,), destinations=(destination,), fill_s=0.0)


def fill_both(device, plan, buffers, direction, key=KEY):
    source, destination = buffers.ends(direction)
    queue_fill(device, source, np.array(content_bytes(key, 0, plan.source_bytes)))
    queue_fill(device, destination, np.full(plan.destination_bytes, POISON_BYTE, dtype=np.uint8))


def verdict(plan, buffers, direction, key=KEY):
    # The host's side first: reading the device waits for its compute stream, and that might finish a copy late.
    on_host = HostMemory(buffers.on_host.numpy().copy())
    on_device = HostMemory(buffers.on_device.cpu().numpy())
    pair = (on_device, on_host) if direction is Direction.TO_HOST else (on_host, on_device)
    return verify_round(plan, *pair, key)


def transfer(device, engine, plan, direction):
    """A whole batch: unfinished producers, copy, completion, verification.

    Returns:
        The verdict, and the completed transfer.
    """
    buffers = make_buffers(device, plan, direction)
    fill_both(device, plan, buffers, direction)
    queue = TransferQueue(device, engine, direction)
    submit(device, queue, plan, buffers, direction)
    (done,) = queue.wait()
    result = verdict(plan, buffers, direction), done
    buffers.registration.release()
    return result


def block_plan(count, block_bytes, direction, seed=0, contiguous_host=True):
    """Equal blocks, scattered on the device; on the host in order, or scattered with gaps."""
    draw = np.random.default_rng(seed)
    scattered = draw.permutation(2 * count)[:count] * block_bytes
    host = np.arange(count) * block_bytes if contiguous_host else draw.permutation(2 * count)[:count] * block_bytes
    sizes, device_bytes = np.full(count, block_bytes), 2 * count * block_bytes
    host_bytes = count * block_bytes if contiguous_host else device_bytes
    if direction is Direction.TO_HOST:
        return CopyPlan(scattered, host, sizes, device_bytes, host_bytes)
    return CopyPlan(host, scattered, sizes, host_bytes, device_bytes)


def odd_plan(copies, seed, largest=4097):
    """Copies of any length at any offset, in random order; destinations a few bytes apart."""
    draw = np.random.default_rng(seed)
    sizes, gaps = draw.integers(1, largest + 1, copies), draw.integers(0, 9, copies)
    ends = np.cumsum(sizes + gaps)
    source_bytes = int(ends[-1]) + largest
    sources = draw.integers(0, source_bytes - sizes)
    order = draw.permutation(copies)
    return CopyPlan(sources[order], (ends - sizes)[order], sizes[order], source_bytes, int(ends[-1]) + 3)
