"""What scheduler and worker share: the orders of a step, and the region."""

import mmap
import os
from dataclasses import dataclass, field

import torch


@dataclass
class ECCPUConnectorMetadata:
    saves: dict = field(default_factory=dict)
    loads: dict = field(default_factory=dict)


class Region:
    """A named file that whoever comes first creates and removes."""

    def __init__(self, config):
        hidden, dtype = config.model_config.get_inputs_embeds_size(), config.model_config.dtype
        self.block_size_bytes = hidden * dtype.itemsize
        nbytes = config.ec_transfer_config.ec_connector_extra_config["ec_cpu_bytes"]
        self.num_blocks = nbytes // self.block_size_bytes
        self.path = f"/dev/shm/vllm_ec_{config.instance_id}_dp{config.parallel_config.data_parallel_index}.mmap"
        file = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
        os.ftruncate(file, nbytes)
        self.blocks = torch.frombuffer(mmap.mmap(file, nbytes), dtype=torch.int8).view(self.num_blocks, -1)
        os.close(file)
        self._is_pinned = False

    def cleanup(self):
        self.blocks = None
