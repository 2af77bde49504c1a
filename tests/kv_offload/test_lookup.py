from __future__ import annotations

import pytest

from ecbench import EcbenchError
from ecbench.kv_offload import OffloadSettings, load_model, look_up, plan_load, plan_store
from tests.kv_offload.golden_runs import RUNS, plan_of, run_id
from tests.kv_offload.hybrids import group, hybrid

FLASH = load_model("deepseek-v4-flash")
EXAMPLE = hybrid(group("full", "full", 16), group("window", "sliding", 4, 8))


@pytest.mark.parametrize("run", RUNS, ids=run_id)
def test_every_golden_replay_hits_the_same(run):
    assert look_up(plan_of(run), run["tokens"] + 1).tokens == run["replay_hit_tokens"]


def test_the_same_prompt_again_computes_its_last_token():
    assert look_up(plan_store(FLASH, 2048), 2048).tokens == 2047


def test_without_a_window_the_same_prompt_hits_whole():
    assert look_up(plan_store(hybrid(group("full", "full", 16)), 64), 64).tokens == 64


def test_a_request_hits_no_more_than_it_shares():
    plan = plan_store(FLASH, 4096)
    assert look_up(plan, 10_000, shared_tokens=1500).tokens == 1280
    assert look_up(plan, 10_000, shared_tokens=255).tokens == 0
    assert look_up(plan, 10_000).tokens == 4096


def test_each_group_says_what_it_would_hit_alone():
    plan = plan_store(load_model("deepseek-v4-flash", sliding_window=65), 4096)
    assert look_up(plan, 4097).by_group == (0, 0, 4096, 4096, 4096)


def test_tokens_that_are_computed_are_not_hit_again():
    plan = plan_store(FLASH, 4096)
    assert look_up(plan, 4097, computed_tokens=1024).tokens == 3072
    assert look_up(plan, 4097, computed_tokens=4096).tokens == 0
    assert look_up(plan, 4097, computed_tokens=4000).tokens == 0


def test_states_round_hits_down_to_their_chunk():
    model = hybrid(group("full", "full", 16), group("states", "mamba", 32, mamba_cache_mode="align"))
    assert look_up(plan_store(model, 80), 81).tokens == 64
    assert look_up(plan_store(model, 64), 64).tokens == 32


def test_the_extra_chunk_of_an_eagle_group_is_asked_for_and_dropped():
    model = load_model("deepseek-v4-flash", eagle=True)
    plan = plan_store(model, 2048 + 64)
    assert look_up(plan, 2048 + 65).tokens == 2048
    assert look_up(plan, 2048 + 65, shared_tokens=2048).tokens == 1792


def test_a_full_attention_draft_group_asks_for_its_extra_chunk_too():
    """Found by fuzzing against the real scheduler: without the question each such group cost a chunk of the hit."""
    plan = plan_store(hybrid(group("a", "full", 1, eagle=True), group("b", "full", 1, eagle=True)), 2)
    assert look_up(plan, 3).tokens == 1
    plan = plan_store(hybrid(group("a", "full", 3), group("b", "full", 1, eagle=True)), 4)
    assert look_up(plan, 5).tokens == 3


def test_what_is_retained_beyond_a_window_is_stored_looked_up_and_loaded_with_it():
    """Found by fuzzing against the real scheduler: nothing of it was stored."""
    plan = plan_store(hybrid(group("window", "sliding", 1, 1, retained_tokens=1)), 1)
    assert plan.groups[0].chunk_ids().tolist() == [0]
    assert look_up(plan, 2).tokens == 1
    wide = plan_store(hybrid(group("full", "full", 16), group("window", "sliding", 4, 5, retained_tokens=4)), 32)
    assert wide.groups[1].chunk_ids().tolist() == [2, 3, 6, 7]
    assert [(load.first_block, load.end_block) for load in plan_load(wide, 32)][1] == (6, 8)


def test_a_replay_loads_the_tails_alone():
    plan = plan_store(EXAMPLE, 32, OffloadSettings(policy="pr"))
    hit = look_up(plan, 33).tokens
    loads = plan_load(plan, hit)
    assert hit == 32
    assert [range(load.first_chunk, load.end_chunk) for load in loads] == [range(2), range(6, 8)]


def test_the_first_chunk_is_loaded_from_the_block_that_is_needed():
    plan = plan_store(FLASH, 2048, OffloadSettings(blocks_per_chunk=4))
    window = plan_load(plan, 2048)[0]
    assert (window.first_block, window.end_block, window.first_chunk, window.skipped_blocks) == (30, 32, 7, 2)
    assert window.real_bytes == 2 * 822_272


def test_nothing_is_loaded_for_no_hit():
    assert [load.blocks for load in plan_load(plan_store(FLASH, 2048), 0)] == [0] * 5


def test_a_load_begins_behind_what_is_computed():
    attention = plan_load(plan_store(FLASH, 2048), 1024, computed_tokens=1024)[2]
    assert (attention.first_block, attention.end_block) == (4, 8)


def test_local_attention_loads_its_current_run():
    model = hybrid(group("full", "full", 64), group("local", "chunked", 8, 48))
    local = plan_load(plan_store(model, 128), 64)[1]
    assert (local.first_block, local.end_block) == (6, 8)


@pytest.mark.parametrize(
    "arguments",
    [
        {"request_tokens": 0},
        {"request_tokens": 10, "shared_tokens": 11},
        {"request_tokens": 10, "shared_tokens": -1},
        {"request_tokens": 10, "computed_tokens": 11},
        {"request_tokens": 999, "shared_tokens": 257},
    ],
)
def test_requests_that_cannot_be_are_refused(arguments):
    with pytest.raises(EcbenchError, match=f"request of {arguments['request_tokens']} tokens"):
        look_up(plan_store(FLASH, 256), **arguments)


def test_a_hit_longer_than_the_prompt_is_refused():
    with pytest.raises(EcbenchError, match="hit of 257 tokens"):
        plan_load(plan_store(FLASH, 256), 257)
