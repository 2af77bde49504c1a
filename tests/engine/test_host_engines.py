from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import DescriptorBatch, Direction
from ecbench.core.errors import CopyRefusedError
from ecbench.engine.copy_engines.auto import HOST_CHOICE, AutoHostEngine
from ecbench.engine.copy_engines.host import MAX_GROUPS, GatherEngine, MemmoveEngine
from ecbench.engine.copy_engines.per_copy import PerCopyEngine
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.xpu_sim import TOP_BIT, XpuSimDevice
from ecbench.engine.registry import open_engine
from ecbench.measure.content import round_key
from ecbench.measure.verification import verify_round
from ecbench.transfer.addresses import address_of
from ecbench.transfer.descriptor_arrays import DescriptorArrayPool
from ecbench.transfer.writers import find_writer
from tests.conftest import random_plan

ENGINES = ["memmove", "gather", "per-copy", "auto"]


def _batch(device, plan, direction, source, destination):
    arrays = DescriptorArrayPool(device.pointer_dtype).acquire(max(1, len(plan)))
    find_writer("numpy-batch").write(arrays, 0, plan, address_of(source), address_of(destination))
    columns = [tensor[: len(plan)] for tensor in arrays.tensors]
    return DescriptorBatch(direction, *columns, (source,), (destination,))


def _buffers(device, plan, direction):
    """The device's side and the host's side, each with its verifier."""
    host, host_device = CpuDevice(), device
    sides = (host_device, host) if direction is Direction.TO_HOST else (host, host_device)
    source, destination = sides[0].empty(plan.source_bytes), sides[1].empty(plan.destination_bytes)
    return source, destination, sides[0].memory(source), sides[1].memory(destination)


def _verdict(device, engine, plan, direction):
    source, destination, on_source, on_destination = _buffers(device, plan, direction)
    key = round_key(0, "engines")
    on_source.write_content(key)
    on_destination.poison()
    prepared = engine.prepare(_batch(device, plan, direction, source, destination))
    prepared.run(device.current_stream())
    return verify_round(plan, on_source, on_destination, key)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("name", ENGINES)
@given(seed=st.integers(0, 2**32), unit=st.sampled_from([1, 7, 8, 16]))
def test_every_engine_copies_any_plan_byte_by_byte(name, direction, seed, unit):
    for kind in (CpuDevice, XpuSimDevice):
        device = kind()
        plan = random_plan(np.random.default_rng(seed), copies=12, unit=unit)
        assert _verdict(device, open_engine(name, device), plan, direction).ok


def _equal_blocks(source_ids, destination_ids, block, source_bytes, destination_bytes, *, phase=0):
    sizes = np.full(len(source_ids), block)
    return CopyPlan(
        phase + np.array(source_ids) * block,
        np.array(destination_ids) * block,
        sizes,
        source_bytes + phase,
        destination_bytes,
    )


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("phase", [0, 72])
@pytest.mark.parametrize("shape", ["gather", "scatter", "both"])
def test_gather_takes_equal_blocks_in_one_call_however_they_lie(device, direction, phase, shape):
    ids = np.random.default_rng(1).permutation(200)
    order = np.arange(200)
    source, destination = {"gather": (ids, order), "scatter": (order, ids), "both": (ids, ids[::-1])}[shape]
    plan = _equal_blocks(source, destination, 3072, 200 * 3072, 200 * 3072, phase=phase)
    assert _verdict(device, open_engine("gather", device), plan, direction).ok


def test_gather_handles_a_last_block_that_is_shorter():
    plan = CopyPlan([0, 64, 128], [128, 0, 64], [64, 64, 10], 192, 192)
    assert _verdict(CpuDevice(), GatherEngine(), plan, Direction.TO_HOST).ok


def test_gather_falls_back_where_no_two_blocks_share_an_alignment():
    block, count = 4096, MAX_GROUPS + 40
    sources = np.arange(count) * (block + 8)
    plan = CopyPlan(sources, np.arange(count) * block, np.full(count, block), int(sources[-1]) + block, count * block)
    assert _verdict(CpuDevice(), GatherEngine(), plan, Direction.TO_DEVICE).ok


@pytest.mark.parametrize("name", ENGINES)
def test_an_empty_batch_copies_nothing(device, name):
    assert _verdict(device, open_engine(name, device), CopyPlan([], [], [], 64, 64), Direction.TO_HOST).ok


def _choice(count, block):
    plan = _equal_blocks(np.arange(count), np.arange(count), block, count * block, count * block)
    device = CpuDevice()
    source, destination, *_ = _buffers(device, plan, Direction.TO_HOST)
    engine = AutoHostEngine(GatherEngine(), MemmoveEngine())
    return engine.prepare(_batch(device, plan, Direction.TO_HOST, source, destination)).engine


def test_auto_names_its_choice():
    assert _choice(HOST_CHOICE.min_blocks, 7168) == "gather"
    assert _choice(HOST_CHOICE.min_blocks - 1, 7168) == "memmove"
    assert _choice(HOST_CHOICE.min_blocks, HOST_CHOICE.max_block_bytes * 2) == "memmove"


def test_per_copy_refuses_an_address_outside_its_tensors():
    device = CpuDevice()
    plan = CopyPlan([0], [0], [64], 64, 64)
    source, destination, *_ = _buffers(device, plan, Direction.TO_HOST)
    batch = _batch(device, plan, Direction.TO_HOST, source, destination)
    batch.sizes[0] = 65
    with pytest.raises(CopyRefusedError, match="outside the tensors"):
        PerCopyEngine().prepare(batch)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_device_address_that_lost_its_top_bit_is_refused(direction):
    device = XpuSimDevice()
    plan = CopyPlan([0, 8], [0, 8], [8, 8], 16, 16)
    source, destination, *_ = _buffers(device, plan, direction)
    batch = _batch(device, plan, direction, source, destination)
    column = batch.sources if direction is Direction.TO_HOST else batch.destinations
    column.numpy()[1] &= np.uint64(TOP_BIT - 1)
    with pytest.raises(CopyRefusedError, match="descriptor 1 lacks bit 63"):
        open_engine("memmove", device).prepare(batch)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_host_address_with_the_top_bit_is_refused(direction):
    device = XpuSimDevice()
    plan = CopyPlan([0], [0], [8], 8, 8)
    source, destination, *_ = _buffers(device, plan, direction)
    batch = _batch(device, plan, direction, source, destination)
    column = batch.destinations if direction is Direction.TO_HOST else batch.sources
    column.numpy()[0] |= np.uint64(TOP_BIT)
    with pytest.raises(CopyRefusedError, match="must be a host address"):
        open_engine("gather", device).prepare(batch)


def test_the_emulated_device_takes_unsigned_descriptors_only():
    device = XpuSimDevice()
    column = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(CopyRefusedError, match=r"uint64 descriptors, not torch\.int64"):
        open_engine("memmove", device).prepare(DescriptorBatch(Direction.TO_HOST, column, column, column, (), ()))
