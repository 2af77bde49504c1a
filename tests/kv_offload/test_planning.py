from __future__ import annotations

import pytest

from ecbench import EcbenchError
from ecbench.kv_offload import HostLayout, OffloadSettings, load_model, plan_store, policy_names
from tests.kv_offload.golden_runs import RUNS, plan_of, run_id
from tests.kv_offload.hybrids import group, hybrid

FLASH = load_model("deepseek-v4-flash")


def _plan(tokens, model=FLASH, shared_prefixes=(), **settings):
    return plan_store(model, tokens, OffloadSettings(**settings), shared_prefixes=shared_prefixes)


def _stored(plan):
    return [group.chunk_ids().tolist() for group in plan.groups]


@pytest.mark.parametrize("run", RUNS, ids=run_id)
def test_every_golden_run_of_the_scheduler_stores_the_same(run):
    plan = plan_of(run)
    layout = plan.layout
    assert (plan.alignment_tokens, layout.scheduler_block_size, layout.hash_block_size) == (
        run["alignment_tokens"],
        run["scheduler_block_size"],
        run["hash_block_size"],
    )
    assert (layout.block_stride_bytes, layout.host_slot_bytes) == (run["block_stride_bytes"], run["host_slot_bytes"])
    stored = [
        (
            one.layout.tokens_per_chunk,
            one.layout.window_chunks,
            one.full_chunks,
            one.stored_chunks,
            one.stored_blocks,
        )
        for one in plan.groups
    ]
    keys = ("tokens_per_chunk", "sliding_window_size_in_chunks", "full_chunks", "stored_chunks", "stored_blocks")
    assert stored == [tuple(one[key] for key in keys) for one in run["groups"]]


@pytest.mark.parametrize(
    ("settings", "sliding", "everything", "host_bytes"),
    [
        ({"policy": "pr"}, 8_584, 8_974, 9_005_588_480),
        ({}, 8_602, 8_992, 9_023_651_840),
        ({"retention_interval": 4096}, 550, 940, 943_308_800),
        ({"retention_interval": 0}, 22, 412, 413_450_240),
    ],
)
def test_100000_tokens_of_flash_store_the_published_chunks(settings, sliding, everything, host_bytes):
    totals = _plan(100_000, **settings).totals
    assert (totals.sliding_full_chunks, totals.all_full_chunks) == (40_624, 41_014)
    assert (totals.sliding_stored_chunks, totals.all_stored_chunks) == (sliding, everything)
    assert totals.stored_host_bytes == host_bytes


@pytest.mark.parametrize(
    ("settings", "sliding", "everything"),
    [
        ({"policy": "pr"}, 78.87, 78.12),
        ({}, 78.825, 78.076),
        ({"retention_interval": 4096}, 98.646, 97.708),
        ({"retention_interval": 0}, 99.946, 98.995),
    ],
)
def test_100000_tokens_of_flash_save_the_published_share(settings, sliding, everything):
    totals = _plan(100_000, **settings).totals
    assert 100 * totals.sliding_saved_fraction == pytest.approx(sliding, abs=0.0006 if sliding != 78.87 else 0.006)
    assert 100 * totals.all_saved_fraction == pytest.approx(everything, abs=0.0006 if everything != 78.12 else 0.006)


def test_an_eagle_group_stores_a_chunk_more_of_every_segment():
    totals = _plan(100_000, load_model("deepseek-v4-flash", eagle=True)).totals
    assert totals.sliding_stored_chunks == 8_990
    assert totals.stored_host_bytes == 9_413_017_600
    assert 100 * totals.all_saved_fraction == pytest.approx(77.130, abs=0.0006)


@pytest.mark.parametrize(("block_size", "sliding", "saved"), [(128, 17_188, 56.6), (64, 18_750, 51.9)])
def test_smaller_blocks_of_full_attention_save_less(block_size, sliding, saved):
    totals = _plan(100_000, load_model("deepseek-v4-flash", block_size=block_size)).totals
    assert totals.sliding_stored_chunks == sliding
    assert 100 * totals.all_saved_fraction == pytest.approx(saved, abs=0.06)


