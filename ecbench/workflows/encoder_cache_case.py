"""An encoder-cache case from scenario to measured copies."""

from __future__ import annotations

import mmap
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError, ScenarioError
from ecbench.core.toml import convert_table
from ecbench.encoder_cache.workloads.models import find_model
from ecbench.encoder_cache.workloads.placement import region_blocks_of
from ecbench.encoder_cache.workloads.scenario import EncoderCacheScenario, make_case
from ecbench.measure.memory import HostMemory
from ecbench.measure.rounds import MeasuredCopy
from ecbench.targets.reference import DTYPE, REGION_GUARD_BYTES
from ecbench.workflows.memory import MemoryNeed, process_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import Device, EncoderCacheSession
    from ecbench.encoder_cache.workloads.scenario import EncoderCacheCase
    from ecbench.targets.protocol import Target
    from ecbench.workflows.round_trip import RoundTripOptions
    from ecbench.workflows.scenarios import ScenarioFile

GUARD_BYTES = mmap.PAGESIZE
"""Poisoned bytes before, between and after the entries on the device."""
ALIGNMENT_BYTES = 512
"""Where torch's CUDA allocator begins a tensor."""


def load_case(file: ScenarioFile, options: RoundTripOptions) -> EncoderCacheCase:
    """Checks a scenario file and applies what the command line says.

    Raises:
        ScenarioError: A bad key or value; the file is named, and the line where the key itself is wrong.
        EcbenchError: An unknown model on the command line.
    """
    if options.model is not None:
        find_model(options.model)
    scenario = convert_table(file.table, file.text, file.where, EncoderCacheScenario)
    overrides = {
        name: value
        for name, value in (("model", options.model), ("rounds", options.rounds), ("coalesce", options.coalesce))
        if value is not None
    }
    scenario = msgspec.structs.replace(scenario, **overrides)
    try:
        return make_case(f"{file.name}/{scenario.model}", scenario, options.seed)
    except EcbenchError as error:
        raise ScenarioError(f"{file.where}: {error}") from error


def memory_need(case: EncoderCacheCase, device: Device, target: Target) -> MemoryNeed:
    """What the case will take on a target, without taking it."""
    blocks = region_blocks_of(case)
    loaded_bytes = sum(case.blocks_per_entry) * case.model.block_size_bytes
    return MemoryNeed(
        case_id=case.case_id,
        host_region_bytes=blocks * case.model.block_size_bytes + 2 * REGION_GUARD_BYTES,
        device_bytes=_DeviceLayout.of(case).nbytes + target.own_load_bytes(loaded_bytes),
        device_is_host=device.copies_inside_submit,
        process_bytes=process_bytes(),
    )


@dataclass(frozen=True)
class _DeviceLayout:
    """Where entries and the load's buffer lie in one device allocation.

    Saves read the entries, which lie apart with guards between them; loads overwrite the same memory with all blocks in
    one piece.
    """

    entry_offsets: dict[str, int]
    load_offset: int
    nbytes: int

    @classmethod
    def of(cls, case: EncoderCacheCase) -> _DeviceLayout:
        first = GUARD_BYTES + case.scenario.source_offset_bytes
        offsets = {}
        end = first
        for key, shape in case.shapes.items():
            offsets[key] = end
            end += -(-_entry_bytes(shape) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + GUARD_BYTES
        loaded = sum(case.blocks_per_entry) * case.model.block_size_bytes
        return cls(offsets, first, max(end, first + loaded + GUARD_BYTES))


def _entry_bytes(shape: tuple[int, int]) -> int:
    return shape[0] * shape[1] * DTYPE.itemsize


@contextmanager
def open_case(case: EncoderCacheCase, device: Device, target: Target) -> Iterator[list[MeasuredCopy]]:
    """Allocates a case and yields its two directions; everything is released at the end.

    Args:
        case: The case.
        device: Holds the encoder outputs.
        target: Whose connector runs.
    """
    layout = _DeviceLayout.of(case)
    arena = device.empty(layout.nbytes)
    session = target.open_encoder_cache(
        case,
        device=device,
        allocate=lambda nbytes: arena[layout.load_offset : layout.load_offset + nbytes],
    )
    try:
        yield _measured_copies(case, layout, arena, session, device, writer=target.writer)
    finally:
        session.close()


def _measured_copies(
    case: EncoderCacheCase,
    layout: _DeviceLayout,
    arena: Tensor,
    session: EncoderCacheSession,
    device: Device,
    *,
    writer: str,
) -> list[MeasuredCopy]:
    region = session.region
    on_device, on_host = device.memory(arena), HostMemory(region.numpy())
    outputs = {key: _entry(arena, layout.entry_offsets[key], shape) for key, shape in case.shapes.items()}
    save_plan = _save_plan(case, layout, session, on_device.nbytes, on_host.nbytes)
    load_plan = _load_plan(case, layout, session, on_host.nbytes, on_device.nbytes)
    emulation = (device.emulation,) if device.emulation else ()
    notes = (*emulation, *device.notes, *session.notes)

    def ceiling(direction: Direction, nbytes: int, threads: int) -> float:
        return device.copy_contiguous(arena, region, nbytes, direction, threads)

    def load() -> CopyTimes:
        return session.load(case.shapes)

    return [
        MeasuredCopy(
            direction="save",
            plan=save_plan,
            source=on_device,
            destination=on_host,
            run=lambda: session.save(outputs),
            ceiling=lambda threads: ceiling(Direction.TO_HOST, save_plan.total_bytes, threads),
            notes=notes,
            writer=writer,
        ),
        MeasuredCopy(
            direction="load",
            plan=load_plan,
            source=on_host,
            destination=on_device,
            run=load,
            ceiling=lambda threads: ceiling(Direction.TO_DEVICE, load_plan.total_bytes, threads),
            notes=notes,
            writer=writer,
        ),
    ]


def _entry(arena: Tensor, offset: int, shape: tuple[int, int]) -> Tensor:
    return arena[offset : offset + _entry_bytes(shape)].view(DTYPE).view(shape)


def _save_plan(
    case: EncoderCacheCase,
    layout: _DeviceLayout,
    session: EncoderCacheSession,
    source_bytes: int,
    destination_bytes: int,
) -> CopyPlan:
    block = case.model.block_size_bytes
    slots = [np.arange(blocks, dtype=np.int64) * block for blocks in case.blocks_per_entry]
    sources = [layout.entry_offsets[key] + offsets for key, offsets in zip(case.shapes, slots, strict=True)]
    ids = np.concatenate([_ids(session, key) for key in case.shapes])
    return CopyPlan(
        np.concatenate(sources),
        session.blocks_offset + ids * block,
        np.full(len(ids), block),
        source_bytes,
        destination_bytes,
    )


def _load_plan(
    case: EncoderCacheCase,
    layout: _DeviceLayout,
    session: EncoderCacheSession,
    source_bytes: int,
    destination_bytes: int,
) -> CopyPlan:
    """Loads put whole blocks one after the other, entries in the order of their first blocks."""
    block = case.model.block_size_bytes
    ids = np.concatenate(sorted((_ids(session, key) for key in case.shapes), key=lambda entry: int(entry[0])))
    slots = np.arange(len(ids), dtype=np.int64)
    return CopyPlan(
        session.blocks_offset + ids * block,
        layout.load_offset + slots * block,
        np.full(len(ids), block),
        source_bytes,
        destination_bytes,
    )


def _ids(session: EncoderCacheSession, key: str) -> NDArray[np.int64]:
    return np.fromiter(session.block_ids(key), dtype=np.int64)
