from __future__ import annotations

import pytest

from ecbench.engine.diagnostics.device_runs import is_verified, read_device_runs

RECORD = """# Measurements

Device run: `cuda` (NVIDIA H200, torch 2.13.0): `staged`, `cuda-batch`

| engine | GB/s |
|---|---|
| `triton` | 1 |

**Device run:** is how a line begins; this sentence names `nothing`.
- Device run: `cuda` (another card): `triton`
Device run: nobody wrote a name here
"""


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "measurements.md"
    path.write_text(RECORD)
    return read_device_runs(path)


@pytest.mark.parametrize("engine", ["staged", "cuda-batch", "triton", None])
def test_what_a_recorded_run_names_is_verified(runs, engine):
    assert is_verified("cuda", engine, runs)
    assert is_verified("cuda:1", engine, runs)


def test_an_engine_that_no_run_names_is_unverified(runs):
    assert not is_verified("cuda", "vllm-op", runs)


def test_a_run_on_one_kind_of_device_says_nothing_about_another(runs):
    assert not is_verified("xpu", "staged", runs)
    assert not is_verified("xpu", runs=runs)


def test_an_amd_gpu_is_not_verified_by_a_run_on_an_nvidia_gpu(runs, monkeypatch):
    monkeypatch.setattr("torch.version.hip", "6.4")

    assert not is_verified("cuda", "staged", runs)


@pytest.mark.parametrize("device", ["cpu", "xpu-sim"])
def test_host_memory_needs_no_hardware(device):
    assert is_verified(device, "memmove", runs={})


def test_without_a_record_every_accelerator_is_unverified(tmp_path):
    assert read_device_runs(tmp_path / "missing.md") == {}
    assert not is_verified("cuda", runs={})
