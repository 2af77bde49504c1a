"""Which engine runs where, why not, and what ``auto`` takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ecbench.core.descriptors import DescriptorBatch, Direction, PreparedCopy
from ecbench.core.errors import CopyRefusedError, EcbenchError, UnavailableError
from ecbench.core.host_memory import HostMemoryKind
from ecbench.engine import registry
from ecbench.engine.copy_engines.auto_accelerator import CHOICES, FALLBACK, AutoAcceleratorEngine, choose
from ecbench.engine.devices.accelerator_kinds import CUDA, KINDS, ROCM
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.xpu_sim import XpuSimDevice
from ecbench.engine.registry import (
    DEVICE_NAMES,
    DEVICES,
    ENGINE_NAMES,
    ENGINES,
    kind_of,
    open_device,
    open_engine,
    why_unavailable,
)
from tests.engine.fake_accelerator import fake_device
from tests.engine.fake_streams import Order

KIB = 1024


def gpu(kind=CUDA):
    return fake_device(Order.LATE, kind=kind, hip="6.4" if kind is ROCM else None)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_device_s_kind_decides_its_engines(kind):
    device = gpu(kind)
    assert kind_of(device) == kind.name
    for name, entry in ENGINES.items():
        reason = why_unavailable(name, device)
        if kind.name not in entry.kinds:
            assert reason.startswith("runs on ")
            assert f"this is {kind.name}" in reason
        elif entry.requirement is None:
            assert reason is None


@pytest.mark.parametrize("device", [CpuDevice(), XpuSimDevice()], ids=lambda device: device.name)
def test_host_devices_run_host_engines_only(device):
    here = [name for name in ENGINE_NAMES if why_unavailable(name, device) is None]
    assert here == ["auto", "memmove", "gather", "per-copy"]
    with pytest.raises(UnavailableError, match=r"engine .staged. is not available on device .*use memmove or gather"):
        open_engine("staged", device)


def test_every_engine_that_is_here_can_be_made():
    for kind in KINDS:
        device = gpu(kind)
        for name in ENGINE_NAMES:
            if why_unavailable(name, device) is None:
                assert open_engine(name, device).name == name
            else:
                with pytest.raises(
                    UnavailableError, match=f"engine '{name}' is not available on device '{device.name}'"
                ):
                    open_engine(name, device)


def test_what_an_engine_lacks_here_is_said(monkeypatch):
    monkeypatch.setattr("ecbench.engine.copy_engines.triton_kernel.find_spec", lambda name: None)
    assert why_unavailable("triton", gpu()) == "triton is not installed: pip install 'ecbench[triton]'"


def test_unknown_names_list_the_choices():
    with pytest.raises(EcbenchError, match=r"unknown engine 'warp': choose one of auto, memmove, .*vllm-op"):
        open_engine("warp", CpuDevice())
    with pytest.raises(EcbenchError, match=r"unknown device 'tpu:1': choose one of auto, cpu, cuda"):
        open_device("tpu:1")


@pytest.mark.parametrize("name", ["cpu:0", "xpu-sim:1", "auto:1", "cuda:", "cuda:one", "cuda:-1", "cuda:²"])
def test_an_index_belongs_to_accelerators_and_is_a_number(name):
    with pytest.raises(EcbenchError, match="only cuda and xpu take an index, a number as in cuda:1"):
        open_device(name)


def test_an_index_and_the_wish_for_pinning_reach_the_device(monkeypatch):
    opened = []
    monkeypatch.setattr(registry, "load_registered", lambda kind, name, table: lambda *a: opened.append((name, a)))
    open_device("xpu:3", HostMemoryKind.PAGEABLE)
    assert opened == [("xpu", ("xpu", 3, HostMemoryKind.PAGEABLE))]


def test_auto_takes_what_torch_sees(monkeypatch):
    opened = []
    monkeypatch.setattr(registry, "load_registered", lambda kind, name, table: lambda *a: opened.append(name))
    for seen in (None, torch.device("xpu"), torch.device("mps")):
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available, seen=seen: seen)
        open_device("auto")
    assert opened == ["cpu", "xpu", "cpu"]
    assert set(DEVICE_NAMES) == {"auto", *DEVICES}


def test_every_line_of_the_table_is_one_that_can_run_and_says_where_it_comes_from():
    for line in CHOICES:
        assert line.kind in {kind.name for kind in KINDS}
        assert all(line.kind in ENGINES[engine].kinds for engine in line.engines)
        assert "vLLM #" in line.source or "not measured here" in line.source


@pytest.mark.parametrize(
    ("kind", "descriptors", "block_bytes", "first"),
    [
        ("cuda", 16, 28 * KIB - 1, "triton"),
        ("cuda", 15, 8 * KIB, "cuda-batch"),
        ("cuda", 4096, 28 * KIB, "cuda-batch"),
        ("cuda", 1, 8 * KIB, FALLBACK),
        ("rocm", 64, 8 * KIB, "triton"),
        ("xpu", 64, 8 * KIB, "staged"),
        ("xpu", 64, 1024 * KIB, "vllm-op"),
        ("xpu", 1, 8 * KIB, FALLBACK),
    ],
)
def test_form_and_device_decide_what_is_tried_first(kind, descriptors, block_bytes, first):
    wanted = choose(kind, descriptors, block_bytes)
    assert wanted[0] == first
    assert wanted[-1] == FALLBACK


class Named:
    def __init__(self, name, refuses=False):
        self.name = name
        self._refuses = refuses

    def prepare(self, batch):
        if self._refuses:
            raise CopyRefusedError(f"engine {self.name}: not this batch")
        return PreparedCopy(self.name, 0, run=lambda _: None)


def batch(count, block_bytes):
    column = torch.from_numpy(np.full(count, block_bytes))
    return DescriptorBatch(Direction.TO_HOST, column, column, column, (), ())


def auto(*engines):
    return AutoAcceleratorEngine("cuda", {engine.name: engine for engine in engines}.get)


def test_auto_takes_the_first_that_is_here():
    assert auto(Named("staged"), Named("per-copy")).prepare(batch(64, 4096)).engine == "staged"


def test_auto_goes_on_where_an_engine_refuses_the_batch():
    engine = auto(Named("triton", refuses=True), Named("cuda-batch"), Named("per-copy"))
    assert engine.prepare(batch(64, 4095)).engine == "cuda-batch"


def test_auto_looks_for_an_engine_only_when_a_batch_wants_it():
    asked = []
    engine = AutoAcceleratorEngine("cuda", lambda name: asked.append(name) or Named(name))
    for _ in range(2):
        engine.prepare(batch(64, 4096))
    assert asked == ["triton"]


def test_auto_without_any_engine_says_so():
    with pytest.raises(CopyRefusedError, match="not even per-copy runs on cuda"):
        auto().prepare(batch(64, 4096))


def test_auto_s_fallback_may_refuse():
    with pytest.raises(CopyRefusedError, match="engine per-copy: not this batch"):
        auto(Named("per-copy", refuses=True)).prepare(batch(64, 4096))
