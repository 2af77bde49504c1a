"""Engines x block sizes x counts x directions against the ceiling, in verified rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ecbench.core.descriptors import CopyTimes, Direction
from ecbench.core.records import CaseResult, LegResult, LegStatus
from ecbench.core.units import format_bytes
from ecbench.measure.memory import HostMemory
from ecbench.measure.rounds import MeasuredCopy, measure_rounds
from ecbench.measure.stages import StageClock
from ecbench.transfer.addresses import address_of
from ecbench.transfer.queue import TransferQueue
from ecbench.transfer.writers import find_writer
from tests.engine.transfers import block_plan, make_buffers

KIB = 1024
BLOCK_BYTES = (3 * KIB, 7 * KIB, 16 * KIB, 64 * KIB, 1024 * KIB)
COUNTS = (64, 4096)
ROUNDS = 3
MAX_CELL_BYTES = 512 << 20
SEED = 0
WRITER = "numpy-batch"
DIRECTION_NAMES = {Direction.TO_HOST: "save", Direction.TO_DEVICE: "load"}


@dataclass(frozen=True)
class Cell:
    """One engine, block size and count; both directions."""

    engine: str
    block_bytes: int
    count: int

    @property
    def nbytes(self):
        return self.block_bytes * self.count

    @property
    def case_id(self):
        return f"{self.engine}/{format_bytes(self.block_bytes).replace(' ', '')}/{self.count}"


def cells(engine_names):
    """Engines innermost, so that those compared run close together."""
    return [Cell(name, block, count) for block in BLOCK_BYTES for count in COUNTS for name in engine_names]


def measure_cell(cell, device, engine, deadline_s):
    """Measures a cell, or says why not.

    Args:
        cell: What to measure.
        device: The GPU.
        engine: The cell's engine.
        deadline_s: `time.perf_counter` from which on nothing more is begun.
    """
    if cell.nbytes > MAX_CELL_BYTES:
        return _skipped(cell, f"{format_bytes(cell.nbytes)} is above {format_bytes(MAX_CELL_BYTES)} for one cell")
    if time.perf_counter() > deadline_s:
        return _skipped(cell, "the time for the whole run was used up")
    legs = [_measure_leg(cell, device, engine, direction) for direction in Direction]
    return _case(cell, legs)


def _measure_leg(cell, device, engine, direction):
    plan = block_plan(cell.count, cell.block_bytes, direction)
    buffers = make_buffers(device, plan, direction)
    try:
        copy = _measured_copy(plan, buffers, device, engine, direction)
        *_, (leg,) = measure_rounds([copy], rounds=ROUNDS, seed=SEED, label=cell.case_id, clock=StageClock())
    finally:
        buffers.registration.release()
    return leg


def _measured_copy(plan, buffers, device, engine, direction):
    queue = TransferQueue(device, engine, direction)
    writer = find_writer(WRITER)
    source, destination = buffers.ends(direction)
    on_device, on_host = device.memory(buffers.on_device), HostMemory(buffers.on_host.numpy())
    ends = (on_device, on_host) if direction is Direction.TO_HOST else (on_host, on_device)

    def run():
        began = time.perf_counter()
        arrays = queue.arrays.acquire(len(plan))
        writer.write(arrays, 0, plan, address_of(source), address_of(destination))
        fill_s = time.perf_counter() - began
        queue.submit("cell", arrays, len(plan), sources=(source,), destinations=(destination,), fill_s=fill_s)
        (done,) = queue.wait()
        total_s = time.perf_counter() - began
        return CopyTimes(
            total_s, done.fill_s, done.submit_s, done.copy_s, done.descriptors, done.engine, done.threads, done.notes
        )

    return MeasuredCopy(
        direction=DIRECTION_NAMES[direction],
        plan=plan,
        source=ends[0],
        destination=ends[1],
        run=run,
        ceiling=lambda threads: device.copy_contiguous(
            buffers.on_device, buffers.on_host, plan.total_bytes, direction, threads
        ),
        notes=tuple(filter(None, (*device.notes, buffers.registration.note))),
        writer=WRITER,
    )


def _skipped(cell, reason):
    legs = [LegResult(direction=name, status=LegStatus.SKIPPED, reason=reason) for name in DIRECTION_NAMES.values()]
    return _case(cell, legs)


def _case(cell, legs):
    params = {"engine": cell.engine, "block_size_bytes": cell.block_bytes, "blocks": cell.count, "rounds": ROUNDS}
    return CaseResult(case_id=cell.case_id, workload="device-grid", params=params, legs=legs)
