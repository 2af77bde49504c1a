from __future__ import annotations

import pytest

from ecbench import EcbenchError
from ecbench.kv_offload import hashes_per_chunk, load_model, resolve_block_sizes, resolve_blocks_per_chunk
from tests.kv_offload.hybrids import group

FULL, WINDOW = group("full", "full", 16), group("window", "sliding", 12, 24)


def _states(mode):
    return group("states", "mamba", 24, mamba_cache_mode=mode)


def test_deepseek_v4_schedules_in_256_tokens_and_hashes_in_4():
    assert resolve_block_sizes(load_model("deepseek-v4-flash").groups) == (256, 4)


def test_one_group_has_one_size_over_all_ranks():
    assert resolve_block_sizes([FULL], decode_context_parallel=4) == (64, 64)


def test_several_groups_take_multiple_and_divisor():
    assert resolve_block_sizes([FULL, WINDOW]) == (48, 4)
    assert resolve_block_sizes([FULL, WINDOW], decode_context_parallel=2) == (96, 8)


def test_the_match_unit_takes_the_place_of_the_divisor():
    assert resolve_block_sizes([FULL, WINDOW], prefix_match_unit=2) == (48, 2)


def test_a_size_that_the_match_unit_does_not_divide_is_refused_by_name():
    with pytest.raises(EcbenchError, match=r"match unit of 8 tokens does not divide the blocks of window \(12\)"):
        resolve_block_sizes([FULL, WINDOW], prefix_match_unit=8)


def test_scratch_has_no_say_in_the_hash_block():
    scratch = group("scratch", "sliding", 6, 6, prefix_cacheable=False)
    assert resolve_block_sizes([FULL, group("window", "sliding", 8, 8), scratch]) == (48, 8)


def test_nobody_reads_hashes_without_prefix_caching_and_connector():
    assert resolve_block_sizes([FULL, WINDOW], prefix_caching=False, connector=False) == (48, 48)
    assert resolve_block_sizes([FULL, WINDOW], prefix_caching=False) == (48, 4)


@pytest.mark.parametrize(("mode", "sizes"), [("align", (48, 8)), ("all", (48, 48)), ("none", (48, 48))])
def test_states_that_are_not_aligned_end_fine_hashing(mode, sizes):
    assert resolve_block_sizes([FULL, _states(mode)]) == sizes


def test_a_mamba_state_is_not_spread_over_ranks():
    assert resolve_block_sizes([FULL, _states("align")], decode_context_parallel=3) == (48, 24)


@pytest.mark.parametrize(
    ("groups", "options", "told"),
    [
        ([], {}, "no cache groups"),
        ([FULL], {"decode_context_parallel": 0}, "decode-context-parallel size is 0"),
        ([FULL, WINDOW], {"prefix_match_unit": 0}, "prefix match unit is 0"),
    ],
)
def test_what_has_no_sizes_is_refused(groups, options, told):
    with pytest.raises(EcbenchError, match=told):
        resolve_block_sizes(groups, **options)


def test_a_chunk_is_a_whole_number_of_hashes():
    assert hashes_per_chunk(256, 4) == 64
    with pytest.raises(EcbenchError, match="chunks of window hold 12 tokens, no multiple of the hash block of 48"):
        hashes_per_chunk(12, 48, "window")


def test_blocks_per_chunk_is_one_unless_set():
    assert resolve_blocks_per_chunk([FULL, WINDOW]) == 1
    assert resolve_blocks_per_chunk([FULL, WINDOW], blocks_per_chunk=4) == 4


def test_the_connectors_block_size_is_taken_where_groups_agree():
    assert resolve_blocks_per_chunk([FULL, group("window", "sliding", 16, 24)], connector_block_size=64) == 4


@pytest.mark.parametrize(
    ("groups", "options", "told"),
    [
        ([FULL, WINDOW], {"connector_block_size": 48}, "blocks of 12, 16 tokens: set blocks_per_chunk instead"),
        ([FULL], {"connector_block_size": 24}, "no multiple of the groups' block of 16"),
        ([FULL], {"connector_block_size": 0}, "block_size = 0"),
        ([FULL], {"blocks_per_chunk": 0}, "blocks_per_chunk is 0"),
        ([FULL], {"blocks_per_chunk": 2, "connector_block_size": 32}, "give blocks_per_chunk only"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_mend(groups, options, told):
    with pytest.raises(EcbenchError, match=told):
        resolve_blocks_per_chunk(groups, **options)
