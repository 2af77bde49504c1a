from __future__ import annotations

import pytest

from ecbench.core.errors import DoesNotFitError
from ecbench.kv_offload import OffloadSettings, host_capacity, load_model, plan_store

FLASH = load_model("deepseek-v4-flash")
GIB = 1 << 30


def test_64_gib_hold_seven_times_100000_tokens_with_the_skip_and_one_without():
    capacity = host_capacity(plan_store(FLASH, 100_000), 64 * GIB)
    assert (capacity.slot_bytes, capacity.slots) == (1_003_520, 68_478)
    assert capacity.with_skip_by_slot.requests == 68_478 // 8_992 == 7
    assert capacity.without_skip_by_slot.requests == 68_478 // 41_014 == 1
    assert capacity.with_skip_by_slot.tokens == 68_478 * 100_000 // 8_992
    assert capacity.without_skip_by_slot.tokens == 68_478 * 100_000 // 41_014


def test_real_bytes_hold_more_than_slots():
    plan = plan_store(FLASH, 100_000)
    capacity = host_capacity(plan, 64 * GIB)
    assert capacity.with_skip_by_real_bytes.requests == 64 * GIB // plan.totals.stored_real_bytes
    assert capacity.with_skip_by_real_bytes.tokens > capacity.with_skip_by_slot.tokens
    assert capacity.without_skip_by_real_bytes.tokens > capacity.without_skip_by_slot.tokens


def test_a_copy_per_rank_takes_the_memory_of_every_rank():
    one = host_capacity(plan_store(FLASH, 100_000), 64 * GIB)
    four = host_capacity(plan_store(FLASH, 100_000, OffloadSettings(tensor_parallel=4)), 256 * GIB)
    assert four.with_skip_by_real_bytes == one.with_skip_by_real_bytes


def test_a_prompt_that_stores_nothing_has_no_limit():
    fit = host_capacity(plan_store(FLASH, 3), GIB).with_skip_by_slot
    assert (fit.requests, fit.tokens) == (None, None)


def test_memory_below_one_slot_is_refused_with_both_numbers():
    with pytest.raises(DoesNotFitError, match="host memory of 1000000 bytes is below one slot of 1003520 bytes"):
        host_capacity(plan_store(FLASH, 2_048), 1_000_000)
