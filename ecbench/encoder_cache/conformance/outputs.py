"""The small regions and encoder outputs that checks work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

ROW_ELEMENTS = 8
"""Elements of one block of the small regions that most checks use."""
MODEL_DTYPE = torch.bfloat16
BLOCK_BYTES = ROW_ELEMENTS * MODEL_DTYPE.itemsize
REGION_BLOCKS = 16
PAD = 0x6E
"""What regions are filled with before a check writes to them; fits int8."""


def as_output(content: bytes, dtype: torch.dtype = MODEL_DTYPE) -> Tensor:
    """Bytes as an encoder output of one row, in host memory."""
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    return flat.view(dtype).view(1, -1)


def bytes_of(host: Tensor) -> bytes:
    """The bytes of a contiguous host tensor."""
    return host.reshape(-1).view(torch.uint8).numpy().tobytes()


def one_row(nbytes: int) -> tuple[int, int]:
    """Shape of an output of one row in `MODEL_DTYPE`."""
    return (1, nbytes // MODEL_DTYPE.itemsize)
