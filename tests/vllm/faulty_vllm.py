"""The real vLLM with faults put in: the suite must find them, or its checks say nothing of the real one."""

from __future__ import annotations

from ecbench.targets.vllm.conformance import VllmConformance
from ecbench.targets.vllm.conformance_worker import VllmWorker


class ForgetsToRecord(VllmConformance):
    """Its tensors are never recorded on the stream that uses them."""

    def worker(self, spec):
        made = super().worker
        before = VllmWorker._hold_memory
        VllmWorker._hold_memory = lambda worker: None
        try:
            return made(spec)
        finally:
            VllmWorker._hold_memory = before


class ReusesBuffers(VllmConformance):
    """Its pool hands out the same buffers while they are in use."""

    def worker(self, spec):
        worker = super().worker(spec)
        pool = worker._worker._buf_pool
        buffers = pool.acquire(1024)
        pool.acquire = lambda n: buffers
        return worker