@pytest.mark.parametrize("tokens", [2_304, 2_500, 3_000])
def test_four_ranks_keep_four_copies_and_the_replicated_layout_one(tokens):
    per_rank = _plan(tokens, tensor_parallel=4, blocks_per_chunk=4)
    replicated = _plan(tokens, tensor_parallel=4, blocks_per_chunk=4, host_layout=HostLayout.REPLICATED)
    assert sum(one.stored_blocks for one in per_rank.groups) == 92
    assert (per_rank.layout.copies, per_rank.totals.stored_host_bytes) == (4, 368_824_320)
    assert (replicated.layout.copies, replicated.totals.stored_host_bytes) == (1, 92_229_632)
    assert replicated.layout.host_slot_bytes == 4_009_984


def test_the_example_of_the_pull_request():
    model = hybrid(group("full", "full", 16), group("window", "sliding", 4, 8))
    plan = _plan(32, model, policy="pr")
    assert _stored(plan) == [[0, 1], [2, 3, 6, 7]]
    assert [one.layout.hashes_per_chunk for one in plan.groups] == [4, 1]


def test_bytes_count_real_pages_padded_pages_and_whole_slots():
    plan = _plan(256)
    window, attention = plan.groups[0], plan.groups[2]
    assert (window.stored_real_bytes, window.stored_padded_bytes) == (2 * 822_272, 2 * 823_680)
    assert (attention.stored_real_bytes, attention.stored_padded_bytes) == (985_664, 1_002_240)
    totals = plan.totals
    assert totals.stored_host_bytes == totals.all_stored_chunks * 1_003_520
    assert totals.host_amplification == pytest.approx(totals.stored_host_bytes / totals.stored_real_bytes)


def test_blocks_are_those_of_the_stored_chunks():
    model = hybrid(group("full", "full", 16), group("window", "sliding", 4, 8))
    plan = _plan(64, model, blocks_per_chunk=2)
    assert plan.groups[1].chunk_ids().tolist() == [3, 7]
    assert plan.groups[1].block_ids().tolist() == [6, 7, 14, 15]


def test_shared_prefixes_keep_their_tails_where_retention_is_set():
    assert _stored(_plan(2048, retention_interval=0))[0] == [26, 27]
    assert _stored(_plan(2048, retention_interval=0, shared_prefixes=(1030,)))[0] == [14, 15, 26, 27]
    assert _stored(_plan(2048))[0] == _stored(_plan(2048, shared_prefixes=(1030,)))[0]


def test_the_pull_request_knows_no_retention():
    assert _stored(_plan(5000, policy="pr", retention_interval=0)) == _stored(_plan(5000, policy="pr"))


def test_without_full_attention_the_largest_chunk_aligns_in_0_33_and_nothing_in_the_pull_request():
    model = hybrid(group("near", "sliding", 4, 8), group("far", "sliding", 32, 64))
    assert _plan(128, model).alignment_tokens == 32
    assert _stored(_plan(64, model))[0] == [6, 7, 14, 15]
    assert _plan(128, model, policy="pr").alignment_tokens is None
    assert _plan(64, model, policy="pr").totals.all_saved_fraction == 0


def test_full_attention_of_two_chunk_sizes_skips_nothing():
    model = hybrid(group("a", "full", 16), group("b", "full", 32), group("window", "sliding", 4, 8))
    for policy in policy_names():
        plan = _plan(128, model, policy=policy)
        assert plan.alignment_tokens is None
        assert plan.totals.all_saved_fraction == 0


