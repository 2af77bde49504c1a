"""Steps of a worker, and what must hold after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.conformance_protocols import Load
from ecbench.encoder_cache.conformance.definitions import require, require_bytes
from ecbench.encoder_cache.conformance.outputs import BLOCK_BYTES, PAD, bytes_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from ecbench.core.conformance_protocols import ConformanceWorker

_PAD_BLOCK = bytes([PAD]) * BLOCK_BYTES


def stored_bytes(worker: ConformanceWorker, block_ids: Sequence[int]) -> bytes:
    """What blocks of the region hold, one after the other."""
    return b"".join(bytes_of(worker.blocks[block]) for block in block_ids)


def require_untouched(worker: ConformanceWorker, block_ids: Sequence[int]) -> None:
    """States that every other block still holds `PAD`.

    Raises:
        CheckFailedError: One does not.
    """
    others = [block for block in range(worker.blocks.shape[0]) if block not in set(block_ids)]
    changed = [block for block in others if stored_bytes(worker, [block]) != _PAD_BLOCK]
    require(not changed, f"blocks {changed} were written although only {list(block_ids)} were given")


def require_stored(worker: ConformanceWorker, block_ids: Sequence[int], content: bytes) -> None:
    """States that blocks hold an output and, behind it, what they held before.

    Raises:
        CheckFailedError: They do not.
    """
    padding = bytes([PAD]) * (len(block_ids) * BLOCK_BYTES - len(content))
    require_bytes(stored_bytes(worker, block_ids), content + padding, f"blocks {list(block_ids)}")


def save_step(worker: ConformanceWorker, entries: Mapping[str, tuple[Tensor, Sequence[int]]]) -> None:
    """One step that saves outputs, given with their blocks."""
    worker.begin_step({key: list(ids) for key, (_, ids) in entries.items()}, {})
    for key, (output, _) in entries.items():
        worker.save(key, output)
    worker.flush()


def load_step(
    worker: ConformanceWorker,
    entries: Mapping[str, tuple[Sequence[int], tuple[int, int]]],
    resident: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """One step that loads entries, given by their blocks and shapes; the ticket is the place in the mapping."""
    loads = {key: (Load(ticket, list(ids)), shape) for ticket, (key, (ids, shape)) in enumerate(entries.items())}
    worker.begin_step({}, loads)
    views = worker.load(resident or {})
    worker.flush()
    return views


def require_saved(worker: ConformanceWorker, keys: Sequence[str]) -> None:
    """Lets copies run and states which saves are reported.

    Raises:
        CheckFailedError: Others are.
    """
    worker.run_copies()
    saved = sorted(worker.poll().saved)
    require(saved == sorted(keys), f"reported as saved: {saved}, saves of the step: {sorted(keys)}")
