"""``ecbench list``: the names a command line can use, whether they work here, and why not."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from ecbench.core.doctor_records import Listed, ListingResult
from ecbench.core.errors import EcbenchError, UnavailableError
from ecbench.core.records import SCHEMA_VERSION, RunResult
from ecbench.core.units import format_bytes
from ecbench.engine.diagnostics.device_runs import UNVERIFIED, DeviceRuns, is_verified, read_device_runs
from ecbench.engine.registry import AUTO, DEVICE_NAMES, DEVICES, ENGINES, GPUS, HOST, kind_of, open_device, open_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ecbench.core.protocols import Device
    from ecbench.kv_offload import HybridModel

T = TypeVar("T")


class Listable(StrEnum):
    """What can be listed."""

    DEVICES = "devices"
    ENGINES = "engines"
    MODELS = "models"
    SCENARIOS = "scenarios"
    TARGETS = "targets"
    WRITERS = "writers"


DEVICE_DESCRIPTIONS: dict[str, str] = {
    AUTO: "an accelerator where torch sees one, else the CPU",
    "cpu": "host memory to host memory: checks bytes and our own overhead",
    "cuda": "NVIDIA or AMD GPU",
    "xpu": "Intel GPU",
    "xpu-sim": "emulated Intel GPU: host memory under addresses with bit 63 set",
}
AUTO_ENGINE_DESCRIPTION = "the engine that suits each batch, by device, block size and count"
WRITER_DESCRIPTIONS: dict[str, str] = {
    "setitem": "torch scalar assignment of the address, one by one",
    "setitem-twos": "torch scalar assignment of the address - 2**64 where it has bit 63, one by one",
    "numpy-item": "assignment through cached NumPy views, one by one",
    "numpy-batch": "whole batches through cached NumPy views",
}


def list_entries(what: Listable) -> list[Listed]:
    """Lists names, each tried where trying is possible.

    Args:
        what: What to list.
    """
    return _LISTERS[what]()


def listing_result(what: Listable, entries: list[Listed]) -> ListingResult:
    """Makes a result of a listing.

    Args:
        what: What was listed.
        entries: From `list_entries`.
    """
    from ecbench.engine.machine import describe_environment  # noqa: PLC0415 - imports torch

    return RunResult(
        schema_version=SCHEMA_VERSION,
        kind="list",
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=describe_environment(open_device("cpu")),
        settings={"what": what.value},
        cases=entries,
    )


def list_devices() -> list[Listed]:
    """Every device; tried by opening it."""
    runs = read_device_runs()
    return [_device_entry(name, _tried(open_device, name), runs) for name in DEVICE_NAMES]


def _device_entry(name: str, device: Device | UnavailableError, runs: DeviceRuns) -> Listed:
    description = DEVICE_DESCRIPTIONS.get(name, "")
    if isinstance(device, UnavailableError):
        return Listed(
            name=name,
            available=False,
            verified=is_verified(name, runs=runs),
            description=description,
            reason=str(device).removeprefix(f"device {name!r} is not available: "),
        )
    # Host memory has no product's name to show.
    here = device.name if name == AUTO else "" if device.copies_inside_submit else device.description
    return Listed(
        name=name,
        available=True,
        verified=is_verified(device.name, runs=runs),
        description=f"{description}; here {here}" if here else description,
    )


def _tried(open_it: Callable[..., T], *arguments: object) -> T | UnavailableError:
    try:
        return open_it(*arguments)
    except UnavailableError as error:
        return error


def list_engines() -> list[Listed]:
    """Every engine; tried on every device that is here and of a kind that it runs on."""
    runs = read_device_runs()
    tried = {name: _tried(open_device, name) for name in DEVICES}
    here = {name: device for name, device in tried.items() if not isinstance(device, UnavailableError)}
    return [
        _engine_entry(AUTO, AUTO_ENGINE_DESCRIPTION, HOST | GPUS, here, runs),
        *(_engine_entry(name, entry.does, entry.kinds, here, runs) for name, entry in ENGINES.items()),
    ]


def _engine_entry(name: str, does: str, kinds: frozenset[str], here: Mapping[str, Device], runs: DeviceRuns) -> Listed:
    tried = {label: _tried(open_engine, name, device) for label, device in here.items() if kind_of(device) in kinds}
    works_on = [label for label, engine in tried.items() if not isinstance(engine, UnavailableError)]
    if not works_on:
        refusals = dict.fromkeys(map(str, tried.values()))
        return Listed(
            name=name,
            available=False,
            verified=any(name in engines for engines in runs.values()),
            description=does,
            reason="; ".join(refusals) or f"runs on {', '.join(sorted(kinds))} only, and none is here",
        )
    unverified = {label for label in works_on if not is_verified(label, name, runs)}
    on = ", ".join(f"{label} ({UNVERIFIED})" if label in unverified else label for label in works_on)
    return Listed(name=name, available=True, verified=not unverified, description=f"{does}; on {on}")


def list_models() -> list[Listed]:
    """Every model that scenarios can name: of the encoder cache, then of KV offloading."""
    from ecbench.encoder_cache.workloads.models import encoder_models  # noqa: PLC0415 - reads its data
    from ecbench.kv_offload import load_model, model_names  # noqa: PLC0415 - imports NumPy

    encoders = [
        _usable(
            name, f"ec: {model.title}, blocks of {format_bytes(model.block_size_bytes)}, images {_span(model.tokens)}"
        )
        for name, model in encoder_models().items()
    ]
    return encoders + [_kv_entry(name, load_model(name)) for name in model_names()]


def _kv_entry(name: str, model: HybridModel) -> Listed:
    stride = format_bytes(model.block_stride_bytes)
    return _usable(name, f"dsv4: {model.title}, {len(model.groups)} cache groups, block stride {stride}")


def _span(tokens: Mapping[str, int]) -> str:
    low, high = min(tokens.values()), max(tokens.values())
    return f"of {low} tokens" if low == high else f"of {low} to {high} tokens"


def list_scenarios() -> list[Listed]:
    """Every shipped scenario; tried by reading it."""
    from ecbench.workflows.scenarios import shipped_names  # noqa: PLC0415 - only here

    return [_scenario_entry(name) for name in shipped_names()]


def _scenario_entry(name: str) -> Listed:
    from ecbench.workflows.scenarios import read_scenario  # noqa: PLC0415 - only here

    try:
        file = read_scenario(name)
        return _usable(name, f"{file.workload}: {file.table.get('title', '')}")
    except EcbenchError as error:
        return Listed(name=name, available=False, verified=True, description="", reason=str(error))


def list_targets() -> list[Listed]:
    """Every target; what it needs is looked for, and nothing of it is imported."""
    from ecbench.targets.registry import BOTH, TARGETS  # noqa: PLC0415 - imports torch

    runs = read_device_runs()
    entries = [_target_entry(name, runs) for name in TARGETS]
    missing = next((entry.reason for entry in entries if entry.reason is not None), None)
    both = "all of them side by side, their rounds interleaved"
    return [*entries, Listed(name=BOTH, available=missing is None, verified=True, description=both, reason=missing)]


def _target_entry(name: str, runs: DeviceRuns) -> Listed:
    from ecbench.targets.registry import TARGETS, version_of, why_unavailable  # noqa: PLC0415 - imports torch

    entry, reason, version = TARGETS[name], why_unavailable(name), version_of(name)
    parts = [entry.does]
    if reason is None and version is not None:
        parts.append(f"here {version}")
    if entry.requirement is not None and not any(name in engines for engines in runs.values()):
        parts.append(f"on accelerators {UNVERIFIED}")
    return Listed(name=name, available=reason is None, verified=True, description="; ".join(parts), reason=reason)


def list_writers() -> list[Listed]:
    """Every way to write descriptors."""
    from ecbench.transfer.writers import DEFAULT_WRITER, WRITERS  # noqa: PLC0415 - imports torch

    marks = {DEFAULT_WRITER: " (default)"}
    return [_usable(name, WRITER_DESCRIPTIONS.get(name, "") + marks.get(name, "")) for name in WRITERS]


def _usable(name: str, description: str) -> Listed:
    return Listed(name=name, available=True, verified=True, description=description)


_LISTERS: dict[Listable, Callable[[], list[Listed]]] = {
    Listable.DEVICES: list_devices,
    Listable.ENGINES: list_engines,
    Listable.MODELS: list_models,
    Listable.SCENARIOS: list_scenarios,
    Listable.TARGETS: list_targets,
    Listable.WRITERS: list_writers,
}
