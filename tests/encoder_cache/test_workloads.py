from __future__ import annotations

from itertools import pairwise

import pytest

from ecbench import EcbenchError
from ecbench.encoder_cache.workloads.models import encoder_models, find_model
from ecbench.encoder_cache.workloads.placement import place_entries, region_blocks_of
from ecbench.encoder_cache.workloads.scenario import EncoderCacheScenario, ImageGroup, Placement, make_case

BLOCK_BYTES = {
    "qwen2-vl-2b": 3072,
    "qwen2.5-vl-3b": 4096,
    "qwen2.5-vl-7b": 7168,
    "qwen2.5-vl-72b": 16384,
    "qwen3-vl-8b": 8192,
    "internvl3-8b": 7168,
    "llava-onevision-7b": 7168,
    "gemma3-4b": 5120,
}


def _case(placement=Placement.ONE_RUN, model="qwen2.5-vl-7b", images=(("336x336", 3),), seed=0, **changes):
    groups = [ImageGroup(size=size, count=count) for size, count in images]
    scenario = EncoderCacheScenario(
        workload="ec", title="t", model=model, images=groups, placement=placement, **changes
    )
    return make_case("case", scenario, seed)


def test_the_models_have_the_blocks_of_their_hidden_size():
    assert {name: model.block_size_bytes for name, model in encoder_models().items()} == BLOCK_BYTES


def test_every_model_knows_the_same_image_sizes():
    sizes = {tuple(model.tokens) for model in encoder_models().values()}
    assert sizes == {("336x336", "448x448", "1280x720", "1024x1024", "1920x1080", "3840x2160")}


def test_a_deepstack_model_fills_four_blocks_per_token():
    case = _case(model="qwen3-vl-8b", images=(("1024x1024", 1),))
    assert case.blocks_per_entry == [4096]
    assert case.shapes == {"image-0": (1024, 16384)}


def test_unknown_names_list_the_choices():
    with pytest.raises(EcbenchError, match=r"unknown model 'x'.*gemma3-4b"):
        find_model("x")
    with pytest.raises(EcbenchError, match=r"unknown image size of Gemma3-4B '1x1'.*336x336"):
        find_model("gemma3-4b").tokens_of("1x1")


def test_too_many_images_in_all_are_refused():
    with pytest.raises(EcbenchError, match="8192 images in all: give at most 4096"):
        _case(images=(("336x336", 4096), ("448x448", 4096)))


@pytest.mark.parametrize("placement", list(Placement))
@pytest.mark.parametrize("model", ["qwen2.5-vl-7b", "gemma3-4b", "llava-onevision-7b"])
def test_entries_get_disjoint_blocks_of_the_region(placement, model):
    case = _case(placement, model)
    placed = place_entries(case)
    assert list(placed) == list(case.shapes)
    assert [len(ids) for ids in placed.values()] == case.blocks_per_entry
    used = [block for ids in placed.values() for block in ids]
    assert len(set(used)) == len(used)
    assert max(used) < region_blocks_of(case)


def test_a_fresh_region_gives_one_run_per_entry_and_neighbours():
    placed = place_entries(_case())
    runs = sorted(run for ids in placed.values() for run in ids.runs)
    assert len(runs) == 3
    assert all(left.end == right.first for left, right in pairwise(runs))


def test_a_scattered_region_has_no_two_neighbours():
    used = sorted(block for ids in place_entries(_case(Placement.SCATTERED)).values() for block in ids)
    assert all(right - left >= 2 for left, right in pairwise(used))


def test_churn_fragments_and_follows_the_seed():
    images = (("1024x1024", 4), ("448x448", 4))
    first, again, other = (place_entries(_case(Placement.CHURNED, images=images, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert sum(len(ids.runs) for ids in first.values()) > 5 * len(first)


def test_a_region_of_a_given_size_is_used():
    case = _case(region_bytes="10MiB")
    assert region_blocks_of(case) == (10 << 20) // 7168
    assert place_entries(case)
