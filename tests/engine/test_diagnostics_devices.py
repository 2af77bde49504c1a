from __future__ import annotations

import os

import pytest
import torch

from ecbench.core.doctor_records import CheckStatus
from ecbench.engine.diagnostics.commands import CommandOutput, run_command
from ecbench.engine.diagnostics.devices import Gpu, check_amd, check_intel, check_nvidia, find_gpus
from ecbench.engine.diagnostics.torch_build import CUDA, TorchFacts, check_torch, read_torch
from tests.engine.fake_machine import Tools, add_gpu, write

NVIDIA_VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version: 13\n"
NO_TOOLS = Tools()


@pytest.fixture
def proc(tmp_path):
    return tmp_path / "proc"


@pytest.fixture
def sys(tmp_path):
    return tmp_path / "sys"


@pytest.fixture
def dev(tmp_path):
    return tmp_path / "dev"


def test_only_gpus_of_known_vendors_are_found_with_their_numa_node(sys):
    add_gpu(sys, "NVIDIA", "0000:17:00.0", numa_node=1)
    add_gpu(sys, "Intel", "0000:00:02.0", numa_node=-1)
    write(sys, "bus/pci/devices/0000:01:00.0/vendor", "0x1a03\n")  # a server's management display
    write(sys, "bus/pci/devices/0000:01:00.0/class", "0x030000\n")
    write(sys, "bus/pci/devices/0000:02:00.0/vendor", "0x8086\n")  # a network card
    write(sys, "bus/pci/devices/0000:02:00.0/class", "0x020000\n")

    assert find_gpus(sys) == (Gpu("Intel", "0000:00:02.0", None), Gpu("NVIDIA", "0000:17:00.0", 1))


def test_a_machine_without_gpus_is_no_complaint(proc, sys, dev):
    checks = [check_nvidia((), proc, NO_TOOLS), check_amd((), sys, dev, NO_TOOLS), check_intel((), sys, dev, NO_TOOLS)]

    assert [(check.name, check.status, check.detail) for check in checks] == [
        (vendor, CheckStatus.OK, "not found") for vendor in ("NVIDIA", "AMD", "Intel")
    ]


def test_nvidia_smi_names_every_gpu_with_its_driver(proc):
    line = "NVIDIA H200, 580.95.05, 143771 MiB"
    check = check_nvidia((), proc, Tools(nvidia_smi=CommandOutput(0, f"{line}\n{line}\n")))

    assert check.status is CheckStatus.OK
    assert check.values["devices"] == [line, line]


def test_without_nvidia_smi_the_driver_names_itself(proc):
    write(proc, "driver/nvidia/version", NVIDIA_VERSION)
    write(proc, "driver/nvidia/gpus/0000:17:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 32\n")

    assert check_nvidia((), proc, NO_TOOLS).detail == "NVIDIA H200, driver 580.95.05"


def test_a_tool_that_does_not_match_its_driver_is_a_problem(proc):
    write(proc, "driver/nvidia/version", NVIDIA_VERSION)
    write(proc, "driver/nvidia/gpus/0000:17:00.0/information", "Model: NVIDIA H200\n")
    said = "Failed to initialize NVML: Driver/library version mismatch"

    check = check_nvidia((), proc, Tools(nvidia_smi=CommandOutput(18, f"\n{said}\nNVML library version: 570\n")))

    assert check.status is CheckStatus.PROBLEM
    assert said in check.detail
    assert "restart" in (check.mend or "")


def test_a_tool_that_takes_too_long_is_only_a_warning(proc):
    write(proc, "driver/nvidia/version", NVIDIA_VERSION)
    write(proc, "driver/nvidia/gpus/0000:17:00.0/information", "Model: NVIDIA H200\n")

    check = check_nvidia((), proc, Tools(nvidia_smi=CommandOutput(124, "no answer within 1.5 s")))

    assert check.status is CheckStatus.WARNING
    assert check.detail == "NVIDIA H200, driver 580.95.05; nvidia-smi gave no answer within 1.5 s"


def test_a_driver_without_a_gpu_is_no_complaint(proc):
    write(proc, "driver/nvidia/version", NVIDIA_VERSION)

    check = check_nvidia((), proc, Tools(nvidia_smi=CommandOutput(0, "No devices were found\n")))

    assert (check.status, check.detail) == (CheckStatus.OK, "no GPU, driver 580.95.05")


@pytest.mark.parametrize(
    ("vendor", "check"),
    [
        ("NVIDIA", lambda gpus, root: check_nvidia(gpus, root / "proc", NO_TOOLS)),
        ("AMD", lambda gpus, root: check_amd(gpus, root / "sys", root / "dev", NO_TOOLS)),
        ("Intel", lambda gpus, root: check_intel(gpus, root / "sys", root / "dev", NO_TOOLS)),
    ],
)
def test_a_gpu_without_a_driver_is_a_warning(tmp_path, vendor, check):
    found = check((Gpu(vendor, "0000:17:00.0", 0),), tmp_path)

    assert found.status is CheckStatus.WARNING
    assert found.detail == "1 GPU at 0000:17:00.0, but no driver is loaded"
    assert found.mend


