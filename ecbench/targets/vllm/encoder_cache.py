"""The installed vLLM's encoder-cache connector as a target: its scheduler gives blocks, its worker moves bytes."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.errors import DoesNotFitError, EcbenchError
from ecbench.core.units import format_bytes
from ecbench.encoder_cache.workloads.placement import prepare_allocator, region_blocks_of
from ecbench.targets.vllm.installation import find, keep_off_stdout, part_of, unknown_form
from ecbench.targets.vllm.stand_ins import MODALITY, WORKER_MODULE, encoder_cache_config
from ecbench.targets.vllm.worker_steps import CONNECTOR, WorkerSteps
from ecbench.transfer.shared_region import SHM_DIRECTORY, refuse_if_too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import Device
    from ecbench.encoder_cache.workloads.scenario import EncoderCacheCase

_RANDOM_BYTES = 8
"""Of a region's name: no other process has the same."""
_SWEPT = "blocks"


class VllmEncoderCacheSession:
    """vLLM's connector, opened for one case.

    The region is the file that vLLM creates. Its name is removed as soon as scheduler and worker have it open, so that
    nothing stays in /dev/shm, however this process ends.

    Args:
        case: Entries and how they lie in the region.
        device: Holds the encoder outputs; vLLM runs on it.
        allocate: Gives the memory in which loads are checked.
        version: vLLM's.

    Raises:
        EcbenchError: vLLM gives no room for an entry.
        DoesNotFitError: The region does not fit /dev/shm.
        UnavailableError: A connector of another form.
    """

    def __init__(
        self, case: EncoderCacheCase, *, device: Device, allocate: Callable[[int], Tensor], version: str
    ) -> None:
        self._allocate = allocate
        self._scheduler, self._worker = _open_parts(
            _config_of(case), find(f"{CONNECTOR}.scheduler", "ECCPUScheduler"), find(WORKER_MODULE, "ECCPUWorker")
        )
        try:
            self._block_ids = _place(case, self._scheduler)
            self._steps = WorkerSteps(self._worker, device=device, version=version)
        except BaseException:
            self.close()
            raise

    @property
    def region(self) -> Tensor:
        """All blocks: uint8, shape ``(bytes,)``, in host memory."""
        return self._steps.region

    @property
    def blocks_offset(self) -> int:
        """Block 0 begins the region."""
        return 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Whose code ran, and what cannot be checked."""
        return self._steps.notes

    def block_ids(self, key: str) -> Sequence[int]:
        """Blocks of an entry, as vLLM's scheduler gave them."""
        return self._block_ids[key]

    def save(self, outputs: Mapping[str, Tensor]) -> CopyTimes:
        """One step that saves all outputs."""
        return self._steps.save(outputs, self._block_ids)

    def load(self, shapes: Mapping[str, tuple[int, ...]]) -> CopyTimes:
        """One step that loads all entries."""
        return self._steps.load(shapes, self._block_ids, self._allocate)

    def close(self) -> None:
        """Shuts worker and scheduler down; may be called twice."""
        _shut_down(self._worker, self._scheduler)


class VllmBlockCopies:
    """vLLM's worker alone, over a region of equal blocks, for copies of blocks that a sweep names.

    Args:
        block_bytes: Bytes of a block.
        blocks: Blocks of the region.
        device: vLLM runs on it.
        version: vLLM's.

    Raises:
        DoesNotFitError: The region does not fit /dev/shm.
        UnavailableError: A worker of another form.
    """

    def __init__(self, block_bytes: int, blocks: int, *, device: Device, version: str) -> None:
        config = encoder_cache_config(
            _new_name(), hidden_size=block_bytes, dtype=torch.uint8, region_bytes=block_bytes * blocks
        )
        (self._worker,) = _open_parts(config, find(WORKER_MODULE, "ECCPUWorker"))
        try:
            self._steps = WorkerSteps(self._worker, device=device, version=version)
        except BaseException:
            self.close()
            raise
        self._block_bytes = block_bytes

    @property
    def region(self) -> Tensor:
        """All blocks: uint8, shape ``(bytes,)``, in host memory."""
        return self._steps.region

    @property
    def notes(self) -> tuple[str, ...]:
        """Whose code ran, and what cannot be checked."""
        return self._steps.notes

    def save(self, source: Tensor, block_ids: Sequence[int]) -> CopyTimes:
        """Saves whole blocks.

        Args:
            source: uint8, as long as the blocks, on the device.
            block_ids: Where they go, in order.
        """
        return self._steps.save({_SWEPT: source}, {_SWEPT: block_ids})

    def load(self, block_ids: Sequence[int], destination: Tensor) -> CopyTimes:
        """Loads whole blocks.

        Args:
            block_ids: Where they are, in order.
            destination: uint8, as long as the blocks, on the device.
        """
        shape = (len(block_ids), self._block_bytes)
        return self._steps.load({_SWEPT: shape}, {_SWEPT: block_ids}, lambda nbytes: destination[:nbytes])

    def close(self) -> None:
        """Shuts the worker down; may be called twice."""
        _shut_down(self._worker)


