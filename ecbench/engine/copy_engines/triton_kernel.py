"""A kernel that reads and writes pinned host memory itself: no driver call per block, but some of the GPU is busy."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ecbench.core.descriptors import Direction, PreparedCopy
from ecbench.core.errors import CopyRefusedError
from ecbench.engine.devices.accelerator import require_accelerator

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import Device, Stream

    Launch = Callable[[Tensor, Tensor, Tensor, int], None]

KERNEL_MODULE = "ecbench.engine.copy_engines.triton_source"
WORD_BYTES = 8
PROGRAMS = 128
"""Programs of a launch: about as many as a large GPU has multiprocessors, so that compute keeps most of its slots."""


def why_unavailable() -> str | None:
    """Why the engine cannot run on an NVIDIA or AMD GPU here; None where it can."""
    return None if find_spec("triton") else "triton is not installed: pip install 'ecbench[triton]'"


def launch_kernel(sources: Tensor, destinations: Tensor, sizes: Tensor, programs: int) -> None:
    """Launches the kernel on the current stream; the three tensors are int64 on the device."""
    source: Any = import_module(KERNEL_MODULE)
    source.copy_words[programs,](sources, destinations, sizes, len(sizes), WORDS=source.WORDS_PER_STEP)


class TritonEngine:
    """One kernel launch for a whole batch.

    Args:
        device: An NVIDIA or AMD GPU.
        launch: Starts the kernel.
    """

    name = "triton"

    def __init__(self, device: Device, launch: Launch = launch_kernel) -> None:
        self._device = require_accelerator(device, self.name)
        self._launch = launch

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Checks what a kernel can reach and how.

        Raises:
            CopyRefusedError: A size or an address that is no multiple of 8, or host memory that is not pinned.
        """
        refuse_odd_words(batch)
        self._refuse_pageable(batch)
        # One array, so that one upload carries all three columns. The kernel needs signed words of the same bits.
        columns = [column.view(torch.int64) for column in (batch.sources, batch.destinations, batch.sizes)]
        table = torch.stack(columns)

        def run(stream: Stream) -> None:
            with stream:
                sources, destinations, sizes = self._device.upload(table)
                self._launch(sources, destinations, sizes, min(PROGRAMS, len(batch)))

        return PreparedCopy(self.name, threads=0, run=run)

    def _refuse_pageable(self, batch: DescriptorBatch) -> None:
        to_host = batch.direction is Direction.TO_HOST
        for tensor in batch.destination_tensors if to_host else batch.source_tensors:
            if not self._device.is_pinned(tensor.data_ptr(), tensor.nbytes):
                raise CopyRefusedError(
                    f"engine triton: host memory is not pinned ({self._device.pinning}), a kernel would fault on it: "
                    "use --pinned, or --engine staged"
                )


def refuse_odd_words(batch: DescriptorBatch) -> None:
    """Refuses what whole 64-bit words cannot copy.

    Raises:
        CopyRefusedError: Names the first such descriptor.
    """
    columns = (batch.sources, batch.destinations, batch.sizes)
    bits = np.bitwise_or.reduce([column.numpy().view(np.uint64) for column in columns])
    odd = bits % np.uint64(WORD_BYTES) != 0
    if odd.any():
        index = int(odd.argmax())
        raise CopyRefusedError(
            f"engine triton: descriptor {index} ({int(batch.sizes[index])} bytes) is not made of whole aligned 8-byte "
            "words: use --engine staged or per-copy"
        )
