"""The worker."""

from tests.targets.fake_vllm_kv import FakeWorker

PIN_MEMORY = True


class CPUOffloadingWorker(FakeWorker):
    """As it is."""
