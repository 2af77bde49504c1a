from __future__ import annotations

import fcntl
import os
import stat
import sys
from pathlib import Path

import pytest
import torch

from ecbench.core.errors import EcbenchError, UnavailableError
from ecbench.pointers.environments import (
    Installer,
    Versions,
    choose_installer,
    environments_folder,
    find_python,
    last_error,
    prepare_environment,
    probe_with,
    run_command,
)

HERE = Versions("2.13.0", "2.4.6")
SEES_OUR_PACKAGES = f"""
import pathlib, site
pathlib.Path(site.getsitepackages()[0], "ours.pth").write_text({chr(10).join(path for path in sys.path if path)!r})
print("Collecting torch")
"""
SAYS = "import sys; print({!r}); sys.exit({})"


def installer(install: str) -> Installer:
    """An installer that needs no network: it makes a bare environment and runs a piece of Python in it."""
    return Installer(
        name="fake",
        create=lambda home: [sys.executable, "-m", "venv", "--without-pip", str(home)],
        install=lambda python, wanted: [str(python), "-c", install, *wanted],
    )


@pytest.fixture
def said():
    return []


def test_an_environment_is_made_once_and_can_be_probed(tmp_path, said):
    python = prepare_environment(HERE, tmp_path, installer(SEES_OUR_PACKAGES), said.append)
    assert probe_with(python, details=False)["torch"] == torch.__version__
    assert "torch 2.13.0 with NumPy 2.4.6: fake: Collecting torch" in said
    said.clear()
    assert prepare_environment(HERE, tmp_path, installer("raise SystemExit(9)"), said.append) == python
    assert said == []


def test_each_pair_of_versions_has_an_environment_of_its_own(tmp_path, said):
    quick = installer("pass")
    homes = {
        prepare_environment(Versions(torch, numpy), tmp_path, quick, said.append)
        for torch in ("2.13.0", "2.14.1")
        for numpy in ("1.26.4", "2.4.6")
    }
    assert len(homes) == 4


def test_a_failed_install_is_one_line_with_the_installers_last_error_and_leaves_nothing(tmp_path, said):
    output = "Collecting torch\nERROR: No matching distribution found for torch==2.13.0\n"
    with pytest.raises(UnavailableError) as failure:
        prepare_environment(HERE, tmp_path, installer(SAYS.format(output, 1)), said.append)
    message = "torch 2.13.0 with NumPy 2.4.6: fake failed: No matching distribution found for torch==2.13.0"
    assert str(failure.value) == message
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_ctrl_c_ends_the_installer_and_leaves_nothing(tmp_path):
    pid_file = tmp_path / "pid"
    waits = f"import os, pathlib, signal; pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\n"
    waits += "print('Collecting torch', flush=True); signal.pause()"

    def interrupt(message: str) -> None:
        if "Collecting" in message:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_environment(HERE, tmp_path, installer(waits), interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_environment_that_was_left_half_made_is_made_again(tmp_path, said):
    python = prepare_environment(HERE, tmp_path, installer("pass"), said.append)
    home = python.parent.parent
    (home / "ecbench-environment.json").write_text("{")
    said.clear()
    prepare_environment(HERE, tmp_path, installer("pass"), said.append)
    assert said[-1] == "torch 2.13.0 with NumPy 2.4.6: ready"


def test_a_second_ecbench_waits_for_the_first(tmp_path, said):
    prepare_environment(HERE, tmp_path, installer("pass"), said.append)
    with (tmp_path / "lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)

        def finish_first(message: str) -> None:
            said.append(message)
            fcntl.flock(first, fcntl.LOCK_UN)

        prepare_environment(HERE, tmp_path, installer("raise SystemExit(9)"), finish_first)
    assert said[-1] == "torch 2.13.0 with NumPy 2.4.6: waiting for another ecbench that makes an environment"


def test_a_long_step_is_shortened(tmp_path, said):
    run_command(["/bin/sh", "-c", f"echo Installing {'package-' * 50}"], "pip", said.append)
    assert said == [f"pip: Installing {'package-' * 11}p..."]


def test_an_installer_that_is_not_there_is_one_line(said):
    with pytest.raises(UnavailableError, match="pip cannot be started"):
        run_command(["/nowhere/pip"], "pip", said.append)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["ERROR: first", "ERROR: second", "notice"], "second"),
        (
            ["error: No solution found", "cause: Because there is no version of torch==9.9.9"],
            "Because there is no version of torch==9.9.9",
        ),
        (["error: Request failed after 3 retries"], "Request failed after 3 retries"),
        (["ERROR: ResolutionImpossible: for help visit https://...", "1. loosen"], "1. loosen"),
        (["ERROR: Cannot install torch", "ERROR: ResolutionImpossible: for help visit x"], "Cannot install torch"),
        (
            ["\N{MULTIPLICATION SIGN} No solution found:", "\u2570\u2500\u25b6 Because there is no torch"],
            "Because there is no torch",
        ),
        (["killed", ""], "killed"),
        ([], "it said nothing"),
    ],
)
def test_the_last_error_of_an_installer_is_found(lines, error):
    assert last_error(lines) == error


