"""One torch copy per descriptor: slow, and portable to everything torch runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ecbench.core.descriptors import PreparedCopy
from ecbench.engine.copy_engines.pieces import locate

if TYPE_CHECKING:
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
        sources = locate(batch.sources, batch.sizes, batch.source_tensors, self.name)
        destinations = locate(batch.destinations, batch.sizes, batch.destination_tensors, self.name)
        pairs = list(zip(destinations.pieces(), sources.pieces(), strict=True))

        def run(stream: Stream) -> None:
            with stream:
                for destination, source in pairs:
                    destination.copy_(source, non_blocking=True)

        host_threads = torch.get_num_threads() if sources.on_host and destinations.on_host else 0
        return PreparedCopy(self.name, threads=host_threads, run=run)
