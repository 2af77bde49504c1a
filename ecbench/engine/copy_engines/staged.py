"""Packs on the device and crosses the bus once: many small blocks become one large transfer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ecbench.core.descriptors import Direction, PreparedCopy
from ecbench.core.errors import CopyRefusedError, DoesNotFitError
from ecbench.engine.copy_engines.pieces import locate
from ecbench.engine.copy_engines.row_table import row_tables
from ecbench.engine.devices.accelerator import require_accelerator

if TYPE_CHECKING:
    from torch import Tensor

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import Device, Stream
    from ecbench.engine.copy_engines.pieces import Located
    from ecbench.engine.copy_engines.row_table import RowTable
    from ecbench.engine.devices.accelerator import AcceleratorDevice


class StagedEngine:
    """A gather on the device and one transfer, or one transfer and a scatter on the device.

    Where the host's side lies in pieces, the host packs or unpacks it in a pinned buffer; a save then waits for the
    transfer inside the submitting call.

    Args:
        device: The GPU.
    """

    name = "staged"

    def __init__(self, device: Device) -> None:
        self._device = require_accelerator(device, self.name)

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Finds both sides' tensors.

        Raises:
            CopyRefusedError: An address that lies in none of the batch's tensors.
        """
        sources = locate(batch.sources, batch.sizes, batch.source_tensors, self.name)
        destinations = locate(batch.destinations, batch.sizes, batch.destination_tensors, self.name)
        if batch.direction is Direction.TO_HOST:
            scattered, host, move = sources, destinations, _to_host
        else:
            scattered, host, move = destinations, sources, _to_device
        sides = _Sides(self._device, _Packing(scattered, row_tables(scattered)), host, host.span())
        threads = torch.get_num_threads() if sides.span is None else 0
        notes = () if sides.span is not None else (_bounce_note(batch.direction, len(host.sizes)),)
        return PreparedCopy(self.name, threads, lambda stream: move(sides, stream), notes)


@dataclass(frozen=True, eq=False)
class _Packing:
    """The device's side: as row tables where that works, else piece by piece."""

    located: Located
    tables: list[RowTable] | None

    @property
    def nbytes(self) -> int:
        return int(self.located.sizes.sum())

    def gather(self, device: AcceleratorDevice, packed: Tensor) -> None:
        if self.tables is None:
            torch.cat(self.located.pieces(), out=packed)
            return
        for table in self.tables:
            torch.index_select(table.table, 0, device.upload(table.index), out=table.packed(packed))

    def scatter(self, device: AcceleratorDevice, packed: Tensor) -> None:
        if self.tables is None:
            for piece, part in zip(self.located.pieces(), self.located.cut(packed), strict=True):
                piece.copy_(part)
            return
        for table in self.tables:
            table.table.index_copy_(0, device.upload(table.index), table.packed(packed))


@dataclass(frozen=True, eq=False)
class _Sides:
    device: AcceleratorDevice
    packing: _Packing
    host: Located
    span: Tensor | None


def _to_host(sides: _Sides, stream: Stream) -> None:
    with stream:
        packed = _packed(sides)
        sides.packing.gather(sides.device, packed)
        if sides.span is not None:
            sides.span.copy_(packed, non_blocking=True)
            return
        bounce = sides.device.empty_host(sides.packing.nbytes)
        bounce.copy_(packed, non_blocking=True)
    stream.synchronize()
    for piece, part in zip(sides.host.pieces(), sides.host.cut(bounce), strict=True):
        piece.copy_(part)


def _to_device(sides: _Sides, stream: Stream) -> None:
    with stream:
        packed = _packed(sides)
        packed.copy_(sides.span if sides.span is not None else _bounce(sides), non_blocking=True)
        sides.packing.scatter(sides.device, packed)


def _packed(sides: _Sides) -> Tensor:
    try:
        return sides.device.empty(sides.packing.nbytes)
    except DoesNotFitError as error:
        raise CopyRefusedError(f"engine staged: {error}, or use an engine that packs nothing") from error


def _bounce(sides: _Sides) -> Tensor:
    bounce = sides.device.empty_host(sides.packing.nbytes)
    return torch.cat(sides.host.pieces(), out=bounce)


def _bounce_note(direction: Direction, pieces: int) -> str:
    does = "unpacks, after waiting for the transfer," if direction is Direction.TO_HOST else "packs"
    return f"engine staged: the host's side lies in {pieces} pieces, so the host {does} a pinned buffer inside the call"
