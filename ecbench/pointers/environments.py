"""Environments that hold one torch and one NumPy each, made once, and runs of the probe inside them."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecbench.core.errors import EcbenchError, UnavailableError
from ecbench.pointers import probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Progress = Callable[[str], None]
"""Told in one line what happens now."""

LAYOUT_VERSION = 1
_MARKER = "ecbench-environment.json"
_LOCK = "lock"
_VERSION = re.compile(r"\d+(\.\d+)*[A-Za-z0-9.+-]*")
_PROBE_TIMEOUT_S = 300.0
"""A first import of torch from a cold disk takes a minute; the probe itself takes seconds."""


@dataclass(frozen=True)
class Versions:
    """Which torch and which NumPy an environment holds.

    Args:
        torch: Version as the package index names it.
        numpy: Version as the package index names it.

    Raises:
        EcbenchError: One of them is no version.
    """

    torch: str
    numpy: str

    def __post_init__(self) -> None:
        for package, version in (("torch", self.torch), ("numpy", self.numpy)):
            if not _VERSION.fullmatch(version):
                raise EcbenchError(f"--{package} {version!r} is no version: give one such as 2.13.0")

    @property
    def requirements(self) -> list[str]:
        """What is asked of the installer."""
        return [f"torch=={self.torch}", f"numpy=={self.numpy}"]

    def __str__(self) -> str:
        return f"torch {self.torch} with NumPy {self.numpy}"


@dataclass(frozen=True)
class Installer:
    """How an environment is made and filled.

    Args:
        name: For messages.
        create: Gives the command that makes an empty environment in a folder.
        install: Gives the command that installs requirements with an environment's interpreter.
    """

    name: str
    create: Callable[[Path], list[str]]
    install: Callable[[Path, list[str]], list[str]]


def venv_and_pip() -> Installer:
    """The standard library's venv, and the pip that it brings."""
    return Installer(
        name="pip",
        create=lambda folder: [sys.executable, "-m", "venv", str(folder)],
        install=lambda python, wanted: [str(python), "-I", "-m", "pip", "install", "--no-input", *wanted],
    )


def uv(program: str) -> Installer:
    """The uv program."""
    return Installer(
        name="uv",
        create=lambda folder: [program, "venv", "--python", sys.executable, str(folder)],
        install=lambda python, wanted: [program, "pip", "install", "--python", str(python), *wanted],
    )


def choose_installer() -> Installer:
    """Takes uv where it is installed, else venv and pip."""
    program = shutil.which("uv")
    return uv(program) if program else venv_and_pip()


def environments_folder() -> Path:
    """The folder of all environments, below the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "ecbench" / "environments"


def prepare_environment(versions: Versions, folder: Path, installer: Installer, progress: Progress) -> Path:
    """Gives the interpreter of an environment, which is made where it is not there yet.

    Args:
        versions: What it must hold.
        folder: Where environments are kept.
        installer: Makes and fills it.
        progress: Told what happens.

    Returns:
        Path of the environment's Python.

    Raises:
        UnavailableError: It could not be made; the message ends with the installer's last error.
    """
    python_version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = folder / f"torch-{versions.torch}-numpy-{versions.numpy}-python-{python_version}"
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder / _LOCK, versions, progress):
        if _is_complete(home):
            return _python_in(home)
        progress(f"{versions}: making an environment in {home} (several GB, takes minutes)")
        try:
            _make(versions, home, installer, progress)
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
    progress(f"{versions}: ready")
    return _python_in(home)


def _make(versions: Versions, home: Path, installer: Installer, progress: Progress) -> None:
    shutil.rmtree(home, ignore_errors=True)
    commands = [installer.create(home), installer.install(_python_in(home), versions.requirements)]
    for command in commands:
        run_command(command, f"{versions}: {installer.name}", progress)
    marker = {"layout": LAYOUT_VERSION, "torch": versions.torch, "numpy": versions.numpy}
    (home / _MARKER).write_text(json.dumps(marker) + "\n")


def _is_complete(home: Path) -> bool:
    try:
        marker = json.loads((home / _MARKER).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(marker, dict) and marker.get("layout") == LAYOUT_VERSION and _python_in(home).exists()


def _python_in(home: Path) -> Path:
    return home / "bin" / "python"


@contextmanager
def _only_one(lock: Path, versions: Versions, progress: Progress) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"{versions}: waiting for another ecbench that makes an environment")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_command(command: Sequence[str], label: str, progress: Progress) -> None:
    """Runs an installer's command; every step it names is progress, and Ctrl-C ends it and what it started.

    Args:
        command: Program and arguments.
        label: Begins every message.
        progress: Told the steps.

    Raises:
        UnavailableError: The command cannot be started or failed.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - built above from checked versions
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise UnavailableError(f"{label} cannot be started: {error}") from error
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if _STEP.match(lines[-1]):
                progress(f"{label}: {_shorten(lines[-1])}")
        process.wait()
    finally:
        _end(process)
    if process.returncode != 0:
        raise UnavailableError(f"{label} failed: {last_error(lines)}")


_STEP = re.compile(r"(Collecting|Downloading|Installing|Successfully|Resolved|Prepared|Installed|Creating) ")

_STEP_CHARACTERS = 100
"""An installer names dozens of packages in one line; a reader wants to see that it moves."""


def _shorten(step: str) -> str:
    return step if len(step) <= _STEP_CHARACTERS else f"{step[:_STEP_CHARACTERS]}..."


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


_ERROR = re.compile(r"error: |cause: |\N{MULTIPLICATION SIGN} |\u2570\u2500\u25b6 ", re.IGNORECASE)
"""Begins an error of pip or uv, or its cause; older versions of uv draw a cross and an arrow instead."""


def last_error(lines: Sequence[str]) -> str:
    """Finds the last error in an installer's output; a pointer to a manual is none."""
    errors = [line for line in lines if _ERROR.match(line) and "for help visit" not in line]
    said = errors or [line for line in lines if line] or ["it said nothing"]
    return _ERROR.sub("", said[-1], count=1)


def find_python(path: Path) -> Path:
    """Finds the interpreter that a user names: itself, or an environment's folder.

    Raises:
        UnavailableError: There is none.
    """
    python = _python_in(path) if path.is_dir() else path
    if not python.is_file() or not os.access(python, os.X_OK):
        raise UnavailableError(f"--python {path}: there is no interpreter; name a Python or an environment's folder")
    return python


def probe_with(python: Path, *, details: bool) -> Any:
    """Runs the probe under another interpreter.

    Args:
        python: The interpreter.
        details: Also run what takes seconds.

    Returns:
        The document as plain values.

    Raises:
        UnavailableError: The interpreter lacks torch or NumPy, or did not survive.
    """
    command = [str(python), "-I", str(Path(probe.__file__).resolve()), *(["--details"] if details else [])]
    try:
        done = subprocess.run(  # noqa: S603 - the user's interpreter, and a file of this package
            command, capture_output=True, text=True, errors="replace", timeout=_PROBE_TIMEOUT_S, check=False
        )
    except OSError as error:
        raise UnavailableError(f"{python} cannot be started: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"the probe under {python} gave no answer within {_PROBE_TIMEOUT_S:g} s") from error
    return _read_answer(python, done)


def _read_answer(python: Path, done: subprocess.CompletedProcess[str]) -> Any:
    if done.returncode < 0:
        raise UnavailableError(f"the probe under {python} was ended by signal {signal.Signals(-done.returncode).name}")
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
        raise UnavailableError(f"the probe under {python} failed: {said.strip()}") from None
