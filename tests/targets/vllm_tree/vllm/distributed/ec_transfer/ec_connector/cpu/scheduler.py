"""Gives blocks to entries."""

from ecbench.encoder_cache.cache import EmbeddingCache
from vllm.distributed.ec_transfer.ec_connector.cpu.common import ECCPUConnectorMetadata, Region


class ECCPUScheduler:
    def __init__(self, config):
        self._config = config
        self._region = Region(config)
        self._cache = EmbeddingCache(self._region.num_blocks)
        self._saves = {}

    def update_state_after_alloc(self, request, index):
        feature = request.mm_features[index]
        width = self._config.ec_transfer_config.mm_encoder_output_widths[feature.modality]
        nbytes = feature.mm_position.get_num_embeds() * width * self._config.model_config.dtype.itemsize
        blocks = self._cache.alloc(feature.identifier, -(-nbytes // self._region.block_size_bytes))
        if blocks is not None:
            self._saves[feature.identifier] = list(blocks)

    def build_connector_meta(self, _):
        return ECCPUConnectorMetadata(saves=self._saves)

    def shutdown(self):
        self._region.cleanup()