def test_local_attention_is_stored_whole_in_0_33_and_skipped_in_the_pull_request():
    model = hybrid(group("full", "full", 64), group("local", "chunked", 8, 16))
    assert _plan(128, model).totals.all_saved_fraction == 0
    assert _stored(_plan(128, model, policy="pr"))[1] == [6, 7, 14, 15]


def test_states_are_skipped_with_a_retention_interval():
    model = hybrid(group("full", "full", 16), group("states", "mamba", 16, mamba_cache_mode="align"))
    assert _stored(_plan(128, model))[1] == list(range(8))
    assert _stored(_plan(128, model, retention_interval=64))[1] == [3, 6, 7]
    assert _stored(_plan(128, model, retention_interval=0))[1] == [6]


def test_states_are_skipped_although_the_alignment_is_no_multiple_of_their_block():
    """Found by fuzzing against the real rule, which asks for a multiple with windows alone."""
    model = hybrid(group("full", "full", 1), group("states", "mamba", 2, mamba_cache_mode="align"))
    assert _stored(_plan(4, model, retention_interval=0))[1] == [0]


def test_an_interval_longer_than_the_prompt_keeps_the_last_boundary_alone():
    assert _stored(_plan(2048, retention_interval=1 << 40)) == _stored(_plan(2048, retention_interval=0))


def test_an_alignment_of_ones_own_takes_the_place_of_the_chunk():
    assert _stored(_plan(2048, alignment_tokens=1024))[0] == [14, 15, 30, 31]


def test_decode_context_parallel_spreads_blocks():
    plan = _plan(2048, decode_context_parallel=2)
    assert [one.layout.tokens_per_block for one in plan.groups] == [128, 128, 512, 8, 16]
    assert plan.alignment_tokens == 512


def test_a_prompt_shorter_than_a_chunk_stores_nothing():
    totals = _plan(3).totals
    assert (totals.all_full_chunks, totals.all_stored_chunks, totals.all_saved_fraction) == (0, 0, 0.0)


def test_masks_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        _plan(256).groups[0].stored[0] = True


@pytest.mark.parametrize(
    ("tokens", "settings", "told"),
    [
        (0, {}, "prompt of 0 tokens: give 1 to 268435456"),
        (-5, {}, "prompt of -5 tokens"),
        (10**15, {}, "prompt of 1000000000000000 tokens"),
        (256, {"policy": "best"}, "unknown policy 'best': choose one of pr, vllm-0.33"),
        (256, {"alignment_tokens": 0}, "alignment in tokens is 0: give 1 to"),
        (256, {"alignment_tokens": 100}, r"alignment of 100 .* swa-a \(64 tokens\), swa-b .*: give a multiple of 256"),
        (256, {"retention_interval": -1}, "retention interval is -1 tokens: give 0 to"),
        (256, {"retention_interval": 40}, r"retention interval of 40 .* swa-a \(64 tokens\), swa-b \(64 tokens\): "),
        (256, {"retention_interval": 2}, r"c4-states \(4 tokens\), c128-states \(8 tokens\)"),
        (256, {"blocks_per_chunk": 0}, "blocks_per_chunk is 0"),
        (256, {"tensor_parallel": 0}, "tensor-parallel size is 0"),
        (256, {"connector_block_size": 256}, "set blocks_per_chunk instead"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_value_and_mend(tokens, settings, told):
    with pytest.raises(EcbenchError, match=told):
        _plan(tokens, **settings)


@pytest.mark.parametrize("prefix", [0, 257])
def test_a_shared_prefix_lies_within_the_prompt(prefix):
    with pytest.raises(EcbenchError, match=f"shared prefix of {prefix} tokens"):
        _plan(256, shared_prefixes=(prefix,))


def test_states_that_round_hits_differently_are_refused():
    model = hybrid(group("a", "mamba", 16, mamba_cache_mode="align"), group("b", "mamba", 24, mamba_cache_mode="align"))
    with pytest.raises(EcbenchError, match=r"a \(16 tokens\), b \(24 tokens\)"):
        _plan(256, model)
