"""The accelerator device, over a fake torch."""

from __future__ import annotations

import gc
import re
import warnings
from types import SimpleNamespace

import pytest
import torch

from ecbench.core.descriptors import Direction
from ecbench.core.errors import DoesNotFitError, UnavailableError
from ecbench.core.host_memory import HostMemoryKind
from ecbench.engine.devices.accelerator import AcceleratorDevice, native_handle, open_accelerator
from ecbench.engine.devices.accelerator_kinds import CUDA, KINDS, ROCM, XPU, amd_driver, intel_driver, nvidia_driver
from ecbench.engine.devices.device_faults import DeviceLostError, first_sentence, why_absent
from tests.engine.fake_accelerator import FakeTorch, fake_device
from tests.engine.fake_streams import Order

PINNED = HostMemoryKind.PINNED


@pytest.fixture
def device():
    return fake_device(Order.LATE)


def open_fake(torch_type="cuda", index=None, **options):
    return open_accelerator(torch_type, index, PINNED, FakeTorch(Order.LATE, **options))


def test_the_index_is_kept_end_to_end():
    device = open_fake(index=1)
    assert device.name == "cuda:1"
    assert device.description == "Fake GPU 1"
    assert device.empty(8).device.index == 1
    assert device.new_stream().device_index == 1
    assert device.current_stream() is device.runtime.gpu.streams[1]


def test_without_an_index_the_current_device_is_opened_and_named():
    assert open_fake().name == "cuda:0"


def test_an_index_that_is_not_there_lists_those_that_are():
    with pytest.raises(UnavailableError, match=r"'cuda:2' is not here: torch sees 2, cuda:0 to cuda:1"):
        open_fake(index=2)


def test_a_rocm_build_s_cuda_is_rocm():
    assert open_fake(hip="6.4").kind is ROCM
    assert open_fake().kind is CUDA
    assert open_fake("xpu").kind is XPU


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_table_says_how_kinds_differ(kind):
    device = fake_device(Order.LATE, kind=kind, hip="6.4" if kind is ROCM else None)
    assert device.pointer_dtype is (torch.uint64 if kind is XPU else torch.int64)
    assert device.copies_inside_submit is False
    assert device.emulation is None
    assert any("overlap" in note for note in device.notes) is (kind is XPU)
    assert (kind.max_descriptors == 8192) is (kind is ROCM)


def test_xpu_addresses_reach_the_descriptors_with_bit_63():
    assert fake_device(Order.LATE, kind=XPU).empty(8).data_ptr() >= 1 << 63


def test_registered_memory_is_pinned_until_it_is_released(device):
    host = torch.zeros(4096, dtype=torch.uint8)
    registration = device.register_host(host)
    assert registration.note is None
    assert device.pinning == "pinned by cudaHostRegister"
    assert device.runtime.registered == {host.data_ptr(): 4096}
    assert device.is_pinned(host.data_ptr() + 8, 100)
    assert not device.is_pinned(host.data_ptr() + 8, 4096)
    registration.release()
    registration.release()
    assert device.runtime.registered == {}
    assert not device.is_pinned(host.data_ptr(), 8)


def test_memory_is_unregistered_where_nobody_released_it(device):
    registration = device.register_host(torch.zeros(4096, dtype=torch.uint8))
    del registration
    gc.collect()
    assert device.runtime.registered == {}


def test_a_refused_registration_is_a_note_and_a_state(device):
    device.runtime.refuses_registration = True
    registration = device.register_host(torch.zeros(4096, dtype=torch.uint8))
    assert "cudaHostRegister refused 4.00 KiB (out of memory)" in registration.note
    assert device.pinning == "pageable: cudaHostRegister refused"
    registration.release()
    device.runtime.refuses_registration = False
    assert device.register_host(torch.zeros(4096, dtype=torch.uint8)).note is None
    assert device.pinning == "partly pageable: cudaHostRegister refused"


def test_a_refused_registration_does_not_blame_the_next_kernel(device):
    device.runtime.refuses_registration = True
    device.register_host(torch.zeros(4096, dtype=torch.uint8))
    device.empty(8)


def test_pageable_memory_is_left_alone_and_says_so():
    device = fake_device(Order.LATE, host_memory=HostMemoryKind.PAGEABLE)
    assert "as asked" in device.register_host(torch.zeros(8, dtype=torch.uint8)).note
    assert device.pinning == "pageable, as asked"
    assert device.runtime.registered == {}


def test_where_torch_cannot_register_memory_the_result_says_so():
    device = fake_device(Order.LATE, kind=XPU)
    assert "no registration on xpu" in device.register_host(torch.zeros(8, dtype=torch.uint8)).note
    assert device.pinning.startswith("pageable")


def test_device_memory_that_is_not_there_names_both_numbers():
    device = fake_device(Order.LATE, capacity_bytes=1 << 20)
    assert device.free_bytes() == 1 << 20
    with pytest.raises(DoesNotFitError, match=r"cuda:1 has 1.00 MiB of 1.00 MiB free, a buffer of 2.00 MiB .*smaller"):
        device.empty(2 << 20)


