"""Which devices and engines have run on their hardware, as ``docs/measurements.md`` records it.

A recorded run is a line that begins with ``Device run:``. Its words in backticks are the kind of device (``cuda``,
``rocm`` or ``xpu``) and then the engines that ran on it::

    Device run: `cuda` (the card's name): `staged`, `per-copy`
"""

from __future__ import annotations

import re
from pathlib import Path

from ecbench.engine.registry import HOST

UNVERIFIED = "unverified here"
_LINE = re.compile(r"^\W*Device run:(.+)$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")
_PACKAGE = Path(__file__).resolve().parents[2]

DeviceRuns = dict[str, set[str]]
"""Engines that ran, by kind of device."""


def measurements_file() -> Path:
    """Where runs are recorded: inside the package once installed, beside it in a source tree."""
    inside = _PACKAGE / "measurements.md"
    return inside if inside.is_file() else _PACKAGE.parent / "docs" / "measurements.md"


def read_device_runs(path: Path | None = None) -> DeviceRuns:
    """Reads the recorded runs; none where the file is missing.

    Args:
        path: The record; None reads ecbench's own.
    """
    try:
        text = (path or measurements_file()).read_text(encoding="utf-8")
    except OSError:
        return {}
    runs: DeviceRuns = {}
    for line in _LINE.findall(text):
        device, *engines = _NAME.findall(line) or [""]
        runs.setdefault(device, set()).update(engines)
    return runs


def is_verified(device: str, engine: str | None = None, runs: DeviceRuns | None = None) -> bool:
    """Tells whether a device, or an engine on it, has ever run on the hardware; what is made of host memory needs none.

    Args:
        device: Name, with or without an index: ``cuda:1``.
        engine: Name; None asks for the device alone.
        runs: From `read_device_runs`; None reads ecbench's own record.
    """
    kind = _kind_of(device)
    if kind in HOST:
        return True
    recorded = read_device_runs() if runs is None else runs
    return kind in recorded and (engine is None or engine in recorded[kind])


def _kind_of(device: str) -> str:
    """The kind of hardware behind a name: torch calls an AMD GPU ``cuda`` too."""
    kind = device.partition(":")[0]
    if kind != "cuda":
        return kind
    import torch  # noqa: PLC0415 - no other device's kind depends on it

    from ecbench.engine.devices.accelerator_kinds import kind_of_torch  # noqa: PLC0415 - imports torch

    return kind_of_torch(kind, torch).name
