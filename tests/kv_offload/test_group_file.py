from __future__ import annotations

import pytest

from ecbench import EcbenchError
from ecbench.kv_offload import GroupKind, load_model, plan_store, prove
from ecbench.kv_offload.groups import KvPlacement, MambaCacheMode

HYBRID = """
title = "Window and states"

[[groups]]
name = "full"
kind = "full"
tokens_per_block = 16
[[groups.tensors]]
layers = 8
page_size_bytes = 65536
real_page_size_bytes = 65536
kv = "apart"
[[groups.tensors]]
name = "spare"
layers = 0
page_size_bytes = 512
real_page_size_bytes = 512

[[groups]]
name = "window"
kind = "sliding"
tokens_per_block = 4
window_tokens = 8
[[groups.tensors]]
layers = 4
page_size_bytes = 1024
real_page_size_bytes = 1000

[[groups]]
name = "local"
kind = "chunked"
tokens_per_block = 8
window_tokens = 32
[[groups.tensors]]
layers = 2
page_size_bytes = 1024
real_page_size_bytes = 1024

[[groups]]
name = "states"
kind = "mamba"
tokens_per_block = 16
mamba_cache_mode = "align"
[[groups.tensors]]
layers = 1
page_size_bytes = 4096
real_page_size_bytes = 4096
"""


def _load(tmp_path, text=HYBRID, **options):
    path = tmp_path / "hybrid.toml"
    path.write_text(text)
    return load_model(path, **options)


def test_a_file_describes_any_hybrid(tmp_path):
    model = _load(tmp_path)
    assert [group.kind for group in model.groups] == [
        GroupKind.FULL,
        GroupKind.SLIDING,
        GroupKind.CHUNKED,
        GroupKind.MAMBA,
    ]
    full, window, _, states = model.groups
    assert (full.layers, full.page_size_bytes, full.tensors[0].kv) == (8, 8 * 65536, KvPlacement.APART)
    assert (window.page_size_bytes, window.real_page_size_bytes, window.window_tokens) == (4096, 4000, 8)
    assert states.mamba_cache_mode is MambaCacheMode.ALIGN
    assert model.block_stride_bytes == 8 * 65536


def test_a_tensor_that_no_layer_shares_is_dropped_and_listed(tmp_path):
    model = _load(tmp_path)
    assert model.dropped_tensors == ("full/spare",)
    assert [tensor.name for tensor in model.groups[0].tensors] == ["kv"]


def test_k_and_v_apart_move_as_two_halves(tmp_path):
    full, window, *_ = _load(tmp_path).groups
    assert full.tensors[0].transfer_sizes_bytes == (32768, 32768)
    assert window.tensors[0].transfer_sizes_bytes == (1000,)


def test_a_described_hybrid_is_planned_and_proved(tmp_path):
    plan = plan_store(_load(tmp_path), 64)
    assert [group.full_chunks for group in plan.groups] == [4, 16, 8, 4]
    assert plan.alignment_tokens == 16
    assert prove(plan).ok


def test_the_block_size_is_that_of_the_full_attention_groups(tmp_path):
    full, window, *_ = _load(tmp_path, block_size=32).groups
    assert (full.tokens_per_block, full.page_size_bytes) == (32, 2 * 8 * 65536)
    assert (window.tokens_per_block, window.page_size_bytes) == (4, 4096)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('kind = "sliding"', 'kind = "slidin"', "line .*kind"),
        ("window_tokens = 8\n", "", "group 'window' of kind 'sliding' has no window_tokens"),
        ("window_tokens = 8\n", "window_tokens = 0\n", "line .*window_tokens"),
        ("window_tokens = 8\n", "windows = 8\n", "line .*windows"),
        ('kind = "full"\n', 'kind = "full"\nwindow_tokens = 9\n', "group 'full' of kind 'full' has window_tokens = 9"),
        ('mamba_cache_mode = "align"\n', "", "group 'states' of kind 'mamba': mamba_cache_mode does not fit"),
        ("real_page_size_bytes = 1000", "real_page_size_bytes = 1025", "1025 bytes is larger than the page of 1024"),
        ('name = "local"', 'name = "full"', "two groups are named 'full'"),
        ("tokens_per_block = 4\n", "tokens_per_block = 0\n", "line .*tokens_per_block"),
        ("real_page_size_bytes = 65536", "real_page_size_bytes = 65535", "65535 bytes has no halves for K and V"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, old, new, told):
    assert old in HYBRID
    with pytest.raises(EcbenchError, match=told):
        _load(tmp_path, HYBRID.replace(old, new, 1))


def test_a_file_without_caches_is_refused(tmp_path):
    text = HYBRID[: HYBRID.index('[[groups]]\nname = "window"')].replace("layers = 8", "layers = 0")
    with pytest.raises(EcbenchError, match="no layer has a cache"):
        _load(tmp_path, text)


@pytest.mark.parametrize("option", ["cache_dtype", "indexer", "sliding_window", "mtp", "eagle"])
def test_options_of_deepseek_v4_are_refused(tmp_path, option):
    value = {"cache_dtype": "fp8", "indexer": "fp8", "sliding_window": 64}.get(option, True)
    with pytest.raises(EcbenchError, match=f"{option} cannot be set"):
        _load(tmp_path, **{option: value})


def test_a_block_size_that_cuts_pages_is_refused(tmp_path):
    with pytest.raises(EcbenchError, match="block size of 0 tokens"):
        _load(tmp_path, block_size=0)