def test_memory_that_runs_out_while_a_round_is_checked_is_explained(device):
    assert re.search(
        r"has 64.0 MiB of 64.0 MiB free, .*smaller", str(device.explain(torch.OutOfMemoryError("no room")))
    )


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("order", list(Order))
def test_the_ceiling_is_one_timed_copy_after_the_compute_stream(direction, order):
    device = fake_device(order)
    host, there = torch.arange(200, dtype=torch.uint8), device.empty(256)
    registration = device.register_host(host)
    there.fill_(7)
    seconds = device.copy_contiguous(there, host, 100, direction, threads=1)
    assert 0 < seconds < 1e-3
    left = there.cpu() if direction is Direction.TO_DEVICE else host
    wanted = torch.arange(100, dtype=torch.uint8) if direction is Direction.TO_DEVICE else torch.full((100,), 7)
    assert torch.equal(left[:100], wanted.to(torch.uint8))
    assert left[100] == (7 if direction is Direction.TO_DEVICE else 100)
    registration.release()


def test_content_is_made_and_checked_on_the_device(device):
    memory = device.memory(device.empty(1000))
    memory.write_content(9)
    assert memory.holds_content(9)
    assert not memory.holds_content(8)
    assert device.runtime.gpu.violations == []


def test_host_memory_is_no_concern_of_the_allocator(device):
    device.record_stream(torch.zeros(8), device.new_stream())


def test_a_lost_device_is_told_from_other_errors(device):
    device.runtime.gpu.lost = True
    with pytest.raises(RuntimeError) as failure:
        device.synchronize()
    explained = device.explain(failure.value)
    assert isinstance(explained, DeviceLostError)
    assert str(explained) == (
        "device cuda:1 failed while it was used (CUDA error: device is lost): look at the kernel log, then run "
        "ecbench doctor"
    )
    assert device.explain(RuntimeError("shape mismatch")) is None
    assert device.explain(torch.AcceleratorError("anything")) is not None
    assert device.explain(RuntimeError("level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"))


def absent(init):
    module = SimpleNamespace(is_available=lambda: False, init=init)
    return SimpleNamespace(
        cuda=module,
        xpu=module,
        get_device_module=lambda _: module,
        __version__="2.13.0",
        version=SimpleNamespace(hip=None),
    )


NO_DRIVER = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver"
OLD_DRIVER = "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"


@pytest.mark.parametrize(
    ("message", "told"),
    [(NO_DRIVER, "no NVIDIA driver on your system"), (OLD_DRIVER, "is too old (found version 11040)")],
)
def test_a_driver_that_is_missing_or_too_old_is_named(message, told):
    def init():
        raise RuntimeError(message)

    with pytest.raises(UnavailableError) as refusal:
        open_accelerator("cuda", None, PINNED, absent(init))
    assert told in str(refusal.value)
    assert "Please" not in str(refusal.value)
    assert "install a CUDA build of torch" in str(refusal.value)


def test_a_driver_that_torch_only_warns_about_is_named():
    assert why_absent(CUDA, absent(lambda: warnings.warn(OLD_DRIVER, stacklevel=1))).endswith("(found version 11040)")
    assert why_absent(CUDA, absent(lambda: None)) == "torch sees none"


def test_first_sentences_lose_torch_s_advice():
    assert first_sentence("\nCUDA error: bad.\nFor debugging consider this\n") == "CUDA error: bad"
    assert first_sentence("") == "no message"


def test_nvidia_s_driver_version_comes_from_the_kernel(tmp_path):
    file = tmp_path / "version"
    file.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version: 12\n")
    assert nvidia_driver(None, 0, file) == "550.54.15"
    file.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n")
    assert nvidia_driver(None, 0, file) == "580.159.04"
    assert nvidia_driver(None, 0, tmp_path / "missing") is None


def test_amd_s_driver_version_comes_from_the_kernel_or_from_hip(tmp_path):
    file = tmp_path / "version"
    file.write_text("6.12.12\n")
    runtime = SimpleNamespace(version=SimpleNamespace(hip="6.4"))
    assert amd_driver(runtime, 0, file) == "6.12.12"
    assert amd_driver(runtime, 0, tmp_path / "missing") == "HIP 6.4"


def test_intel_s_driver_version_comes_from_torch():
    assert intel_driver(FakeTorch(Order.LATE), 0) == "1.2.3"


def test_a_stream_s_handle_is_read_on_torch_2_9_too(monkeypatch):
    assert native_handle(SimpleNamespace(native_handle=77)) == 77
    made = {}
    monkeypatch.setattr(torch.cuda, "Stream", lambda **ids: made.update(ids) or SimpleNamespace(cuda_stream=88))
    assert native_handle(SimpleNamespace(stream_id=1, device_index=2, device_type=3)) == 88
    assert made == {"stream_id": 1, "device_index": 2, "device_type": 3}


def test_torch_offers_what_the_device_asks_of_it():
    device = AcceleratorDevice
    assert callable(torch.accelerator.current_stream)
    assert callable(torch.accelerator.synchronize)
    assert {"wait_stream", "synchronize", "__enter__", "__exit__"} <= set(dir(torch.Stream))
    assert {"record", "query", "synchronize", "elapsed_time"} <= set(dir(torch.Event))
    for module in (torch.cuda, torch.xpu):
        names = {"is_available", "device_count", "current_device", "get_device_properties", "mem_get_info", "init"}
        assert names <= set(dir(module)), device
    assert issubclass(torch.AcceleratorError, RuntimeError)
    assert issubclass(torch.OutOfMemoryError, RuntimeError)
