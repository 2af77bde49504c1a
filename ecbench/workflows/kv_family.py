"""Cells that are KV round trips: what a prompt stores and its replay loads, by block, chunk, alignment, retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ecbench.core.errors import EcbenchError
from ecbench.core.host_memory import HostMemoryKind
from ecbench.kv_offload.device_blocks import KvLayout
from ecbench.kv_offload.layout import (
    DEFAULT_POLICY,
    ENGINE_RETENTION_INTERVAL,
    MAX_BLOCKS_PER_CHUNK,
    MAX_SPAN_TOKENS,
)
from ecbench.kv_offload.models.layer_caches import DEFAULT_BLOCK_SIZE
from ecbench.kv_offload.models.loading import model_names
from ecbench.kv_offload.placement import BlockOrder
from ecbench.kv_offload.policies import policy_names
from ecbench.kv_offload.scenario import MAX_TOKENS, KvScenario
from ecbench.measure.device_memory import CHUNK_BYTES
from ecbench.workflows.kv_cell import (
    DEFAULT_ALIGNMENT,
    DEFAULT_MEMORY_BYTES,
    DEFAULT_MODEL,
    DIRECTIONS,
    KvCell,
    KvWork,
    plan_work,
)
from ecbench.workflows.kv_session import KvSession
from ecbench.workflows.machine_axes import MACHINE_AXES, complete_machine_axes, why_not_here
from ecbench.workflows.memory import MemoryNeed, process_bytes
from ecbench.workflows.sweep_axes import LEG_AXIS, Axis, one_of, size_value, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ecbench.core.protocols import Device
    from ecbench.measure.stages import StageClock
    from ecbench.targets.protocol import Target
    from ecbench.workflows.sweep_axes import AxisValue, AxisValues
    from ecbench.workflows.sweep_family import Cell, Devices

NO_RETENTION: Literal["none"] = "none"
"""Keeps a tail at every alignment boundary."""
DEFAULT_TOKENS = 4096


def _tokens_or(word: str, low: int) -> Callable[[AxisValue], AxisValue]:
    number = whole_number(low, MAX_SPAN_TOKENS)

    def parse(given: AxisValue) -> AxisValue:
        if given == word:
            return word
        try:
            return number(given)
        except EcbenchError as error:
            raise EcbenchError(f"{error}, or {word}") from error

    return parse


AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("model", "model", one_of("model", model_names()), (DEFAULT_MODEL,), "cache groups"),
        Axis("tokens", "tokens", whole_number(1, MAX_TOKENS), (DEFAULT_TOKENS,), "tokens of the prompt"),
        Axis(
            "block_size",
            "block_size_tokens",
            whole_number(1, MAX_TOKENS),
            (DEFAULT_BLOCK_SIZE,),
            "tokens of a block of the full-attention groups",
        ),
        Axis(
            "alignment_tokens",
            "alignment_tokens",
            _tokens_or(DEFAULT_ALIGNMENT, 1),
            (DEFAULT_ALIGNMENT,),
            "what hits are taken to end on; default is the chunk of the full-attention groups",
        ),
        Axis(
            "blocks_per_chunk",
            "blocks_per_chunk",
            whole_number(1, MAX_BLOCKS_PER_CHUNK),
            (1,),
            "blocks that are stored together",
        ),
        Axis(
            "retention_interval",
            "retention_interval",
            _tokens_or(NO_RETENTION, 0),
            (ENGINE_RETENTION_INTERVAL,),
            "tokens from one kept tail to the next",
        ),
        Axis("policy", "policy", one_of("policy", policy_names()), (DEFAULT_POLICY,), "which chunks are stored"),
        Axis("layout", "layout", one_of("layout", tuple(KvLayout)), (KvLayout.PACKED.value,), "how caches lie"),
        Axis(
            "block_order",
            "block_order",
            one_of("block order", tuple(BlockOrder)),
            (BlockOrder.SHUFFLED.value,),
            "how blocks and slots are given out",
        ),
        Axis(
            "memory", "memory_bytes", size_value, (DEFAULT_MEMORY_BYTES,), "bytes of a cell; of larger plans a sample"
        ),
        *MACHINE_AXES,
        Axis(LEG_AXIS, "direction", one_of("direction", tuple(DIRECTIONS)), tuple(DIRECTIONS), "which way"),
    )
}


class KvFamily:
    """The grid over what a KV offload connector can set, and over what copies."""

    workload = "kv"
    axes: Mapping[str, Axis] = AXES

    def complete(self, values: AxisValues, device: Device) -> AxisValues:
        """Replaces ``all`` by the engines that run here, and the usual host memory by what it is."""
        return complete_machine_axes(values, device)

    def cell(
        self,
        scenario: str,
        values: Mapping[str, AxisValue],
        directions: tuple[str, ...],
        devices: Devices,
        targets: Mapping[str, Target],
    ) -> KvCell:
        """Plans one cell, and finds out whether it can run here."""
        planned, memory_bytes = _scenario(values), int(values["memory"])
        host_memory, engine = HostMemoryKind(str(values["host_memory"])), str(values["engine"])
        target = targets.get(engine)
        return KvCell(
            sweep=scenario,
            scenario=planned,
            memory_bytes=memory_bytes,
            work=_plan(planned, memory_bytes),
            host_memory=host_memory,
            writer=target.writer if target else str(values["writer"]),
            engine=engine,
            directions=directions,
            not_here=why_not_here(host_memory, engine, devices[host_memory]),
            target=target,
        )

    def memory_need(self, name: str, cells: Sequence[Cell], devices: Devices) -> MemoryNeed:
        """Caches and a region per kind of host memory, as large as its largest cell, and what checks cells.

        Cells of targets have a region each.
        """
        runnable = _runnable(cells)
        sizes, of_targets = _sizes(runnable), _of_targets(runnable)
        on_host = any(device.copies_inside_submit for device in devices.values())
        checked = {(cell.host_memory, cell.planned.device_bytes) for cell in runnable}
        return MemoryNeed(
            case_id=name,
            host_region_bytes=sum(region for _, region in sizes.values())
            + sum(cell.region_bytes for cell in of_targets),
            device_bytes=sum(caches for caches, _ in sizes.values())
            + (0 if on_host else sum(min(nbytes, CHUNK_BYTES) for _, nbytes in checked)),
            device_is_host=on_host,
            process_bytes=process_bytes() + sum(cell.plan_bytes for cell in runnable),
            mend=f"use {'fewer cells, ' if of_targets else ''}fewer tokens, a smaller --axis memory=",
        )

    def open(
        self, cells: Sequence[Cell], devices: Devices, seed: int, clock: StageClock
    ) -> AbstractContextManager[KvSession]:
        """Takes caches and regions for all cells."""
        runnable = _runnable(cells)
        return KvSession.open(_sizes(runnable), _of_targets(runnable), devices, seed, clock)


def _scenario(values: Mapping[str, AxisValue]) -> KvScenario:
    alignment, retention = values["alignment_tokens"], values["retention_interval"]
    return KvScenario(
        workload="dsv4",
        title="",
        model=str(values["model"]),
        tokens=int(values["tokens"]),
        block_size=int(values["block_size"]),
        alignment_tokens=None if alignment == DEFAULT_ALIGNMENT else int(alignment),
        blocks_per_chunk=int(values["blocks_per_chunk"]),
        retention_interval=NO_RETENTION if retention == NO_RETENTION else int(retention),
        policy=str(values["policy"]),
        layout=KvLayout(str(values["layout"])),
        block_order=BlockOrder(str(values["block_order"])),
        coalesce=bool(values["coalesce"]),
    )


def _plan(scenario: KvScenario, memory_bytes: int) -> KvWork | EcbenchError:
    """What a cell copies; an error where its values do not fit together, which skips it."""
    try:
        return plan_work(scenario, memory_bytes)
    except EcbenchError as error:
        return error


def _runnable(cells: Sequence[Cell]) -> list[KvCell]:
    return [cell for cell in cells if isinstance(cell, KvCell) and cell.skipped is None]


def _of_targets(cells: Sequence[KvCell]) -> list[KvCell]:
    return [cell for cell in cells if cell.target is not None]


def _sizes(cells: Sequence[KvCell]) -> dict[HostMemoryKind, tuple[int, int]]:
    """Bytes of caches and region of the largest cells, by kind of host memory; targets bring their own regions."""
    sizes: dict[HostMemoryKind, tuple[int, int]] = {}
    for cell in cells:
        caches, region = sizes.get(cell.host_memory, (0, 0))
        shared = cell.region_bytes if cell.target is None else 0
        sizes[cell.host_memory] = max(caches, cell.planned.device_bytes), max(region, shared)
    return sizes