@pytest.mark.parametrize("version", ["", "latest", "2.13.0 --index-url x", "-e .", "torch"])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(EcbenchError, match="is no version"):
        Versions(version, "2.4.6")


def test_environments_are_kept_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert environments_folder() == tmp_path / "ecbench" / "environments"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert environments_folder() == Path("/home/somebody/.cache/ecbench/environments")


def test_uv_is_used_where_it_is_installed_else_venv_and_pip(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_installer().create(Path("/e"))[1:3] == ["-m", "venv"]
    assert choose_installer().install(Path("/e/bin/python"), ["torch==2.13.0"])[-1] == "torch==2.13.0"
    program = tmp_path / "uv"
    program.touch()
    program.chmod(stat.S_IRWXU)
    chosen = choose_installer()
    assert chosen.create(Path("/e"))[:2] == [str(program), "venv"]
    assert chosen.install(Path("/e/bin/python"), ["torch==2.13.0"])[:3] == [str(program), "pip", "install"]


def test_an_interpreter_is_named_by_itself_or_by_its_environment():
    assert find_python(Path(sys.executable)) == Path(sys.executable)
    assert find_python(Path(sys.prefix)) == Path(sys.prefix) / "bin" / "python"
    with pytest.raises(UnavailableError, match="there is no interpreter"):
        find_python(Path("/nowhere/python"))


def fake_python(tmp_path: Path, script: str) -> Path:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)
    return path


def test_an_interpreter_without_torch_is_one_line(tmp_path):
    python = prepare_environment(HERE, tmp_path, installer("pass"), lambda _: None)
    with pytest.raises(UnavailableError, match=r"failed: probe: No module named 'numpy'"):
        probe_with(python, details=False)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -SEGV $$", "was ended by signal SIGSEGV"),
        ("echo no json", "failed: it said nothing"),
        ("echo 'ImportError: libc10.so' >&2; exit 1", "failed: ImportError: libc10.so"),
    ],
)
def test_a_probe_that_does_not_survive_is_one_line(tmp_path, script, message):
    with pytest.raises(UnavailableError, match=message):
        probe_with(fake_python(tmp_path, script), details=False)


def test_a_probe_that_never_answers_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("ecbench.pointers.environments._PROBE_TIMEOUT_S", 0.05)
    with pytest.raises(UnavailableError, match=r"gave no answer within 0\.05 s"):
        probe_with(fake_python(tmp_path, "exec tail -f /dev/null"), details=False)


def test_a_file_that_is_no_program_is_one_line(tmp_path):
    python = tmp_path / "python"
    python.write_bytes(b"\x7fnonsense")
    python.chmod(stat.S_IRWXU)
    with pytest.raises(UnavailableError, match="cannot be started"):
        probe_with(python, details=False)
