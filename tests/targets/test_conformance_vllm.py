"""The adapter of vLLM's connector, with something that has its shape in the place of vLLM."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from ecbench.core.conformance_protocols import ConnectorSpec, Descriptor, Finished, Load, NotApplicableError
from ecbench.core.errors import UnavailableError
from ecbench.encoder_cache.conformance.completeness import refuse_incomplete
from ecbench.targets.vllm import conformance, conformance_worker
from ecbench.targets.vllm.installation import VllmInstallation
from ecbench.targets.vllm.stand_ins import WORKER_MODULE

CONNECTOR = "vllm.distributed.ec_transfer.ec_connector.cpu"


class FakeCache:
    def __init__(self, num_blocks):
        self.entries = {}

    def alloc(self, key, n_blocks, shape=None):
        if n_blocks > 2:
            return None
        self.entries[key] = SimpleNamespace(block_ids=tuple(range(n_blocks)), ready=False)
        return self.entries[key]

    def get(self, key):
        return self.entries.get(key)


class FakeScheduler:
    def __init__(self, config):
        self.config = config
        self.reports = []
        self.saves, self.loads = {}, {}

    def update_state_after_alloc(self, request, index):
        feature = request.mm_features[index]
        rows = feature.mm_position.get_num_embeds()
        self.saves[feature.identifier] = list(range(rows))
        self.loads[feature.identifier] = (17, [3], (rows, 8))

    def build_connector_meta(self, scheduler_output):
        return SimpleNamespace(saves=self.saves, loads=self.loads)

    def update_connector_output(self, connector_output):
        self.reports.append(connector_output.ec_connector_worker_meta)

    def shutdown(self):
        pass


class FakeWorker:
    def __init__(self, config):
        module = sys.modules[WORKER_MODULE]
        self.ranks = (module.get_tensor_model_parallel_rank(), module.get_pcp_group().rank_in_group)
        self._region = SimpleNamespace(blocks=torch.zeros(4, 16, dtype=torch.int8), _is_pinned=False)
        self.submitted = []
        self.events = []

    def save_caches(self, encoder_cache, mm_hash, connector_metadata):
        encoder_cache[mm_hash].record_stream(None)

    def start_load_caches(self, encoder_cache, connector_metadata):
        for key in connector_metadata.loads:
            encoder_cache[key] = torch.ones(1, 8)

    def flush_saves(self):
        columns = [np.array([number, 0], dtype=np.uint64) for number in (2**63, 64, 16)]
        buffers = SimpleNamespace(src_np=columns[0], dst_np=columns[1], sizes_np=columns[2])
        self._submit_transfer(buffers, 1, "out")
        self.events.append(self._acquire_event())
        self.events[-1].record(None)

    def build_connector_worker_meta(self):
        done = self.events and self.events[0].query()
        return SimpleNamespace(completed_saves=["a"], completed_loads=[17]) if done else None

    def _submit_transfer(self, bufs, count, direction):
        self.submitted.append(count)

    def _acquire_event(self):
        return SimpleNamespace(record=lambda stream: None, query=lambda: True)

    def shutdown(self):
        pass


@pytest.fixture
def fakes(monkeypatch):
    """The names that the adapter takes from vLLM."""
    module = ModuleType(WORKER_MODULE)
    module.get_tensor_model_parallel_rank = lambda: 0
    module.get_pcp_group = lambda: SimpleNamespace(rank_in_group=0)
    monkeypatch.setitem(sys.modules, WORKER_MODULE, module)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    names = {
        (f"{CONNECTOR}.scheduler.embedding_cache", "EmbeddingCache"): FakeCache,
        (f"{CONNECTOR}.scheduler", "ECCPUScheduler"): FakeScheduler,
        (f"{CONNECTOR}.common", "ECCPUConnectorMetadata"): SimpleNamespace,
        (f"{CONNECTOR}.common", "ECCPUWorkerMetadata"): SimpleNamespace,
        (WORKER_MODULE, "ECCPUWorker"): FakeWorker,
        (WORKER_MODULE, "get_tensor_model_parallel_rank"): module.get_tensor_model_parallel_rank,
        (WORKER_MODULE, "get_pcp_group"): module.get_pcp_group,
    }
    for user in (conformance, conformance_worker):
        monkeypatch.setattr(user, "find", lambda module, name: names[module, name])
    monkeypatch.setattr(conformance, "load_vllm", lambda: VllmInstallation("0.32.9", "cpu"))
    monkeypatch.setattr(conformance, "install_stand_ins", lambda device_type: ("an event",))
    monkeypatch.setattr(
        conformance,
        "encoder_cache_config",
        lambda name, **fields: SimpleNamespace(name=name, parallel_config=SimpleNamespace(), **fields),
    )
    return names


def spec(**changes):
    return ConnectorSpec(**{"name": "x", "capacity": "1GiB", "row_elements": 8, "dtype": torch.bfloat16, **changes})


def test_the_adapter_is_whole_and_names_what_is_replaced(fakes):
    target = conformance.VllmConformance()
    refuse_incomplete(target)
    assert (target.version, target.device) == ("vLLM 0.32.9", "cpu")
    assert target.stand_ins == ("an event", conformance_worker.HELD)
    assert target.files("n") == ("/dev/shm/vllm_ec_n.mmap", "/dev/shm/vllm_ec_n_dp0.mmap")


def test_an_allocation_is_plain_lists(fakes):
    allocator = conformance.VllmConformance().allocator(4)
    assert allocator.alloc("a", 2) == [0, 1]
    assert allocator.alloc("b", 3) is None
    assert (allocator.holds("a"), allocator.holds("b"), allocator.is_ready("a")) == (True, False, False)


def test_a_step_goes_through_the_schedulers_own_calls(fakes):
    scheduler = conformance.VllmConformance().scheduler(spec(participants=3))
    plan = scheduler.plan_step({"a": 2})
    assert plan == ({"a": [0, 1]}, {"a": Load(17, [3])})
    scheduler.report(2, Finished(saved=("a",), loaded=(17,)))
    (report,) = scheduler._scheduler.reports
    assert (report.completed_saves, report.completed_loads) == (["a"], [17])
    assert scheduler._scheduler.config.parallel_config.tensor_parallel_size == 3
    assert scheduler._scheduler.config.region_bytes == "1GiB"


def test_a_worker_gets_its_ranks_and_gives_them_back(fakes):
    worker = conformance.VllmConformance().worker(spec(tensor_rank=1, context_rank=2))
    assert worker._worker.ranks == (1, 2)
    assert sys.modules[WORKER_MODULE].get_tensor_model_parallel_rank() == 0


def test_batches_are_seen_as_they_are_submitted(fakes):
    worker = conformance.VllmConformance().worker(spec())
    worker.flush()
    assert worker.batches() == [[Descriptor(2**63, 64, 16)]]
    assert worker._worker.submitted == [1]
    assert worker.poll() == Finished(("a",), (17,))
    assert [column[0] for column in worker.descriptor_arrays()] == [2**63, 64, 16]


def test_held_copies_and_recorded_memory_wait(fakes):
    worker = conformance.VllmConformance().worker(spec(holds_copies=True))
    worker.begin_step({"a": [0]}, {})
    worker.save("a", worker.to_device(torch.ones(1, 8)))
    worker.flush()
    assert worker._worker.submitted == []
    assert worker.poll() == Finished()
    worker.run_copies()
    assert worker._worker.submitted == [1]
    assert worker.poll().saved == ("a",)


def test_a_load_gives_what_was_asked_for(fakes):
    worker = conformance.VllmConformance().worker(spec())
    worker.begin_step({}, {"a": (Load(17, [1]), (1, 8))})
    assert set(worker.load({"b": torch.zeros(1, 8)})) == {"a"}


@pytest.mark.parametrize("wanted", ["holds_copies", "unsigned_addresses"])
def test_a_real_device_cannot_be_arranged(fakes, wanted):
    config = SimpleNamespace()
    with pytest.raises(NotApplicableError, match="real cuda device"):
        conformance_worker.VllmWorker(spec(**{wanted: True}), config, "cuda")


def test_a_release_with_another_signature_is_not_available(fakes):
    class Other(FakeWorker):
        def _submit_transfer(self, bufs, count, direction, priority):
            raise NotImplementedError

    fakes[WORKER_MODULE, "ECCPUWorker"] = Other
    with pytest.raises(UnavailableError, match=r"ECCPUWorker\._submit_transfer\(self, bufs, count, dir"):
        conformance.VllmConformance()


def test_a_release_without_a_method_is_not_available(fakes):
    fakes[f"{CONNECTOR}.scheduler", "ECCPUScheduler"] = object
    with pytest.raises(UnavailableError, match="no update_state_after_alloc"):
        conformance.VllmConformance()
