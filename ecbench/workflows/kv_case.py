"""A KV offload case from scenario, or from a plan, to measured copies."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.descriptors import Direction
from ecbench.core.errors import EcbenchError, ScenarioError, unknown_name
from ecbench.core.toml import convert_table
from ecbench.kv_offload.models.loading import model_names
from ecbench.kv_offload.placement import BlockOrder, place_transfers
from ecbench.kv_offload.sampling import memory_of_everything, sample_chunks
from ecbench.kv_offload.scenario import KvScenario, make_case
from ecbench.measure.memory import HostMemory
from ecbench.measure.rounds import MeasuredCopy
from ecbench.workflows.kv_block_plans import block_plan
from ecbench.workflows.memory import MemoryNeed, process_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import Device, KvOffloadSession, Memory
    from ecbench.kv_offload.device_blocks import KvLayout
    from ecbench.kv_offload.loading import GroupLoad
    from ecbench.kv_offload.placement import PlacedTransfers
    from ecbench.kv_offload.planning import OffloadPlan
    from ecbench.kv_offload.sampling import ChunkSample
    from ecbench.kv_offload.scenario import KvCase
    from ecbench.targets.protocol import Target
    from ecbench.workflows.round_trip import RoundTripOptions
    from ecbench.workflows.scenarios import ScenarioFile


@dataclass(frozen=True, slots=True, eq=False)
class KvCopies:
    """A plan's store and load, open and ready to be measured.

    Args:
        copies: Directions ``store`` and ``load``; one that has nothing to move is not there.
        sampled_fraction: Share of the plan's stored bytes that ``store`` moves; 1.0 is all of them.
        loaded_fraction: Share of the hit's bytes that ``load`` moves.
        sample_note: What was sampled, in words; None where everything is copied.
    """

    copies: list[MeasuredCopy]
    sampled_fraction: float
    loaded_fraction: float
    sample_note: str | None


def load_case(file: ScenarioFile, options: RoundTripOptions) -> KvCase:
    """Checks a scenario file and applies what the command line says.

    Raises:
        ScenarioError: A bad key or value; the file is named, and the line where the key itself is wrong.
        EcbenchError: An unknown model on the command line.
    """
    if options.model is not None and options.model not in model_names():
        raise unknown_name("model", options.model, model_names())
    scenario = convert_table(file.table, file.text, file.where, KvScenario)
    overrides = {
        name: value
        for name, value in (("model", options.model), ("rounds", options.rounds), ("coalesce", options.coalesce))
        if value is not None
    }
    scenario = msgspec.structs.replace(scenario, **overrides)
    try:
        return make_case(file.name, scenario, options.seed, Path(file.where).parent)
    except EcbenchError as error:
        raise ScenarioError(f"{file.where}: {error}") from error


def memory_need(case: KvCase, device: Device, target: Target) -> MemoryNeed:
    """What the case will take on a target, without taking it."""
    memory = memory_of_everything(case.plan, case.scenario.layout)
    return MemoryNeed(
        case_id=case.case_id,
        host_region_bytes=target.kv_region_bytes(memory),
        device_bytes=memory.device.nbytes,
        device_is_host=device.copies_inside_submit,
        process_bytes=process_bytes(),
    )


@contextmanager
def open_case(case: KvCase, device: Device, target: Target) -> Iterator[list[MeasuredCopy]]:
    """Allocates a case and yields its two directions; everything is released at the end.

    Args:
        case: The case.
        device: Holds the caches.
        target: Whose worker runs.
    """
    scenario = case.scenario
    with open_kv_copies(
        case.plan,
        case.loads,
        device=device,
        target=target,
        layout=scenario.layout,
        seed=case.seed,
        max_bytes=None,
        order=scenario.block_order,
        coalesce=scenario.coalesce,
    ) as opened:
        yield opened.copies


@contextmanager
def open_kv_copies(
    plan: OffloadPlan,
    load: tuple[GroupLoad, ...],
    *,
    device: Device,
    target: Target,
    layout: KvLayout,
    seed: int,
    max_bytes: int | None,
    order: BlockOrder = BlockOrder.SHUFFLED,
    coalesce: bool = True,
) -> Iterator[KvCopies]:
    """Allocates what a plan stores and a hit loads, and yields the copies; everything is released at the end.

    Args:
        plan: From `plan_store`.
        load: From `plan_load`, for a hit that `look_up` found in this plan.
        device: Holds the caches.
        target: Whose worker runs.
        layout: How caches lie on the device.
        seed: Decides where shuffled blocks and slots lie.
        max_bytes: Most bytes that host slots and device memory may take together; where the plan takes more, an even
            share of every group's chunks is copied, and `KvCopies.sample_note` says so. None copies everything.
        order: How blocks and slots are given out.
        coalesce: Joins copies that continue each other.

    Raises:
        EcbenchError: A load that the plan does not serve.
        DoesNotFitError: Not even one chunk per group fits, or /dev/shm has no room.
    """
    sample = sample_chunks(plan, load, layout, max_bytes)
    note = sample_note(sample)
    if not any(len(group.stored) for group in sample.groups):
        yield KvCopies([], 1.0, 1.0, "the prompt stores no whole chunk: nothing to copy")
        return
    placed = place_transfers(sample, order, seed)
    caches = device.empty(placed.memory.device.nbytes)
    session = target.open_kv_offload(placed, caches, device=device, coalesce=coalesce)
    try:
        copies = [
            measured_copy(direction, placed, session, caches, device, writer=target.writer, notes=(note_of(sample),))
            for direction, note_of in ((Direction.TO_HOST, _store_note), (Direction.TO_DEVICE, _load_note))
        ]
        moving = [copy for copy in copies if copy.plan.total_bytes]
        yield KvCopies(moving, sample.stored_fraction, sample.loaded_fraction, note)
    finally:
        session.close()


def measured_copy(
    direction: Direction,
    placed: PlacedTransfers,
    session: KvOffloadSession,
    caches: Tensor,
    device: Device,
    *,
    writer: str,
    notes: tuple[str, ...],
    on_device: Memory | None = None,
) -> MeasuredCopy:
    """Makes one direction of a session ready to be measured.

    Args:
        direction: Store (to the host) or load (to the device).
        placed: What moves.
        session: Opened for it.
        caches: Its device memory.
        device: Holds the caches.
        writer: Name of the session's writer.
        notes: What a reader must know about the copy.
        on_device: The caches as content is made and checked there; by default made anew.
    """
    region = session.region
    on_device = device.memory(caches) if on_device is None else on_device
    on_host = HostMemory(region.numpy())
    plan = block_plan(placed, direction, session.slots_offset, region.nbytes, session.slot_order)
    storing = direction is Direction.TO_HOST
    run: Callable[[], CopyTimes] = session.store if storing else session.load
    emulation = (device.emulation,) if device.emulation else ()
    return MeasuredCopy(
        direction="store" if storing else "load",
        plan=plan,
        source=on_device if storing else on_host,
        destination=on_host if storing else on_device,
        run=run,
        ceiling=lambda threads: device.copy_contiguous(caches, region, plan.total_bytes, direction, threads),
        notes=(*emulation, *device.notes, *session.notes, *notes),
        writer=writer,
        blocks=sum(transfer.blocks for transfer in (placed.stores if storing else placed.loads)),
    )


def _store_note(sample: ChunkSample) -> str:
    counts = [f"{group.load.layout.name} {len(group.stored)}" for group in sample.groups]
    return f"chunks stored by group: {', '.join(counts)}"


def _load_note(sample: ChunkSample) -> str:
    counts = [
        f"{group.load.layout.name} {group.loaded_blocks}"
        + (f" (first chunk without {group.skip})" if group.skip else "")
        for group in sample.groups
    ]
    return f"blocks loaded by group: {', '.join(counts)}"


def sample_note(sample: ChunkSample) -> str | None:
    """What share of a plan is copied, in words; None where it is all of it."""
    stored, planned = (
        sum(counts) for counts in zip(*((len(g.stored), g.planned_chunks) for g in sample.groups), strict=True)
    )
    if stored == planned:
        return None
    loaded = sum(group.loaded_blocks for group in sample.groups)
    hit = sum(group.load.blocks for group in sample.groups)
    return (
        f"sample: {stored} of {planned} stored chunks ({sample.stored_fraction:.2%} of the bytes) and {loaded} of "
        f"{hit} loaded blocks ({sample.loaded_fraction:.2%}) are copied, spread evenly over each group"
    )
