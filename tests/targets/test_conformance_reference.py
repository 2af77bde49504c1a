"""The reference's adapter where the suite itself does not look."""

from __future__ import annotations

import pytest
import torch

from ecbench.core.conformance_protocols import ConnectorSpec
from ecbench.targets.held_copies import HeldEvent, HeldWork
from ecbench.targets.reference_conformance import ReferenceConformance


def spec(**changes):
    return ConnectorSpec(**{"name": "x", "capacity": 256, "row_elements": 8, "dtype": torch.bfloat16, **changes})


@pytest.fixture
def target():
    return ReferenceConformance()


@pytest.mark.parametrize("holds", [False, True])
def test_unsigned_addresses_are_those_of_the_emulated_xpu(target, holds):
    worker = target.worker(spec(unsigned_addresses=True, holds_copies=holds))
    output = torch.arange(8, dtype=torch.bfloat16).view(1, 8)
    there = worker.to_device(output)
    assert there.data_ptr() >= 2**63
    worker.begin_step({"a": [3]}, {})
    worker.save("a", there)
    worker.flush()
    worker.run_copies()
    assert worker.poll().saved == ("a",)
    assert worker.batches()[0][0].source == there.data_ptr()
    assert torch.equal(worker.blocks[3].view(torch.bfloat16), output[0])
    assert torch.equal(worker.to_host(there), output)
    worker.shutdown()


def test_a_worker_of_a_known_name_shares_its_region(target):
    first, second = target.worker(spec()), target.worker(spec())
    first.blocks[2].fill_(7)
    assert (second.blocks[2] == 7).all()
    second.shutdown()
    first.shutdown()


def test_a_capacity_is_bytes_or_a_text_with_a_unit(target):
    worker = target.worker(spec(capacity="1KiB"))
    assert worker.blocks.shape == (64, 16)
    worker.shutdown()


def test_held_work_runs_once_in_order_and_can_be_forgotten():
    work, done = HeldWork(), []
    event = HeldEvent(work)
    work.add(lambda: done.append(1))
    event.record(None)
    assert not event.query()
    work.run()
    assert (done, event.query()) == ([1], True)
    work.add(lambda: done.append(2))
    work.discard()
    work.run()
    assert done == [1]


def test_a_lost_device_is_told_by_whoever_waits():
    work = HeldWork()
    work.lost = True
    for wait in (HeldEvent(work).query, HeldEvent(work).synchronize):
        with pytest.raises(RuntimeError, match="the device was lost"):
            wait()
