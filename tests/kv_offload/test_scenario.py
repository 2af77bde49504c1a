from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload.scenario import KvScenario, make_case

HERE = Path()
GROUPS = """\
title = "A window beside full attention, K and V apart"

[[groups]]
name = "full"
kind = "full"
tokens_per_block = 16
tensors = [{ layers = 2, page_size_bytes = 4096, real_page_size_bytes = 4000, kv = "apart" }]

[[groups]]
name = "window"
kind = "sliding"
tokens_per_block = 4
window_tokens = 8
tensors = [{ layers = 3, page_size_bytes = 1024, real_page_size_bytes = 1000 }]
"""


def scenario(**keys):
    values = {"workload": "dsv4", "title": "t", "model": "deepseek-v4-flash", "tokens": 2500, **keys}
    return msgspec.convert(values, KvScenario)


def case(folder=HERE, **keys):
    return make_case("s", scenario(**keys), 0, folder)


def test_a_case_names_model_prompt_policy_retention_layout_chunk_and_ranks():
    params = case(
        retention_interval="none", layout="per-layer", blocks_per_chunk=4, tensor_parallel=4, policy="pr"
    ).params
    named = ("model", "tokens", "policy", "retention_interval", "layout", "blocks_per_chunk", "tp")
    assert [params[name] for name in named] == ["deepseek-v4-flash", 2500, "pr", None, "per-layer", 4, 4]


def test_by_default_it_is_what_the_engine_does():
    made = case()
    assert (made.plan.layout.settings.policy, made.plan.layout.settings.retention_interval) == ("vllm-0.33", 0)
    assert made.case_id == "s/deepseek-v4-flash"


@pytest.mark.parametrize(("host_layout", "host_bytes"), [("per-rank", 368_824_320), ("replicated", 92_229_632)])
def test_published_bytes_of_flash_with_four_ranks_and_chunks_of_four_blocks(host_layout, host_bytes):
    made = case(retention_interval="none", blocks_per_chunk=4, tensor_parallel=4, host_layout=host_layout)
    assert made.plan.totals.stored_host_bytes == host_bytes


def test_the_load_is_what_the_prompt_and_one_more_token_hit():
    made = case(tokens=10_000)
    assert made.hit_tokens == 9_984
    assert [load.blocks for load in made.loads] == [2, 2, 39, 2, 16]


def test_computed_tokens_let_the_load_begin_inside_a_chunk():
    made = case(tokens=10_000, retention_interval="none", blocks_per_chunk=4, computed_tokens=512)
    full = made.loads[2]
    assert (full.first_block, full.skipped_blocks) == (2, 2)


def test_a_file_of_groups_is_seen_from_the_scenario_s_folder(tmp_path):
    (tmp_path / "hybrid.toml").write_text(GROUPS)
    made = case(tmp_path, model="hybrid.toml", tokens=64, retention_interval="none")
    assert made.case_id == "s/hybrid"
    assert [load.blocks for load in made.loads] == [4, 2]


BAD = {
    "model": ({"model": "gpt-2"}, "unknown model 'gpt-2': choose one of deepseek-v4-flash, deepseek-v4-pro"),
    "policy": ({"policy": "all"}, r"unknown .*policy 'all'"),
    "retention": ({"retention_interval": 100}, "retention interval of 100 tokens is no multiple"),
    "negative retention": ({"retention_interval": -1}, "retention interval is -1"),
    "chunk": ({"blocks_per_chunk": 0}, "blocks_per_chunk is 0"),
    "ranks": ({"tensor_parallel": 0}, "tensor-parallel size is 0"),
    "alignment": ({"alignment_tokens": 100}, "alignment of 100 tokens is no multiple"),
    "dtype": ({"cache_dtype": "int4"}, "unknown cache dtype 'int4'"),
    "computed beyond the prompt": ({"computed_tokens": 2501}, "computed_tokens is 2501: give 0 to 2500"),
    "all computed": ({"computed_tokens": 2500}, "loads nothing"),
    "short": ({"tokens": 255}, "a replay of 255 tokens, 0 of them computed, loads nothing: give .* at least 256"),
}


@pytest.mark.parametrize(("keys", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_planned_is_refused_with_the_value_and_the_mend(keys, message):
    with pytest.raises(EcbenchError, match=message):
        case(**keys)


@pytest.mark.parametrize(
    "keys", [{"tokens": 0}, {"tokens": 1 << 23}, {"layout": "sparse"}, {"retention_interval": "0"}]
)
def test_what_is_out_of_range_or_no_choice_is_refused_on_reading(keys):
    with pytest.raises(msgspec.ValidationError):
        scenario(**keys)