def _config_of(case: EncoderCacheCase) -> Any:
    """The configuration of a vLLM whose region no other process knows."""
    model = case.model
    return encoder_cache_config(
        _new_name(),
        hidden_size=model.hidden_size,
        dtype=torch.bfloat16,
        region_bytes=region_blocks_of(case) * model.block_size_bytes,
        output_width=model.hidden_size * model.rows_per_token,
    )


def _new_name() -> str:
    return f"ecbench-{secrets.token_hex(_RANDOM_BYTES)}"


def region_path(config: Any) -> Path:
    """The file that vLLM creates for a configuration."""
    name = f"vllm_ec_{config.instance_id}_dp{config.parallel_config.data_parallel_index}.mmap"
    return SHM_DIRECTORY / name


def _open_parts(config: Any, *makers: Callable[[Any], Any]) -> list[Any]:
    """Opens scheduler, worker or both on one region, and removes its name; where one fails, all are shut down.

    Raises:
        DoesNotFitError: The region does not fit /dev/shm.
        UnavailableError: A connector of another form.
    """
    nbytes = config.ec_transfer_config.ec_connector_extra_config["ec_cpu_bytes"]
    refuse_if_too_large(nbytes)
    opened: list[Any] = []
    try:
        with _of_known_form(), keep_off_stdout():
            for make in makers:
                opened.append(make(config))  # noqa: PERF401 - those that are open must be known when the next one fails
    except OSError as error:
        _shut_down(*opened)
        raise DoesNotFitError(
            f"vLLM cannot create its region of {format_bytes(nbytes)} in {SHM_DIRECTORY} ({error.strerror}): use a "
            "smaller region or remount it larger"
        ) from error
    except BaseException:
        _shut_down(*opened)
        raise
    finally:
        # By its exact name, which holds a random number: no other process opens it.
        region_path(config).unlink(missing_ok=True)
    return opened


@contextmanager
def _of_known_form() -> Iterator[None]:
    """Turns what another release's connector raises when it is opened our way into one line."""
    try:
        yield
    except (EcbenchError, OSError):
        raise
    except Exception as error:  # its constructors run code of every kind
        raise unknown_form("the encoder-cache connector", error) from error


def _shut_down(*parts: Any) -> None:
    with keep_off_stdout():
        for part in parts:
            part.shutdown()


def _place(case: EncoderCacheCase, scheduler: Any) -> dict[str, list[int]]:
    """Lets vLLM's scheduler allocate the entries of a case, as for one request each."""
    with _of_known_form(), keep_off_stdout():
        prepare_allocator(case, part_of(scheduler, "_cache"))
        for key, shape in case.shapes.items():
            scheduler.update_state_after_alloc(_request(key, shape), 0)
        saves: dict[str, list[int]] = scheduler.build_connector_meta(None).saves
    skipped = [key for key in case.shapes if key not in saves]
    if skipped:
        raise EcbenchError(f"{case.case_id}: vLLM gives no room to {', '.join(skipped)}: use fewer images")
    return saves


def _request(key: str, shape: tuple[int, int]) -> Any:
    """What the scheduler reads of a request with one image."""
    position = SimpleNamespace(offset=0, length=shape[0], get_num_embeds=lambda: shape[0])
    feature = SimpleNamespace(identifier=key, modality=MODALITY, mm_position=position)
    return SimpleNamespace(request_id=key, mm_features=[feature])
