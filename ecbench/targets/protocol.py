"""What a target offers: sessions of its connectors, opened for a case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import Device, EncoderCacheSession, KvOffloadSession
    from ecbench.encoder_cache.workloads.scenario import EncoderCacheCase
    from ecbench.kv_offload.placement import PlacedTransfers
    from ecbench.kv_offload.transfers import KvMemory


class Target(Protocol):
    """Connectors under test, for one device. Not in `ecbench.core.protocols`: core knows no cases."""

    @property
    def name(self) -> str:
        """Registered name."""

    @property
    def version(self) -> str | None:
        """Version of what is installed; None where it is ecbench's own."""

    @property
    def engine(self) -> str:
        """What moves bytes, as a result's parameters name it."""

    @property
    def writer(self) -> str:
        """What writes descriptors, likewise."""

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Its parts that are replaced here, in words."""

    def refuse(self, case_id: str, *, coalesce: bool) -> None:
        """Refuses a case that asks for what the target leaves to nobody; called before anything is taken.

        Args:
            case_id: The case.
            coalesce: It wants copies that continue each other joined, or one descriptor per block.

        Raises:
            EcbenchError: The message names the case and the mend.
        """

    def own_load_bytes(self, loaded_bytes: int) -> int:
        """Device memory that loads of so many bytes take beside what the case gives them."""

    def kv_region_bytes(self, memory: KvMemory) -> int:
        """Host memory that a KV worker's region takes.

        Args:
            memory: Where everything lies.
        """

    def open_encoder_cache(
        self, case: EncoderCacheCase, *, device: Device, allocate: Callable[[int], Tensor]
    ) -> EncoderCacheSession:
        """Opens the encoder-cache connector.

        Args:
            case: Entries and how they lie in the region.
            device: Holds the encoder outputs.
            allocate: Gives the memory that loads are checked in.

        Raises:
            EcbenchError: The case cannot run on this target, or does not fit.
        """

    def open_kv_offload(
        self, placed: PlacedTransfers, caches: Tensor, *, device: Device, coalesce: bool
    ) -> KvOffloadSession:
        """Opens the KV offload worker.

        Args:
            placed: What moves, and the memory it lies in.
            caches: Device memory: uint8, shape ``(placed.memory.device.nbytes,)``.
            device: Holds the caches.
            coalesce: Joins copies that continue each other.

        Raises:
            EcbenchError: The case cannot run on this target, or does not fit.
        """


class BlockCopies(Protocol):
    """A worker over a region of equal blocks, which copies the blocks that its caller names."""

    @property
    def region(self) -> Tensor:
        """All blocks, without guards: uint8, shape ``(bytes,)``, in host memory."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about the way copies take."""

    def save(self, source: Tensor, block_ids: Sequence[int]) -> CopyTimes:
        """Copies device memory to blocks.

        Args:
            source: uint8, as long as the blocks, on the device.
            block_ids: Where they go, in order.
        """

    def load(self, block_ids: Sequence[int], destination: Tensor) -> CopyTimes:
        """Copies blocks to device memory.

        Args:
            block_ids: Where they are, in order.
            destination: uint8, as long as the blocks, on the device.
        """

    def close(self) -> None:
        """Releases the region; may be called twice."""


@runtime_checkable
class BlockTarget(Target, Protocol):
    """A target whose worker sweeps can use; the reference's copies need none: they are the transfer room itself."""

    def open_blocks(self, block_bytes: int, blocks: int, *, device: Device) -> BlockCopies:
        """Opens a worker over a region.

        Args:
            block_bytes: Bytes of a block.
            blocks: Blocks of the region.
            device: What it runs on.

        Raises:
            DoesNotFitError: The region does not fit /dev/shm.
        """
