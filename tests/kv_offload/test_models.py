from __future__ import annotations

import json

import pytest

from ecbench import EcbenchError
from ecbench.kv_offload import GroupKind, load_model, model_names
from ecbench.kv_offload.models.geometry import catalogue
from tests.kv_offload.golden_runs import RUNS, model_of, run_id

FLASH_RATIOS = [0, 0, *[4, 128] * 20, 4]
FLASH = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "num_hidden_layers": 43,
    "num_nextn_predict_layers": 1,
    "compress_ratios": [*FLASH_RATIOS, 0],
    "head_dim": 512,
    "index_head_dim": 128,
    "sliding_window": 128,
}


def _config(tmp_path, **changes):
    path = tmp_path / "config.json"
    config = {key: value for key, value in {**FLASH, **changes}.items() if value is not None}
    path.write_text(json.dumps(config))
    return path


def _bytes(model):
    return {group.name: (group.layers, group.page_size_bytes, group.real_page_size_bytes) for group in model.groups}


@pytest.mark.parametrize("run", RUNS, ids=run_id)
def test_groups_are_those_of_the_engine(run):
    groups = [
        (group.layers, group.tokens_per_block, group.eagle, group.page_size_bytes, group.real_page_size_bytes)
        for group in model_of(run).groups
    ]
    keys = ("layers", "tokens_per_block", "eagle", "page_size_bytes", "real_page_size_bytes")
    assert groups == [tuple(group[key] for key in keys) for group in run["groups"]]
    assert model_of(run).block_stride_bytes == run["block_stride_bytes"]


def test_flash_has_43_layers_and_pro_61():
    flash, pro = (catalogue().geometry(name) for name in ("deepseek-v4-flash", "deepseek-v4-pro"))
    assert [len(flash.compress_ratios), *map(flash.compress_ratios.count, (0, 4, 128))] == [43, 2, 21, 20]
    assert [len(pro.compress_ratios), *map(pro.compress_ratios.count, (0, 4, 128))] == [61, 0, 30, 31]
    assert pro.compress_ratios[:4] == (128, 128, 4, 128)
    assert pro.compress_ratios[-1] == 4


def test_flash_has_the_published_bytes():
    model = load_model("deepseek-v4-flash")
    assert _bytes(model) == {
        "swa-a": (22, 823_680, 822_272),
        "swa-b": (21, 786_240, 784_896),
        "mla": (62, 1_002_240, 985_664),
        "c4-states": (42, 870_912, 860_160),
        "c128-states": (20, 656_640, 655_360),
    }
    assert model.block_stride_bytes == 1_002_240


def test_pro_has_the_published_bytes():
    model = load_model("deepseek-v4-pro")
    assert _bytes(model) == {
        "swa-a": (31, 1_160_640, 1_158_656),
        "swa-b": (30, 1_123_200, 1_121_280),
        "mla": (91, 1_435_968, 1_410_928),
        "c128-states": (31, 1_017_792, 1_015_808),
        "c4-states": (60, 1_244_160, 1_228_800),
    }
    assert load_model("deepseek-v4-pro", indexer="mxfp4").block_stride_bytes == 1_315_008


def test_a_page_of_each_cache_has_the_published_bytes():
    tensors = {
        tensor.name: (tensor.page_size_bytes, tensor.real_page_size_bytes)
        for group in load_model("deepseek-v4-flash").groups
        for tensor in group.tensors
    }
    assert tensors == {
        "swa": (37_440, 37_376),
        "c4": (37_440, 37_376),
        "c4-index": (8_640, 8_448),
        "c128": (1_728, 1_168),
        "c4-state": (32_832, 32_768),
        "c4-index-state": (8_640, 8_192),
        "c128-state": (32_832, 32_768),
    }


def test_plain_formats_round_pages_up_to_512_bytes():
    assert load_model("deepseek-v4-flash", cache_dtype="bfloat16").block_stride_bytes == 1_600_000
    fp8 = load_model("deepseek-v4-flash", cache_dtype="fp8")
    swa = fp8.groups[0].tensors[0]
    assert (swa.real_page_size_bytes, swa.page_size_bytes) == (64 * 512, 64 * 512)
    index = next(tensor for tensor in fp8.groups[2].tensors if tensor.name == "c4-index")
    assert (index.real_page_size_bytes, index.page_size_bytes) == (8_448, 8_704)