def test_amd_products_come_from_rocm_smi_and_the_version_from_the_module(sys, dev):
    write(sys, "module/amdgpu/version", "6.12.12\n")
    csv = "device,Card Series,Card Model\ncard0,AMD Instinct MI300X,0x74a1\n"

    check = check_amd((Gpu("AMD", "0000:05:00.0", 0),), sys, dev, Tools(rocm_smi=CommandOutput(0, csv)))

    assert (check.status, check.detail) == (CheckStatus.OK, "AMD Instinct MI300X, driver amdgpu 6.12.12")


def test_intel_products_come_from_xpu_smi_and_a_module_of_the_kernel_has_no_version(sys, dev):
    write(sys, "module/xe/refcnt", "3\n")
    table = "| 0         | Device Name: Intel(R) Arc(TM) Pro B60 Graphics                      |\n"

    check = check_intel((Gpu("Intel", "0000:03:00.0", 0),), sys, dev, Tools(xpu_smi=CommandOutput(0, table)))

    assert check.detail == "Intel(R) Arc(TM) Pro B60 Graphics, driver xe of the kernel"


def test_no_tool_is_started_for_a_driver_without_a_gpu(sys, dev):
    write(sys, "module/i915/refcnt", "0\n")
    tools = Tools()

    assert check_intel((), sys, dev, tools).detail == "no GPU; driver i915 of the kernel is loaded"
    assert tools.ran == []


def test_device_nodes_that_the_user_may_not_open_are_a_warning(sys, dev, monkeypatch):
    write(sys, "module/xe/refcnt", "3\n")
    node = write(dev, "dri/renderD128", "")
    monkeypatch.setattr(os, "access", lambda path, mode: path != node)

    check = check_intel((Gpu("Intel", "0000:03:00.0", 0),), sys, dev, NO_TOOLS)

    assert check.status is CheckStatus.WARNING
    assert str(node) in check.detail
    assert "render" in (check.mend or "")


def facts(**changes):
    defaults = {"version": "2.13.0", "builds": {CUDA: "12.8"}, "kind": None, "devices": ()}
    return TorchFacts(**{**defaults, **changes})


def test_torch_that_sees_its_gpu_is_ok():
    check = check_torch(facts(kind=CUDA, devices=("NVIDIA H200",)), (Gpu("NVIDIA", "a", 0),))

    assert (check.status, check.detail) == (CheckStatus.OK, "2.13.0, CUDA 12.8 build, sees NVIDIA H200")


def test_a_cpu_only_torch_on_a_machine_without_gpu_is_ok():
    assert check_torch(facts(builds={}), ()).detail == "2.13.0, CPU-only build, sees no accelerator"


@pytest.mark.parametrize(("vendor", "runtime"), [("NVIDIA", "CUDA"), ("AMD", "ROCm"), ("Intel", "XPU")])
def test_a_cpu_only_torch_beside_a_gpu_is_a_warning_that_names_the_build(vendor, runtime):
    check = check_torch(facts(builds={}), (Gpu(vendor, "a", 0),))

    assert check.status is CheckStatus.WARNING
    assert vendor in check.detail
    assert f"install torch's {runtime} build" in (check.mend or "")


def test_a_torch_that_does_not_see_the_gpu_it_was_built_for_is_a_warning():
    check = check_torch(facts(), (Gpu("NVIDIA", "a", 0), Gpu("Intel", "b", 0)))

    assert check.status is CheckStatus.WARNING
    assert "CUDA_VISIBLE_DEVICES" in (check.mend or "")


def test_a_driver_older_than_the_runtime_is_a_problem_in_torchs_words():
    check = check_torch(facts(complaints=("The NVIDIA driver on your system is too old",)), ())

    assert check.status is CheckStatus.PROBLEM
    assert "too old" in check.detail


def test_what_torch_raises_or_warns_of_is_kept_as_a_complaint(monkeypatch):
    def fail(*, check_available):
        raise RuntimeError("all devices are busy\nor unavailable")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", fail)

    read = read_torch()

    assert (read.devices, read.kind, read.complaints) == ((), None, ("all devices are busy or unavailable",))
    assert read.version == torch.__version__


def test_a_missing_tool_gives_no_answer():
    assert run_command("ecbench-has-no-such-tool") is None


def test_a_tool_that_fails_is_quoted():
    output = run_command("sh", "-c", "echo; echo broken >&2; exit 3")

    assert output is not None
    assert (output.code, output.first_line) == (3, "broken")


def test_a_tool_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr("ecbench.engine.diagnostics.commands.TIMEOUT_S", 0.05)

    output = run_command("sh", "-c", "while :; do :; done")

    assert output is not None
    assert (output.code, output.first_line) == (124, "no answer within 0.05 s")
