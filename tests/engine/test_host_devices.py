from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from ecbench.core.descriptors import Direction
from ecbench.engine.devices.cpu import CpuDevice, HostEvent
from ecbench.engine.devices.host_pool import MIN_BUFFER_BYTES, HostPool, size_class
from ecbench.engine.devices.xpu_sim import XpuSimDevice


def test_pointer_types_are_those_of_the_real_devices():
    assert CpuDevice.pointer_dtype is torch.int64
    assert XpuSimDevice.pointer_dtype is torch.uint64


def test_emulated_addresses_really_have_the_top_bit():
    tensor = XpuSimDevice().empty(7168)
    assert tensor.data_ptr() & (2**64 - 1) >= 2**63
    assert tensor[100:].data_ptr() - tensor.data_ptr() == 100
    assert tensor.view(torch.bfloat16).view(4, 896).data_ptr() == tensor.data_ptr()


def test_the_memory_behind_an_emulated_address_is_real(device):
    tensor = device.empty(64)
    device.memory(tensor).to_host()[:] = 7
    assert device.memory(tensor[32:]).to_host().tolist() == [7] * 32


def test_emulation_is_said_in_words():
    assert CpuDevice().emulation is None
    assert "no Intel GPU took part" in XpuSimDevice().emulation


def test_memory_comes_back_when_the_last_tensor_over_it_is_gone(device):
    tensor = device.empty(100_000)
    address = tensor.data_ptr()
    view = tensor[10:20].view(torch.int16)
    del tensor
    gc.collect()
    other = device.empty(100_000)
    assert other.data_ptr() != address
    del view
    gc.collect()
    assert device.empty(100_000).data_ptr() == address


def test_the_verifiers_access_keeps_the_memory_alive(device):
    tensor = device.empty(100_000)
    address = tensor.data_ptr()
    memory = device.memory(tensor)
    del tensor
    gc.collect()
    assert device.empty(100_000).data_ptr() != address
    assert memory.nbytes == 100_000


def test_pages_are_present_before_the_first_use():
    import ctypes

    array = HostPool().take(1 << 20)
    vector = (ctypes.c_ubyte * 256)()
    libc = ctypes.CDLL(None)
    assert libc.mincore(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(1 << 20), vector) == 0
    assert all(page & 1 for page in vector)


@pytest.mark.parametrize("nbytes", [0, 1, 4095, 4096, 4097, 100_000, (64 << 20) + 1])
def test_a_size_class_holds_the_request_and_wastes_little(nbytes):
    size = size_class(nbytes)
    assert size >= max(nbytes, MIN_BUFFER_BYTES)
    assert size % MIN_BUFFER_BYTES == 0
    assert size <= max(1.13 * nbytes, nbytes + MIN_BUFFER_BYTES)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("threads", [1, 2])
def test_the_ceiling_copies_the_bytes_it_times(device, direction, threads):
    on_device, on_host = device.empty(5000), torch.zeros(5000, dtype=torch.uint8)
    behind = device.memory(on_device).to_host()
    behind[:], on_host.numpy()[:] = 1, 2
    seconds = device.copy_contiguous(on_device, on_host, 4000, direction, threads)
    assert seconds > 0
    value = 1 if direction is Direction.TO_HOST else 2
    written, kept = (on_host.numpy(), behind) if direction is Direction.TO_HOST else (behind, on_host.numpy())
    assert (written[:4000] == value).all()
    assert (written[4000:] != value).all()
    assert np.unique(kept).tolist() == [value]


def test_events_measure_the_time_between_their_marks(cpu):
    start, end = cpu.new_event(), cpu.new_event()
    start.record(cpu.current_stream())
    end.record(cpu.new_stream())
    assert isinstance(start, HostEvent)
    assert end.query()
    assert 0 <= start.seconds_until(end) < 60
