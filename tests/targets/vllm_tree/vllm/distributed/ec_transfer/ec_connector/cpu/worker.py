"""Moves entries block by block, one descriptor each."""

from types import SimpleNamespace

import torch

from vllm._custom_ops import swap_blocks_batch
from vllm.distributed.ec_transfer.ec_connector.cpu.common import Region


def get_tensor_model_parallel_rank():
    raise AssertionError("there are no groups")


def get_pcp_group():
    raise AssertionError("there are no groups")


class ECCPUWorker:
    def __init__(self, config):
        assert get_tensor_model_parallel_rank() == get_pcp_group().rank_in_group == 0
        self._region = Region(config)
        self._dtype = config.model_config.dtype
        self._filled = []
        self._inflight_saves, self._inflight_loads = [], []

    def save_caches(self, outputs, key, metadata):
        source, size = outputs[key], self._region.block_size_bytes
        source.record_stream(None)
        self._filled += [
            (source.data_ptr() + slot * size, self._region.blocks[block].data_ptr(), size, key)
            for slot, block in enumerate(metadata.saves[key])
        ]

    def flush_saves(self):
        done = list(dict.fromkeys(key for *_, key in self._filled))
        self._transfer([copy[:3] for copy in self._filled], done, self._inflight_saves, "save")
        self._filled = []

    def start_load_caches(self, loaded, metadata):
        size = self._region.block_size_bytes
        items = sorted(metadata.loads.items(), key=lambda item: item[1][1][0])
        blocks = [block for _, (_, ids, _) in items for block in ids]
        buffer = torch.empty(len(blocks), size, dtype=torch.int8, device="cpu")
        copies = [(self._region.blocks[b].data_ptr(), buffer[slot].data_ptr(), size) for slot, b in enumerate(blocks)]
        self._transfer(copies, [number for _, (number, _, _) in items], self._inflight_loads, "load")
        begin = 0
        for key, (_, ids, shape) in items:
            loaded[key] = buffer[begin : begin + len(ids)].view(self._dtype).reshape(-1).view(shape)
            begin += len(ids)

    def _transfer(self, copies, done, in_flight, direction):
        arrays = tuple(torch.tensor(column, dtype=torch.int64) for column in zip(*copies, strict=True))
        start, end = torch.Event(enable_timing=True), torch.Event(enable_timing=True)
        start.record(None)
        self._submit_transfer(arrays, len(copies), direction)
        end.record(None)
        in_flight.append(SimpleNamespace(start_event=start, end_event=end, done=done))

    def _submit_transfer(self, arrays, count, direction):
        swap_blocks_batch(*(column[:count] for column in arrays), direction == "load")

    def build_connector_worker_meta(self):
        saves = [key for transfer in self._inflight_saves for key in transfer.done]
        loads = [number for transfer in self._inflight_loads for number in transfer.done]
        self._inflight_saves.clear()
        self._inflight_loads.clear()
        return SimpleNamespace(completed_saves=saves, completed_loads=loads)

    def shutdown(self):
        self._region.cleanup()
