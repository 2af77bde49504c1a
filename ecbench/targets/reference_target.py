"""ecbench's own connectors as a target: the engine and the writer are the user's choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.engine.registry import open_engine
from ecbench.targets.reference import ReferenceSession
from ecbench.targets.reference_kv import REGION_GUARD_BYTES, ReferenceKvSession
from ecbench.transfer.writers import find_writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ecbench.core.protocols import CopyEngine, DescriptorWriter, Device
    from ecbench.encoder_cache.workloads.scenario import EncoderCacheCase
    from ecbench.kv_offload.placement import PlacedTransfers
    from ecbench.kv_offload.transfers import KvMemory


@dataclass(frozen=True)
class ReferenceTarget:
    """The reference connectors.

    Args:
        copy_engine: Moves bytes.
        descriptor_writer: Writes descriptors.
        engine: The engine's name as it was asked for.
    """

    copy_engine: CopyEngine
    descriptor_writer: DescriptorWriter
    engine: str

    name = "reference"
    version = None
    stand_ins: tuple[str, ...] = ()

    @property
    def writer(self) -> str:
        """The writer's name."""
        return self.descriptor_writer.name

    def refuse(self, case_id: str, *, coalesce: bool) -> None:
        """Refuses nothing."""

    def own_load_bytes(self, loaded_bytes: int) -> int:  # noqa: ARG002 - the protocol's signature
        """None: loads go where the case says."""
        return 0

    def kv_region_bytes(self, memory: KvMemory) -> int:
        """All slots, and guards."""
        return memory.host.nbytes + 2 * REGION_GUARD_BYTES

    def open_encoder_cache(
        self, case: EncoderCacheCase, *, device: Device, allocate: Callable[[int], Tensor]
    ) -> ReferenceSession:
        """Opens the encoder-cache connector."""
        return ReferenceSession(
            case, device=device, engine=self.copy_engine, writer=self.descriptor_writer, allocate=allocate
        )

    def open_kv_offload(
        self, placed: PlacedTransfers, caches: Tensor, *, device: Device, coalesce: bool
    ) -> ReferenceKvSession:
        """Opens the KV offload worker."""
        return ReferenceKvSession(
            placed, caches, device=device, engine=self.copy_engine, writer=self.descriptor_writer, coalesce=coalesce
        )


def open_reference(device: Device, engine: str, writer: str) -> ReferenceTarget:
    """Opens the reference.

    Args:
        device: What it is to run on.
        engine: Registered name, or ``auto``.
        writer: Registered name.

    Raises:
        EcbenchError: An unknown name; the message lists the choices.
        UnavailableError: The engine cannot run here.
    """
    return ReferenceTarget(open_engine(engine, device), find_writer(writer), engine)
