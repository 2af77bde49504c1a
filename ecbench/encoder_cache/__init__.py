"""The reference encoder-cache connector: region, allocator, worker and scheduler."""

from ecbench.encoder_cache.blocks import BlockIds, coalesce
from ecbench.encoder_cache.cache import EmbeddingCache

__all__ = ["BlockIds", "EmbeddingCache", "coalesce"]
