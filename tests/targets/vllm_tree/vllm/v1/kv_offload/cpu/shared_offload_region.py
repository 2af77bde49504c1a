"""The region."""

from tests.targets.fake_vllm_kv import FakeRegion


class SharedOffloadRegion(FakeRegion):
    """As it is."""
