from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from ecbench.cli.doctor import doctor
from ecbench.core.doctor_records import DoctorResult
from ecbench.engine.diagnostics.torch_build import TorchFacts
from ecbench.transfer.shared_region import SHM_DIRECTORY
from ecbench.workflows.doctor import Machine, probe_pointers
from tests.engine.fake_machine import Tools, add_gpu, write

CHECKS = [
    "NVIDIA",
    "AMD",
    "Intel",
    "torch",
    "pinned memory",
    "host registration",
    "locked memory",
    "MADV_POPULATE_WRITE",
    "transparent huge pages",
    "NUMA",
    "/dev/shm",
    "unnamed shared files",
    "left by vLLM",
    "addresses >= 2**63",
    "vLLM",
]


@pytest.fixture
def run():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(doctor)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def shm():
    with tempfile.TemporaryDirectory(dir=SHM_DIRECTORY) as folder:
        yield Path(folder)


@pytest.fixture
def machine(tmp_path, shm, monkeypatch):
    """Installs a machine whose folders are fake; returns a function that changes it."""
    for folder in ("proc", "sys", "dev"):
        (tmp_path / folder).mkdir()
    (tmp_path / "dev/shm").symlink_to(shm)

    def install(**changes):
        cpu_only = TorchFacts(version="2.13.0", builds={}, kind=None, devices=())
        fields = {
            "proc": tmp_path / "proc",
            "sys": tmp_path / "sys",
            "dev": tmp_path / "dev",
            "run": Tools(),
            "torch": lambda: cpu_only,
            **changes,
        }
        monkeypatch.setattr("ecbench.workflows.doctor.Machine", lambda: Machine(**fields))

    install()
    return install


def test_every_check_has_its_line_on_this_machine(run):
    result = run()

    names = [line[9:].split("  ")[0] for line in result.stdout.splitlines() if line.startswith(("ok", "warn", "prob"))]
    assert names == CHECKS
    assert result.stdout.splitlines()[-1].endswith(("problem", "problems"))
    assert result.exit_code in {0, 1}


def test_the_result_is_json_that_loads_again(run):
    result = run("--json", "-")

    loaded = msgspec.json.decode(result.stdout, type=DoctorResult)
    assert (loaded.kind, loaded.schema_version) == ("doctor", 1)
    assert [check.name for check in loaded.cases] == CHECKS
    assert loaded.environment.torch


def test_a_json_file_comes_beside_the_printed_lines(run, tmp_path):
    result = run("--json", str(tmp_path / "doctor.json"))

    assert "MADV_POPULATE_WRITE" in result.stdout
    assert json.loads((tmp_path / "doctor.json").read_text())["kind"] == "doctor"


def test_a_warning_shows_its_mend_and_exits_0(run, machine, tmp_path):
    add_gpu(tmp_path / "sys", "NVIDIA")

    result = run()

    assert "but the bus holds a GPU of NVIDIA" in result.stdout
    assert "mend: install torch's CUDA build" in result.stdout
    assert result.exit_code == 0


def test_a_problem_exits_1(run, machine, tmp_path):
    (tmp_path / "dev/shm").unlink()

    result = run()

    assert "not there" in result.stdout
    assert result.exit_code == 1


def test_quiet_prints_only_complaints(run, machine, tmp_path):
    write(tmp_path, "dev/shm/vllm_ec_dead.mmap", "x")

    lines = run("--quiet").stdout.splitlines()

    assert {line.split()[0] for line in lines} <= {"warning", "problem", "mend:"}
    assert any("vllm_ec_dead.mmap" in line for line in lines)
    assert (tmp_path / "dev/shm/vllm_ec_dead.mmap").exists()


def test_a_pipe_gets_plain_lines_that_are_not_folded(run, machine, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    write(tmp_path, "dev/shm/vllm_ec_dead.mmap", "x")

    stdout = run().stdout

    assert "\x1b" not in stdout
    [line] = [line for line in stdout.splitlines() if "vllm_ec_dead" in line]
    assert line.endswith("KiB)")


def test_a_torch_that_cannot_be_imported_exits_3_in_one_line(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    result = run()

    assert result.exit_code == 3
    assert result.stderr.startswith("ecbench: torch or NumPy cannot be imported")
    assert len(result.stderr.splitlines()) == 1


def test_a_device_that_breaks_the_probe_does_not_take_the_other_checks_with_it(run, machine, monkeypatch):
    def fail(torch, numpy):
        raise RuntimeError("CUDA error: device is lost")

    monkeypatch.setattr("ecbench.workflows.doctor.probe", fail)
    machine(pointers=probe_pointers)

    result = run()

    assert "could not be probed: CUDA error: device is lost" in result.stdout
    assert result.exit_code == 1


def test_nothing_is_left_behind(run, machine, tmp_path, shm, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    run()

    assert [*shm.iterdir(), *(tmp_path / "work").iterdir()] == []
