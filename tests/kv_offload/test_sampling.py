from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.errors import DoesNotFitError, EcbenchError
from ecbench.kv_offload import OffloadSettings, load_model, look_up, plan_load, plan_store
from ecbench.kv_offload.device_blocks import KvLayout
from ecbench.kv_offload.placement import BlockOrder, place_transfers
from ecbench.kv_offload.sampling import memory_of_everything, sample_chunks
from tests.property.kv_hybrids import plans

LAYOUTS = list(KvLayout)


def replay(plan):
    return plan_load(plan, look_up(plan, plan.prompt.tokens + 1).tokens)


@pytest.fixture(scope="module")
def flash():
    return plan_store(load_model("deepseek-v4-flash"), 20_000, OffloadSettings(blocks_per_chunk=4))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_a_limit_everything_is_copied(flash, layout):
    sample = sample_chunks(flash, replay(flash), layout, None)
    assert [group.stored.tolist() for group in sample.groups] == [group.chunk_ids().tolist() for group in flash.groups]
    assert [group.loaded_blocks for group in sample.groups] == [load.blocks for load in replay(flash)]
    assert [group.skip for group in sample.groups] == [load.skipped_blocks for load in replay(flash)]
    assert (sample.stored_fraction, sample.loaded_fraction) == (1.0, 1.0)
    assert sample.memory.nbytes == memory_of_everything(flash, layout).nbytes


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("limit", [60 << 20, 200 << 20, 500 << 20])
def test_a_limit_is_kept_and_nearly_used_up(flash, layout, limit):
    sample = sample_chunks(flash, replay(flash), layout, limit)
    assert limit / 2 < sample.memory.nbytes <= limit
    assert 0 < sample.stored_fraction < 1


def test_every_group_gives_the_same_share_from_all_over_the_prompt(flash):
    everything = memory_of_everything(flash, KvLayout.PACKED).nbytes
    sample = sample_chunks(flash, replay(flash), KvLayout.PACKED, everything // 2)
    for group, plan in zip(sample.groups, flash.groups, strict=True):
        assert len(group.stored) == pytest.approx(plan.stored_chunks / 2, abs=1 + plan.stored_chunks / 50)
        assert group.stored[0] <= plan.chunk_ids()[len(plan.chunk_ids()) // 10]
        assert group.stored[-1] == plan.chunk_ids()[-1]


def test_less_than_a_chunk_per_group_is_refused_with_both_numbers(flash):
    with pytest.raises(DoesNotFitError, match=r"one chunk of every group takes \d.* MiB, more than the 1.00 MiB given"):
        sample_chunks(flash, replay(flash), KvLayout.PACKED, 1 << 20)


def test_a_load_of_what_is_not_stored_is_refused_and_the_group_named(flash):
    with pytest.raises(EcbenchError, match="group swa-a: the load needs chunks 37 to 38, and the plan does not store"):
        sample_chunks(flash, plan_load(flash, 9_800), KvLayout.PACKED, None)


@given(plans(), st.sampled_from(LAYOUTS), st.sampled_from(list(BlockOrder)), st.integers(0, 2**32), st.data())
def test_what_a_lookup_hits_can_be_loaded_from_any_sample(plan, layout, order, seed, data):
    computed = data.draw(st.integers(0, plan.prompt.tokens))
    hit = look_up(plan, plan.prompt.tokens + 1, computed_tokens=computed).tokens
    loads = plan_load(plan, hit, computed_tokens=computed) if hit else plan_load(plan, 0)
    everything = sample_chunks(plan, loads, layout, None).memory.nbytes
    limit = data.draw(st.none() | st.integers(everything // 2, everything))
    try:
        sample = sample_chunks(plan, loads, layout, limit)
    except DoesNotFitError:
        assert limit is not None
        return
    placed = place_transfers(sample, order, seed)
    for group, load, planned, stored, loaded in zip(
        sample.groups, loads, plan.groups, placed.stores, placed.loads, strict=True
    ):
        assert np.isin(group.stored, planned.chunk_ids()).all()
        assert np.isin(group.loaded, group.stored).all()
        assert bool(len(group.loaded)) == bool(load.blocks)
        assert stored.blocks == len(group.stored) * planned.layout.blocks_per_chunk
        assert loaded.blocks == _blocks_within(group.loaded, load)
        chunk_in = dict(zip(stored.slots.tolist(), group.stored.tolist(), strict=True))
        assert [chunk_in[slot] for slot in loaded.slots.tolist()] == group.loaded.tolist()
    _assert_each_id_is_given_once(placed)


def _blocks_within(chunks, load):
    per_chunk = load.layout.blocks_per_chunk
    blocks = (chunk * per_chunk + block for chunk in chunks.tolist() for block in range(per_chunk))
    return sum(load.first_block <= block < load.end_block for block in blocks)


def _assert_each_id_is_given_once(placed):
    device, host = placed.memory.device, placed.memory.host
    slots = list(itertools.chain(*(moved.slots.tolist() for moved in placed.stores)))
    assert len(set(slots)) == len(slots) < host.slots
    for side in (placed.stores, placed.loads):
        ids = [[(moved.group, block) for block in moved.block_ids.tolist()] for moved in side]
        if device.layout is KvLayout.PACKED:
            ids = [[block for _, block in group] for group in ids]
        flat = list(itertools.chain(*ids))
        assert len(set(flat)) == len(flat)
        assert all(len(group) < there for group, there in zip(ids, device.blocks, strict=True))


def test_the_seed_decides_a_shuffle_and_nothing_else(flash):
    sample = sample_chunks(flash, replay(flash), KvLayout.PACKED, 200 << 20)
    first, again, other = (place_transfers(sample, BlockOrder.SHUFFLED, seed) for seed in (1, 1, 2))
    assert _ids(first) == _ids(again) != _ids(other)
    assert _ids(place_transfers(sample, BlockOrder.IN_ORDER, 1)) == _ids(
        place_transfers(sample, BlockOrder.IN_ORDER, 2)
    )


def _ids(placed):
    return [(moved.block_ids.tolist(), moved.slots.tolist()) for moved in (*placed.stores, *placed.loads)]
