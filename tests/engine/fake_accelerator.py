"""A module that stands for torch where `AcceleratorDevice` asks for a GPU, and records what is done to it."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import torch

from ecbench.core.host_memory import HostMemoryKind
from ecbench.engine.devices.accelerator import AcceleratorDevice
from ecbench.engine.devices.accelerator_kinds import CUDA, XPU
from tests.engine.fake_memory import TOP_BIT, Allocator
from tests.engine.fake_streams import FakeEvent, FakeGpu

REFUSED = 2
"""cudaErrorMemoryAllocation."""


class FakeTorch:
    """The part of torch that a device uses.

    Args:
        order: `tests.engine.fake_streams.Order`.
        devices: How many GPUs there are.
        capacity_bytes: Memory of each.
        address_bits: Set in every device address.
        hip: Version, where the build is ROCm's.
    """

    OutOfMemoryError = torch.OutOfMemoryError
    AcceleratorError = torch.AcceleratorError
    __version__ = "2.13.0+fake"

    def __init__(self, order, *, devices=2, capacity_bytes=1 << 26, address_bits=0, hip=None):
        self.gpu = FakeGpu(order, devices, RuntimeError("CUDA error: device is lost\nCompile with more flags"))
        self.allocator = Allocator(self.gpu, capacity_bytes, address_bits)
        self.version = SimpleNamespace(hip=hip)
        self.refuses_registration = False
        self.registered = {}
        self.stale_error = False
        self.unregistered_in_flight = []
        self.accelerator = SimpleNamespace(current_stream=self._current_stream, synchronize=self._synchronize)
        self.cuda = self.xpu = SimpleNamespace(
            is_available=lambda: True,
            device_count=lambda: devices,
            current_device=lambda: 0,
            get_device_properties=lambda index: SimpleNamespace(name=f"Fake GPU {index}", driver_version="1.2.3"),
            mem_get_info=lambda index: (capacity_bytes - self.allocator.used_bytes[index], capacity_bytes),
            cudart=lambda: self._cudart,
        )
        self._cudart = SimpleNamespace(
            cudaHostRegister=self._register,
            cudaHostUnregister=self._unregister,
            cudaGetErrorString=lambda error: "out of memory",
        )

    def get_device_module(self, torch_type):
        return getattr(self, torch_type)

    def empty(self, nbytes, *, dtype, device=None, pin_memory=False):
        if pin_memory:
            tensor = torch.empty(nbytes, dtype=dtype)
            self.allocator.pinned[tensor.data_ptr()] = tensor.nbytes
            self.allocator.kept.append(tensor)
            return tensor
        self.gpu.refuse_if_lost()
        if self.stale_error:
            self.stale_error = False
            raise torch.AcceleratorError("CUDA error: out of memory")
        return self.allocator.allocate(_index(device), (nbytes,), dtype)

    def Stream(self, device):  # noqa: N802 - torch's name
        return self.gpu.new_stream(_index(device))

    def Event(self, device, enable_timing=False):  # noqa: N802 - torch's name
        return FakeEvent(self.gpu, enable_timing)

    def _current_stream(self, device):
        return self.gpu.current[_index(device)]

    def _synchronize(self, device):
        self.gpu.synchronize(_index(device))

    def _register(self, address, nbytes, flags):
        if self.refuses_registration:
            self.stale_error = True
            return REFUSED
        self.registered[address] = self.allocator.pinned[address] = nbytes
        return 0

    def _unregister(self, address):
        if not self.gpu.idle:
            self.unregistered_in_flight.append(address)
        del self.registered[address], self.allocator.pinned[address]
        return 0

    def copy_by_address(self, stream, sources, destinations, sizes):
        """What a driver or a kernel does with descriptor arrays: reads them when it gets to them."""
        mask = ~self.allocator.address_bits

        def run():
            columns = [column.view(torch.int64).tolist() for column in (sources, destinations, sizes)]
            for signed_source, signed_destination, size in zip(*columns, strict=True):
                source, destination = signed_source % (1 << 64), signed_destination % (1 << 64)
                indices = {self.allocator.index_of(address, size) for address in (source, destination)} - {None}
                if not indices <= {stream.device_index}:
                    self.gpu.violations.append(f"memory of {indices} used on a stream of {stream.device_index}")
                ctypes.memmove(destination & mask, source & mask, size)

        stream.submit(run, nbytes=int(sizes.view(torch.int64).sum()))


def _index(device):
    kind, colon, index = str(device).partition(":")
    assert kind in {"cuda", "xpu"}, device
    assert colon, f"{device!r} leaves the index to whatever is current"
    return int(index)


def fake_device(order, *, kind=CUDA, index=1, host_memory=HostMemoryKind.PINNED, **options):
    """A device over a fake torch; not number 0, so that a lost index shows."""
    runtime = FakeTorch(order, address_bits=TOP_BIT if kind is XPU else 0, **options)
    return AcceleratorDevice(kind, index, host_memory, runtime)
