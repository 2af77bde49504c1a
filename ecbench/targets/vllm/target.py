"""The installed vLLM's connectors as a target."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import torch

from ecbench.core.errors import EcbenchError, UnavailableError
from ecbench.engine.registry import AUTO
from ecbench.targets.vllm.encoder_cache import VllmBlockCopies, VllmEncoderCacheSession
from ecbench.targets.vllm.installation import load_vllm
from ecbench.targets.vllm.kv_layout import region_bytes
from ecbench.targets.vllm.stand_ins import install_stand_ins
from ecbench.transfer.writers import DEFAULT_WRITER

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ecbench.core.protocols import Device, KvOffloadSession
    from ecbench.encoder_cache.workloads.scenario import EncoderCacheCase
    from ecbench.kv_offload.placement import PlacedTransfers
    from ecbench.kv_offload.transfers import KvMemory

NAME = "vllm"
_HOST = "cpu"


class VllmTarget:
    """vLLM's own workers, with the copies and descriptors that vLLM chooses.

    Args:
        version: What is installed.
        on_host: vLLM runs on a CPU here.
        stand_ins: What is replaced from the start, in words.
    """

    name = NAME
    engine = NAME
    writer = NAME

    def __init__(self, version: str, *, on_host: bool, stand_ins: tuple[str, ...]) -> None:
        self.version = version
        self._on_host = on_host
        self._stand_ins = dict.fromkeys(stand_ins)

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """What is replaced, in words; opening a KV worker may add to it."""
        return tuple(self._stand_ins)

    def refuse(self, case_id: str, *, coalesce: bool) -> None:
        """Refuses a case that asks for one descriptor per block.

        Raises:
            EcbenchError: It does.
        """
        if not coalesce:
            raise EcbenchError(
                f"{case_id}: target vllm decides itself which blocks share a descriptor: leave out --no-coalesce, and "
                "coalesce = false in the scenario"
            )

    def own_load_bytes(self, loaded_bytes: int) -> int:
        """On an accelerator, vLLM allocates what it loads into."""
        return 0 if self._on_host else loaded_bytes

    def kv_region_bytes(self, memory: KvMemory) -> int:
        """All slots, which are larger than the reference's where groups have tensors of their own."""
        return region_bytes(memory)

    def open_encoder_cache(
        self, case: EncoderCacheCase, *, device: Device, allocate: Callable[[int], Tensor]
    ) -> VllmEncoderCacheSession:
        """Opens the encoder-cache connector.

        Raises:
            EcbenchError: The case asks for one descriptor per block.
            DoesNotFitError: vLLM cannot create its region.
        """
        self.refuse(case.case_id, coalesce=case.scenario.coalesce)
        return VllmEncoderCacheSession(case, device=device, allocate=allocate, version=self.version)

    def open_kv_offload(
        self, placed: PlacedTransfers, caches: Tensor, *, device: Device, coalesce: bool
    ) -> KvOffloadSession:
        """Opens the KV offload worker.

        Raises:
            EcbenchError: Something the worker leaves to nobody, or a layout that it does not know.
        """
        self.refuse("this request", coalesce=coalesce)
        # Only here: it imports much more of vLLM than the encoder cache needs.
        session = import_module("ecbench.targets.vllm.kv_offload").VllmKvSession(placed, caches, device=device)
        self._stand_ins.update(dict.fromkeys(session.stand_ins))
        opened: KvOffloadSession = session
        return opened

    def open_blocks(self, block_bytes: int, blocks: int, *, device: Device) -> VllmBlockCopies:
        """Opens the encoder-cache worker alone.

        Raises:
            DoesNotFitError: The region does not fit /dev/shm.
        """
        return VllmBlockCopies(block_bytes, blocks, device=device, version=self.version)


def open_vllm(device: Device, engine: str, writer: str) -> VllmTarget:
    """Imports vLLM and checks that it runs on the device.

    Args:
        device: What it is to run on.
        engine: ``auto``: vLLM moves bytes its own way.
        writer: The default: vLLM writes descriptors its own way.

    Raises:
        EcbenchError: An engine or a writer was asked for.
        UnavailableError: vLLM is absent, of an unknown release, cannot be imported, or runs on something else.
    """
    if engine != AUTO:
        raise EcbenchError(f"target vllm moves bytes with its own operator: leave out --engine {engine}")
    if writer != DEFAULT_WRITER:
        raise EcbenchError(f"target vllm writes its descriptors itself: leave out --writer {writer}")
    installation = load_vllm()
    runs_on = installation.device_type or _HOST
    base, _, index = device.name.partition(":")
    if base != runs_on:
        raise UnavailableError(
            f"target vllm: vLLM {installation.version} runs on {runs_on} here, not on {device.name}: use --device "
            f"{runs_on}, or install vLLM for {base}"
        )
    if index:
        torch.accelerator.set_device_index(int(index))  # vLLM takes the current one
    return VllmTarget(
        installation.version,
        on_host=runs_on == _HOST,
        stand_ins=install_stand_ins(installation.device_type),
    )
