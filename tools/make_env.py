"""Makes the virtual environment that the Makefile uses. Needs nothing but Python's standard library.

Where the system's torch (>= 2.9) already sees an accelerator, the environment uses that torch and never replaces it;
else ``constraints.txt`` pins one.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIN_PYTHON = (3, 11)
MIN_TORCH = (2, 9)
_PROBE = """
import json, torch
print(json.dumps({"version": torch.__version__, "accelerator": torch.accelerator.is_available()}))
"""


@dataclass(frozen=True)
class SystemTorch:
    """The torch that the base interpreter has.

    Args:
        version: For example ``"2.12.0+xpu"``.
        accelerator: It sees one.
    """

    version: str
    accelerator: bool

    @property
    def is_used(self) -> bool:
        """New enough, and with an accelerator in sight."""
        numbers = tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])
        return self.accelerator and numbers >= MIN_TORCH


def find_system_torch(python: str = sys.executable) -> SystemTorch | None:
    """Asks an interpreter for its torch; None where it has none that imports."""
    probe = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    if probe.returncode:
        return None
    answer = json.loads(probe.stdout.splitlines()[-1])
    return SystemTorch(answer["version"], answer["accelerator"])


def choose_constraints(pinned: str, torch: SystemTorch | None) -> str:
    """Decides which torch is installed.

    Args:
        pinned: Text of ``constraints.txt``.
        torch: The system's torch, if any.

    Returns:
        Constraints for pip: the pinned ones, or those with the system's own torch in place of the pinned one.
    """
    if torch is None or not torch.is_used:
        return pinned
    lines = [line for line in pinned.splitlines() if not line.startswith("torch==")]
    return "\n".join([*lines, f"torch=={torch.version}", ""])


def make_environment(folder: Path, extras: str) -> None:
    """Creates the environment where it is missing and installs ecbench into it.

    Args:
        folder: Where it goes.
        extras: Comma-separated extras; may be empty.
    """
    torch = find_system_torch()
    if not (folder / "bin" / "python").exists():
        system_packages = ["--system-site-packages"] if torch and torch.is_used else []
        subprocess.run([sys.executable, "-m", "venv", *system_packages, str(folder)], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text(choose_constraints((ROOT / "constraints.txt").read_text(), torch))
    target = f"{ROOT}[{extras}]" if extras else str(ROOT)
    _install(folder, "--constraint", str(constraints), "--editable", target)


def make_pinned_environment(folder: Path, requirements: Path) -> None:
    """Creates an environment of exactly the packages that a file lists, with ecbench in it.

    Args:
        folder: Where it goes.
        requirements: Every package with its version. What they require is not looked at: vLLM asks for several GB that
            its connectors never import.
    """
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    _install(folder, "--no-deps", "--requirement", str(requirements))
    # Building ecbench needs its build backend, which pip fetches for itself.
    _install(folder, "--no-deps", "--editable", str(ROOT))


def _install(folder: Path, *arguments: str) -> None:
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *arguments], check=True)


def main() -> int:
    """Reads the arguments and makes the environment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--extras", default="")
    parser.add_argument("--pinned", type=Path, help="install exactly what this file lists")
    arguments = parser.parse_args()
    if sys.version_info < MIN_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        print(f"Python {found} is too old: ecbench needs 3.11 or newer (make PYTHON=python3.12 ...)", file=sys.stderr)
        return 2
    print(f"setting up {arguments.folder} (the first time, this downloads torch)", file=sys.stderr)
    try:
        if arguments.pinned is not None:
            make_pinned_environment(arguments.folder, arguments.pinned)
        else:
            make_environment(arguments.folder, arguments.extras)
    except subprocess.CalledProcessError as error:
        print(f"set-up failed in: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
