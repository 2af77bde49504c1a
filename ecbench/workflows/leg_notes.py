"""What a reader must know about a leg that follows from where it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ecbench.core.units import format_bytes
from ecbench.engine.diagnostics.device_runs import UNVERIFIED, is_verified

if TYPE_CHECKING:
    from ecbench.core.protocols import Device
    from ecbench.core.records import Environment, LegResult
    from ecbench.engine.diagnostics.device_runs import DeviceRuns


def with_notes(leg: LegResult, environment: Environment, device: Device, runs: DeviceRuns | None = None) -> LegResult:
    """Adds what holds for a leg that ran: a working set as small as a cache, an engine unproven on this device.

    Args:
        leg: Measured or not.
        environment: Where it ran.
        device: Likewise.
        runs: Recorded device runs; None reads them.
    """
    if leg.engine is None:
        return leg
    added = [note for note in (_cache_note(leg, environment), _evidence_note(leg.engine, device, runs)) if note]
    return msgspec.structs.replace(leg, notes=[*leg.notes, *added]) if added else leg


def _cache_note(leg: LegResult, environment: Environment) -> str | None:
    cache = environment.last_level_cache_bytes
    working_set = 2 * leg.copied_bytes
    if cache is None or working_set > cache:
        return None
    return f"working set of {format_bytes(working_set)} fits the last-level cache of {format_bytes(cache)}"


def _evidence_note(engine: str, device: Device, runs: DeviceRuns | None) -> str | None:
    if is_verified(device.name, engine, runs):
        return None
    return f"{UNVERIFIED}: docs/measurements.md records no run of engine {engine} on {device.name.partition(':')[0]}"
