"""A copy engine that is slower than another by a known share, to see whether that is found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ecbench.core.descriptors import PreparedCopy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecbench.core.descriptors import DescriptorBatch, Direction
    from ecbench.core.protocols import CopyEngine, Stream


class DelayingEngine:
    """Copies as another engine does, waits until the bytes have moved, and goes on for a share of that time.

    It waits for the copy also where the share is 0, so that two of them differ in nothing but the delay.

    Args:
        inner: Copies.
        shares: Delay by direction, as a share of the time that preparing and copying take; none where it is missing.
    """

    def __init__(self, inner: CopyEngine, shares: Mapping[Direction, float]) -> None:
        self._inner = inner
        self._shares = shares

    @property
    def name(self) -> str:
        """The other engine's name: it is what runs."""
        return self._inner.name

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Prepares the batch with the other engine.

        Raises:
            CopyRefusedError: That engine refuses it.
        """
        began = time.perf_counter()
        prepared = self._inner.prepare(batch)
        prepare_s = time.perf_counter() - began
        share = self._shares.get(batch.direction, 0.0)

        def run(stream: Stream) -> None:
            began = time.perf_counter()
            prepared.run(stream)
            stream.synchronize()
            copied = time.perf_counter()
            # A busy wait: a sleep would hand the core to somebody else, which no slower copy does.
            until = copied + share * (prepare_s + copied - began)
            while time.perf_counter() < until:
                pass

        return PreparedCopy(prepared.engine, prepared.threads, run, prepared.notes)
