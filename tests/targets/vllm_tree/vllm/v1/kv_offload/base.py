"""What a job names, and how a worker is told of caches."""

from tests.targets.fake_vllm_kv import NAMES

GPULoadStoreSpec = NAMES["GPULoadStoreSpec"]
CanonicalKVCacheTensor = NAMES["CanonicalKVCacheTensor"]
CanonicalKVCacheRef = NAMES["CanonicalKVCacheRef"]
CanonicalKVCaches = NAMES["CanonicalKVCaches"]
