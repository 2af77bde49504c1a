"""One torch copy per descriptor: slow, and portable to everything torch runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ecbench.core.descriptors import PreparedCopy
from ecbench.core.errors import CopyRefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import Stream


class PerCopyEngine:
    """``destination.copy_(source, non_blocking=True)`` for each descriptor."""

    name = "per-copy"

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Finds the piece of a tensor behind each address.

        Raises:
            CopyRefusedError: An address that lies in none of the batch's tensors.
        """
        sizes = batch.sizes.numpy().view(np.uint64).astype(np.int64)
        sources = _pieces(batch.sources, sizes, batch.source_tensors)
        destinations = _pieces(batch.destinations, sizes, batch.destination_tensors)
        pairs = list(zip(destinations, sources, strict=True))

        def run(_: Stream) -> None:
            for destination, source in pairs:
                destination.copy_(source, non_blocking=True)

        return PreparedCopy(self.name, threads=torch.get_num_threads(), run=run)


def _pieces(column: Tensor, sizes: NDArray[np.int64], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    flat = sorted((tensor.view(-1).view(torch.uint8) for tensor in tensors), key=lambda tensor: tensor.data_ptr())
    starts = np.array([tensor.data_ptr() for tensor in flat], dtype=np.uint64)
    addresses = column.numpy().view(np.uint64)
    owners = np.searchsorted(starts, addresses, side="right") - 1
    pieces = []
    for address, size, owner in zip(addresses.tolist(), sizes.tolist(), owners.tolist(), strict=True):
        offset = address - int(starts[owner]) if owner >= 0 else -1
        if owner < 0 or offset + size > flat[owner].nbytes:
            raise CopyRefusedError(
                f"engine per-copy: a descriptor of {size} bytes points outside the tensors of its batch: "
                "pass every tensor that addresses point into"
            )
        pieces.append(flat[owner][offset : offset + size])
    return pieces
