"""vLLM's real encoder-cache CPU connector as a target of ``conformance``."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from ecbench.core.conformance_protocols import Load, StepPlan
from ecbench.core.errors import UnavailableError
from ecbench.targets.vllm.conformance_worker import COMMON_MODULE, HELD, VllmWorker
from ecbench.targets.vllm.installation import KNOWN_RELEASES, find, load_vllm, part_of
from ecbench.targets.vllm.stand_ins import MODALITY, WORKER_MODULE, encoder_cache_config, install_stand_ins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from ecbench.core.conformance_protocols import ConnectorSpec, Finished

_CONNECTOR = "vllm.distributed.ec_transfer.ec_connector.cpu"
_REGION_MODULE = f"{_CONNECTOR}.ec_shared_region"


_CALLED = (
    (f"{_CONNECTOR}.scheduler.embedding_cache", "EmbeddingCache", "alloc", 2),
    (f"{_CONNECTOR}.scheduler", "ECCPUScheduler", "update_state_after_alloc", 2),
    (f"{_CONNECTOR}.scheduler", "ECCPUScheduler", "build_connector_meta", 1),
    (f"{_CONNECTOR}.scheduler", "ECCPUScheduler", "update_connector_output", 1),
    (WORKER_MODULE, "ECCPUWorker", "save_caches", 3),
    (WORKER_MODULE, "ECCPUWorker", "start_load_caches", 2),
    (WORKER_MODULE, "ECCPUWorker", "flush_saves", 0),
    (WORKER_MODULE, "ECCPUWorker", "build_connector_worker_meta", 0),
    (WORKER_MODULE, "ECCPUWorker", "_submit_transfer", 3),
    (WORKER_MODULE, "ECCPUWorker", "_acquire_event", 0),
)
"""Methods that this adapter calls or replaces: module, class, name, and how many arguments it gives."""


class VllmAllocator:
    """``EmbeddingCache`` with plain lists.

    Args:
        num_blocks: Its blocks.
    """

    def __init__(self, num_blocks: int) -> None:
        self._cache = find(f"{_CONNECTOR}.scheduler.embedding_cache", "EmbeddingCache")(num_blocks)

    def alloc(self, key: str, blocks: int) -> list[int] | None:
        """Allocates blocks, or gives None."""
        entry = self._cache.alloc(key, blocks)
        return None if entry is None else list(entry.block_ids)

    def mark_ready(self, key: str) -> None:
        """As the connector does after a save."""
        self._cache.mark_ready(key)

    def pin(self, key: str) -> None:
        """As the connector does before a load."""
        self._cache.pin(key)

    def unpin(self, key: str) -> None:
        """As the connector does after a load."""
        self._cache.unpin(key)

    def discard(self, key: str) -> None:
        """As the connector does after a failed fill."""
        self._cache.discard(key)

    def holds(self, key: str) -> bool:
        """Tells whether there is such an entry."""
        return self._cache.get(key) is not None

    def is_ready(self, key: str) -> bool:
        """Tells whether there is such an entry and it is ready."""
        entry = self._cache.get(key)
        return entry is not None and bool(entry.ready)


class VllmRegion:
    """``ECSharedRegion``: created by whoever comes first, opened by the others.

    Args:
        name: Part of its file's name.
        num_blocks: Blocks.
        block_size_bytes: Bytes of one block.
    """

    def __init__(self, name: str, num_blocks: int, block_size_bytes: int) -> None:
        self._region = find(_REGION_MODULE, "ECSharedRegion")(
            engine_id=name, num_blocks=num_blocks, block_size_bytes=block_size_bytes
        )

    @property
    def blocks(self) -> Tensor:
        """int8, shape ``(num_blocks, block_size_bytes)``."""
        blocks: Tensor = self._region.blocks
        return blocks

    def cleanup(self) -> None:
        """Unlinks the file where this one created it."""
        self._region.cleanup()


class VllmScheduler:
    """``ECCPUScheduler``, fed with one request per entry.

    Args:
        config: What it reads of vLLM's configuration.
    """

    def __init__(self, config: Any) -> None:
        self._scheduler = find(f"{_CONNECTOR}.scheduler", "ECCPUScheduler")(config)

    def plan_step(self, touched: Mapping[str, int]) -> StepPlan:
        """Does for each entry what the engine does when it schedules a request that uses it."""
        for key, rows in touched.items():
            self._scheduler.update_state_after_alloc(_request(key, rows), 0)
        step = self._scheduler.build_connector_meta(None)
        loads = {key: Load(ticket, list(ids)) for key, (ticket, ids, _) in step.loads.items()}
        return StepPlan({key: list(ids) for key, ids in step.saves.items()}, loads)

    def report(self, participant: int, finished: Finished) -> None:  # noqa: ARG002 - vLLM's reports carry no rank
        """Passes a report on."""
        report = find(COMMON_MODULE, "ECCPUWorkerMetadata")(
            completed_saves=list(finished.saved), completed_loads=list(finished.loaded)
        )
        self._scheduler.update_connector_output(SimpleNamespace(ec_connector_worker_meta=report))

    def shutdown(self) -> None:
        """Gives its region up."""
        self._scheduler.shutdown()


def _request(key: str, rows: int) -> Any:
    position = SimpleNamespace(offset=0, length=rows, get_num_embeds=lambda: rows)
    feature = SimpleNamespace(identifier=key, modality=MODALITY, mm_position=position, data=None)
    return SimpleNamespace(request_id=key, mm_features=[feature], ec_transfer_params=None)


class VllmConformance:
    """The installed vLLM's connector. Nothing of its data path is replaced on an accelerator."""

    known_differences: ClassVar[Mapping[str, str]] = {
        "cycle.repeated-reports": (
            "vLLM's reports carry no rank, so that two reports count as two ranks; its workers drop a load as they "
            "report it and so report it once"
        ),
    }
    capacity_option = "ec_cpu_bytes"

    def __init__(self) -> None:
        installation = load_vllm()
        self.version = f"vLLM {installation.version}"
        self.device = installation.device_type or "cpu"
        held = (HELD,) if self.device == "cpu" else ()
        self.stand_ins = (*install_stand_ins(installation.device_type), *held)
        # Also imports the connector, so that forked processes need not.
        _refuse_other_signatures()

    def files(self, name: str) -> tuple[str, ...]:
        """A region's file has the name as it is, a connector's has the number of its data-parallel replica."""
        return (f"/dev/shm/vllm_ec_{name}.mmap", f"/dev/shm/vllm_ec_{name}_dp0.mmap")  # noqa: S108 - vLLM's choice

    def allocator(self, num_blocks: int) -> VllmAllocator:
        """A fresh allocator."""
        return VllmAllocator(num_blocks)

    def create_region(self, name: str, num_blocks: int, block_size_bytes: int) -> VllmRegion:
        """A region under a new name."""
        return VllmRegion(name, num_blocks, block_size_bytes)

    def open_region(self, name: str, num_blocks: int, block_size_bytes: int) -> VllmRegion:
        """A region under a name that there is."""
        return VllmRegion(name, num_blocks, block_size_bytes)

    def wait_for_size(self, descriptor: int, size_bytes: int, timeout_s: float) -> None:
        """What an opener does before it maps the file."""
        find(_REGION_MODULE, "_wait_for_file_size")(descriptor, size_bytes, timeout_s)

    def worker(self, spec: ConnectorSpec) -> VllmWorker:
        """A real worker."""
        return VllmWorker(spec, _config(spec), self.device)

    def scheduler(self, spec: ConnectorSpec) -> VllmScheduler:
        """A real scheduler."""
        return VllmScheduler(_config(spec))


def _refuse_other_signatures() -> None:
    """Finds out before any check whether this release is called as the known ones are.

    Raises:
        UnavailableError: A method is missing or takes other arguments.
    """
    for module, owner, name, arguments in _CALLED:
        method = part_of(find(module, owner), name)
        try:
            inspect.signature(method).bind(None, *[None] * arguments)
        except TypeError as error:
            raise UnavailableError(
                f"target vllm: {owner}.{name}{inspect.signature(method)} cannot be called with {arguments} arguments "
                f"({error}): install vLLM {' or '.join(KNOWN_RELEASES)}"
            ) from error


def _config(spec: ConnectorSpec) -> Any:
    config = encoder_cache_config(
        spec.name, hidden_size=spec.row_elements, dtype=spec.dtype, region_bytes=spec.capacity
    )
    config.parallel_config.tensor_parallel_size = spec.participants
    # Other executors pass on the report of one rank only.
    config.parallel_config.distributed_executor_backend = "mp"
    return config
