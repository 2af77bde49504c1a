"""Host slots of a job."""

from tests.targets.fake_vllm_kv import NAMES

CPULoadStoreSpec = NAMES["CPULoadStoreSpec"]
