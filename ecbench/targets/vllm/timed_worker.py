"""vLLM's encoder-cache worker with a clock around its calls; nothing of it is replaced."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ecbench.core.descriptors import CopyTimes
from ecbench.core.errors import CopyRefusedError
from ecbench.targets.vllm.installation import part_of
from ecbench.targets.vllm.stand_ins import HostCopies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

_ENGINE = "vllm"
_SUBMIT = "_submit_transfer"
_HOST_THREADS = 1
"""Of the stand-in that copies on a CPU."""


@dataclass(frozen=True)
class _Submission:
    """One batch that the worker handed over.

    Args:
        descriptors: Copies in it.
        began_s: When.
        moved_s: Seconds that bytes moved inside the call; 0 where the device moves them later.
    """

    descriptors: int
    began_s: float
    moved_s: float


class TimedWorker:
    """Runs steps of a worker and says how long their parts took.

    Args:
        worker: vLLM's; its ``_submit_transfer`` is called through a clock from here on.
        on_host: Copies run inside the submitting call.

    Raises:
        UnavailableError: A worker without such a method.
    """

    def __init__(self, worker: Any, *, on_host: bool) -> None:
        self._worker = worker
        self._on_host = on_host
        self._submit = part_of(worker, _SUBMIT)
        self._saves = part_of(worker, "_inflight_saves")
        self._loads = part_of(worker, "_inflight_loads")
        self._submissions: list[_Submission] = []
        setattr(worker, _SUBMIT, self._submit_under_the_clock)

    def _submit_under_the_clock(self, arrays: Any, count: int, *rest: Any, **named: Any) -> None:
        moved_before_s, began_s = HostCopies.moved_s, time.perf_counter()
        self._submit(arrays, count, *rest, **named)
        self._submissions.append(_Submission(count, began_s, HostCopies.moved_s - moved_before_s))

    def save(self, outputs: Mapping[str, Tensor], metadata: Any) -> CopyTimes:
        """Saves all outputs in one step; fill is what the calls per entry take.

        Args:
            outputs: Encoder outputs by entry.
            metadata: vLLM's, with their blocks.

        Raises:
            CopyRefusedError: Not every entry was reported as saved.
        """
        self._submissions.clear()
        began_s = time.perf_counter()
        for key in outputs:
            self._worker.save_caches(outputs, key, metadata)
        filled_s = time.perf_counter()
        self._worker.flush_saves()
        returned_s = time.perf_counter()
        copy_s, report = self._wait(self._saves)
        total_s = time.perf_counter() - began_s
        _refuse_unreported("saved", outputs, report.completed_saves)
        return self._times(total_s, filled_s - began_s, returned_s - filled_s, copy_s)

    def load(self, metadata: Any) -> tuple[dict[str, Tensor], CopyTimes]:
        """Loads all entries in one step; fill is what comes before the batch is handed over, its buffer included.

        Args:
            metadata: vLLM's, with their blocks.

        Returns:
            The entries as vLLM hands them out, and the times.

        Raises:
            CopyRefusedError: Not every entry was reported as loaded.
        """
        self._submissions.clear()
        loaded: dict[str, Tensor] = {}
        began_s = time.perf_counter()
        self._worker.start_load_caches(loaded, metadata)
        returned_s = time.perf_counter()
        copy_s, report = self._wait(self._loads)
        total_s = time.perf_counter() - began_s
        expected = {transfer_id: key for key, (transfer_id, *_) in metadata.loads.items()}
        _refuse_unreported("loaded", expected.values(), [expected.get(done, done) for done in report.completed_loads])
        submitted_s = self._submissions[0].began_s
        return loaded, self._times(total_s, submitted_s - began_s, returned_s - submitted_s, copy_s)

    def _wait(self, in_flight: Any) -> tuple[float, Any]:
        """Waits for the newest transfer; its seconds by the device's events, and what the worker reports."""
        if not in_flight:
            raise CopyRefusedError("vLLM queued no copy")
        transfer = in_flight[-1]
        transfer.end_event.synchronize()
        copy_s = transfer.start_event.elapsed_time(transfer.end_event) * 1e-3
        return copy_s, self._worker.build_connector_worker_meta()

    def _times(self, total_s: float, fill_s: float, submit_s: float, copy_s: float) -> CopyTimes:
        moved_s = sum(submission.moved_s for submission in self._submissions)
        return CopyTimes(
            total_s=total_s,
            fill_s=fill_s,
            submit_s=submit_s - moved_s,
            copy_s=moved_s if self._on_host else copy_s,
            descriptors=sum(submission.descriptors for submission in self._submissions),
            engine=_ENGINE,
            threads=_HOST_THREADS if self._on_host else 0,
        )


def _refuse_unreported(done: str, expected: Any, reported: Any) -> None:
    missing = [str(key) for key in expected if key not in set(reported)]
    if missing:
        raise CopyRefusedError(f"vLLM did not report as {done}: {', '.join(missing)}")