def test_windows_are_those_of_the_layers_and_of_the_compressors():
    windows = {group.name: group.window_tokens for group in load_model("deepseek-v4-flash").groups}
    assert windows == {"swa-a": 128, "swa-b": 128, "mla": None, "c4-states": 8, "c128-states": 128}
    assert load_model("deepseek-v4-flash").groups[2].kind is GroupKind.FULL


@pytest.mark.parametrize(("name", "layers"), [("deepseek-v4-flash", [22, 22]), ("deepseek-v4-pro", [31, 31])])
def test_the_mtp_layer_joins_the_second_window_group(name, layers):
    with_mtp, with_eagle = load_model(name, mtp=True), load_model(name, eagle=True)
    assert [group.layers for group in with_mtp.groups[:2]] == layers
    assert [group.eagle for group in with_mtp.groups] == [False] * 5
    assert [group.eagle for group in with_eagle.groups] == [False, True, False, False, False]


def test_a_config_makes_the_same_groups_as_the_name(tmp_path):
    path = _config(tmp_path)
    assert load_model(path).groups == load_model("deepseek-v4-flash").groups
    assert load_model(path.parent, eagle=True).groups == load_model("deepseek-v4-flash", eagle=True).groups


def test_ratios_may_leave_out_the_mtp_layers(tmp_path):
    path = _config(tmp_path, compress_ratios=FLASH_RATIOS)
    assert load_model(path, mtp=True).groups == load_model("deepseek-v4-flash", mtp=True).groups


def test_ratios_are_read_from_the_config_and_not_assumed(tmp_path):
    path = _config(tmp_path, num_hidden_layers=4, compress_ratios=[4, 4, 128, 1], num_nextn_predict_layers=None)
    groups = load_model(path).groups
    assert {group.name: group.layers for group in groups} == {
        "swa-a": 2,
        "swa-b": 2,
        "mla": 5,
        "c4-states": 4,
        "c128-states": 1,
    }


@pytest.mark.parametrize(
    "key", ["compress_ratios", "num_hidden_layers", "head_dim", "index_head_dim", "sliding_window"]
)
def test_a_missing_key_is_named(tmp_path, key):
    with pytest.raises(EcbenchError, match=f"config.json: {key} missing"):
        load_model(_config(tmp_path, **{key: None}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"compress_ratios": [0, 4]}, "compress_ratios has 2 entries for 43 layers and 1 MTP layers: give 43 or 44"),
        ({"compress_ratios": [16] * 43}, "compress ratio 16 is not known: known are 0, 4, 128"),
        ({"compress_ratios": "4"}, "Expected `array`"),
        ({"sliding_window": 0}, "sliding_window"),
        ({"head_dim": 256}, "head_dim 256 does not fit"),
        ({"model_type": "llama", "architectures": []}, "'llama' is not known: known is deepseek_v4; .* TOML"),
        ({"model_type": None, "architectures": ["LlamaForCausalLM"]}, "architecture 'LlamaForCausalLM' is not known"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_with_the_value(tmp_path, changes, told):
    with pytest.raises(EcbenchError, match=told):
        load_model(_config(tmp_path, **changes))


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a": 1'])
def test_a_file_that_is_no_json_object_is_refused(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(EcbenchError, match="JSON"):
        load_model(path)


def test_mtp_needs_an_mtp_layer(tmp_path):
    path = _config(tmp_path, num_nextn_predict_layers=0, compress_ratios=FLASH_RATIOS)
    with pytest.raises(EcbenchError, match="has no MTP layer"):
        load_model(path, eagle=True)


def test_an_unknown_name_lists_the_models_and_the_other_ways():
    for name in ("deepseek-v5", "no/such/file.toml", "x" * 5000, ""):
        with pytest.raises(EcbenchError, match=r"unknown model .*: choose one of deepseek-v4-flash.*TOML"):
            load_model(name)
    assert model_names() == ("deepseek-v4-flash", "deepseek-v4-pro")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cache_dtype": "int4"}, "unknown cache dtype 'int4': choose one of fp8_ds_mla, fp8, bfloat16"),
        ({"indexer": "int4"}, "unknown indexer 'int4': choose one of fp8, mxfp4"),
        ({"sliding_window": 0}, "sliding window of 0 tokens"),
        ({"block_size": 0}, "block size of 0 tokens"),
        ({"block_size": 2}, "block size of 2 tokens holds no whole states of ratio 4"),
        ({"block_size": 96}, "block size of 96 tokens neither divides nor is divided by blocks of 64 tokens"),
    ],
)
def test_options_out_of_range_are_refused_with_the_choices(options, told):
    with pytest.raises(EcbenchError, match=told):
        load_model("deepseek-v4-flash", **options)
