from __future__ import annotations

import json

import numpy as np
import pytest

from ecbench import EcbenchError
from ecbench.kv_offload import stored_blocks
from ecbench.kv_offload.reachability import segment_tails
from tests.conftest import GOLDEN

CASES = json.loads((GOLDEN / "reachable_block_mask_vllm_0.33.0.json").read_text())["cases"]


def test_every_golden_mask_of_the_engine_agrees():
    for case in CASES:
        arguments = dict(case)
        stored = arguments.pop("stored")
        mask = stored_blocks(arguments.pop("start_block"), arguments.pop("end_block"), **arguments)
        expected = "1" * len(mask) if stored is None else stored
        assert "".join("01"[int(kept)] for kept in mask) == expected, case


def test_there_are_as_many_golden_masks_as_were_recorded():
    assert len(CASES) == 1500


def test_the_tail_of_every_segment_is_kept():
    mask = stored_blocks(0, 8, tokens_per_block=64, sliding_window=128, alignment_tokens=256)
    assert np.flatnonzero(mask).tolist() == [2, 3, 6, 7]


def test_a_last_cut_segment_keeps_its_tail_but_nothing_before_its_start():
    mask = stored_blocks(0, 5, tokens_per_block=64, sliding_window=128, alignment_tokens=256, final_segment_end_block=5)
    assert np.flatnonzero(mask).tolist() == [2, 3, 4]


def test_retention_zero_keeps_one_tail_before_the_last_prompt_token():
    arguments = {"tokens_per_block": 64, "sliding_window": 128, "alignment_tokens": 256, "retention_interval": 0}
    assert np.flatnonzero(stored_blocks(0, 8, reachable_boundaries=(511,), **arguments)).tolist() == [2, 3]
    assert np.flatnonzero(stored_blocks(0, 8, reachable_boundaries=(512,), **arguments)).tolist() == [6, 7]


def test_an_eagle_group_keeps_one_block_more_and_one_later():
    mask = stored_blocks(0, 9, tokens_per_block=64, sliding_window=128, alignment_tokens=256, eagle=True)
    assert np.flatnonzero(mask).tolist() == [2, 3, 4, 6, 7, 8]


@pytest.mark.parametrize("alignment", [None, 96])
def test_everything_is_stored_where_there_is_no_alignment_in_whole_blocks(alignment):
    assert stored_blocks(3, 9, tokens_per_block=64, sliding_window=8, alignment_tokens=alignment).tolist() == [True] * 6


def test_a_window_as_long_as_the_segment_stores_everything():
    assert stored_blocks(0, 8, tokens_per_block=64, sliding_window=257, alignment_tokens=256).all()


def test_the_skip_of_the_pull_request_keeps_the_last_chunks_of_each_segment():
    # Full attention 16 tokens, sliding window 8 tokens in chunks of 4, a prompt of 32 tokens.
    assert np.flatnonzero(segment_tails(0, 8, 4, 2)).tolist() == [2, 3, 6, 7]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sliding_window": 0}, "sliding window is 0"),
        ({"tokens_per_block": 0}, "tokens per block is 0"),
        ({"retention_interval": -1}, "retention interval of -1"),
        ({"alignment_tokens": 0}, "alignment in tokens is 0"),
        ({"alignment_tokens": -64}, "alignment in tokens is -64"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(changes, told):
    arguments = {"tokens_per_block": 64, "sliding_window": 128, "alignment_tokens": 256, **changes}
    with pytest.raises(EcbenchError, match=told):
        stored_blocks(0, 4, **arguments)


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (5, 4)])
def test_a_backward_range_is_refused(start, end):
    with pytest.raises(EcbenchError, match=f"blocks {start} to {end}"):
        stored_blocks(start, end, tokens_per_block=64, sliding_window=128, alignment_tokens=256)
