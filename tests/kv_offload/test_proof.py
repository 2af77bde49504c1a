from __future__ import annotations

import pytest

from ecbench.kv_offload import (
    MismatchKind,
    OffloadSettings,
    advertised_boundaries,
    find_mismatches,
    load_model,
    plan_store,
    policy_names,
    prove,
)
from tests.kv_offload.golden_runs import RUNS, plan_of, run_id
from tests.kv_offload.hybrids import group, hybrid

FLASH = load_model("deepseek-v4-flash")
EAGLE = load_model("deepseek-v4-flash", eagle=True)


def _prove(tokens, model=FLASH, **settings):
    return prove(plan_store(model, tokens, OffloadSettings(**settings)))


def _smallest(model, **settings):
    return {one.kind: one.prompt_tokens for one in find_mismatches(model, OffloadSettings(**settings))}


@pytest.mark.parametrize("run", RUNS, ids=run_id)
def test_the_proof_replays_what_the_scheduler_replayed(run):
    proof = prove(plan_of(run))
    assert proof.replay_hit_tokens == run["replay_hit_tokens"]
    assert proof.ok == (run["sliding_window"] % 64 != 1)


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("name", ["deepseek-v4-flash", "deepseek-v4-pro"])
@pytest.mark.parametrize("tokens", [2_048, 100_000])
def test_every_advertised_boundary_of_deepseek_v4_loads(name, policy, tokens):
    proof = _prove(tokens, load_model(name), policy=policy)
    assert proof.ok
    assert proof.boundaries_checked == tokens // 256
    assert proof.lost_tokens == 0


def test_boundaries_follow_the_retention_interval():
    def boundaries(tokens, retention, model=FLASH):
        settings = OffloadSettings(retention_interval=retention)
        return advertised_boundaries(plan_store(model, tokens, settings)).tolist()

    assert boundaries(1_030, None) == [256, 512, 768, 1024]
    assert boundaries(1_030, 0) == [1024]
    assert boundaries(1_024, 0) == [768]
    assert boundaries(1_300, 512) == [512, 1024, 1280]
    assert boundaries(256, 0) == []
    assert boundaries(1_087, None, EAGLE) == [256, 512, 768]
    assert boundaries(1_088, None, EAGLE) == [256, 512, 768, 1024]


@pytest.mark.parametrize("window", [65, 129, 193])
def test_windows_one_token_over_a_block_are_stored_and_never_loaded(window):
    proof = _prove(4_096, load_model("deepseek-v4-flash", sliding_window=window))
    assert not proof.ok
    assert proof.replay_hit_tokens == 0
    assert [found.boundary_tokens for found in proof.not_loadable] == list(range(256, 4_097, 256))
    assert {(found.hit_tokens, found.group) for found in proof.not_loadable} == {(0, "swa-a")}


@pytest.mark.parametrize("window", [64, 127, 128, 257])
def test_other_windows_load(window):
    proof = _prove(4_096, load_model("deepseek-v4-flash", sliding_window=window))
    assert proof.ok
    assert proof.replay_hit_tokens == 4_096


def test_of_all_windows_up_to_four_blocks_exactly_those_are_found():
    proofs = {window: _prove(512, load_model("deepseek-v4-flash", sliding_window=window)) for window in range(1, 258)}
    assert [window for window, proof in proofs.items() if not proof.ok] == [1, 65, 129, 193]


def test_the_pull_request_loads_with_every_window():
    for window in (1, 64, 65, 128, 129, 193):
        assert _prove(4_096, load_model("deepseek-v4-flash", sliding_window=window), policy="pr").ok


@pytest.mark.parametrize(("tokens", "hit"), [(2_048, 1_792), (30_208, 29_952)])
def test_eagle_loses_a_segment_of_an_aligned_prompt(tokens, hit):
    proof = _prove(tokens, EAGLE)
    assert (proof.ok, proof.replay_hit_tokens, proof.lost_tokens) == (True, hit, 256)


def test_the_default_retention_loses_the_last_boundary_of_an_aligned_prompt():
    proof = _prove(2_048, retention_interval=0)
    assert (proof.ok, proof.replay_hit_tokens, proof.lost_tokens) == (True, 1_792, 256)


def test_a_prompt_below_a_segment_stores_chunks_that_no_replay_uses():
    proof = _prove(200)
    assert (proof.ok, proof.not_used_by_replays) == (True, 22)
    assert proof.not_used_by_replays_by_group == (2, 2, 0, 2, 16)


def test_the_skip_of_the_pull_request_never_loads_with_eagle():
    proof = _prove(2_048, EAGLE, policy="pr")
    assert not proof.ok
    assert {found.group for found in proof.not_loadable} == {"swa-b"}


def test_chunks_larger_than_the_alignment_are_named():
    model = hybrid(group("full", "full", 16), group("window", "sliding", 64, 64))
    proof = _prove(64, model)
    assert [(found.boundary_tokens, found.group) for found in proof.not_loadable] == [
        (16, "window"),
        (32, "window"),
        (48, "window"),
    ]


def test_states_between_alignments_are_named():
    model = hybrid(group("full", "full", 16), group("states", "mamba", 32, mamba_cache_mode="align"))
    found = _prove(64, model, prefix_match_unit=16).not_loadable
    assert [(one.boundary_tokens, one.hit_tokens, one.group) for one in found] == [
        (16, 0, "states"),
        (48, 32, "states"),
    ]


def test_a_retention_interval_between_alignments_is_named():
    found = _prove(512, retention_interval=128).not_loadable
    assert [(one.boundary_tokens, one.hit_tokens, one.group) for one in found] == [(128, 0, "mla"), (384, 256, "mla")]


def test_each_mismatch_is_found_unaided_with_its_smallest_prompt():
    assert _smallest(FLASH) == {MismatchKind.NOT_USED_BY_REPLAYS: 4}
    assert _smallest(FLASH, retention_interval=0) == {MismatchKind.LOST: 256, MismatchKind.NOT_USED_BY_REPLAYS: 256}
    assert _smallest(EAGLE) == {MismatchKind.LOST: 256, MismatchKind.NOT_USED_BY_REPLAYS: 4}
    narrow = load_model("deepseek-v4-flash", sliding_window=65)
    assert _smallest(narrow)[MismatchKind.NOT_LOADABLE] == 256
    assert _smallest(narrow, retention_interval=0)[MismatchKind.NOT_LOADABLE] == 257


def test_no_shorter_prompt_shows_a_mismatch():
    cases = [(FLASH, {}), (FLASH, {"retention_interval": 0}), (EAGLE, {}), (EAGLE, {"policy": "pr"})]
    for model, settings in cases:
        for found in find_mismatches(model, OffloadSettings(**settings)):
            for tokens in range(max(found.prompt_tokens - 80, 1), found.prompt_tokens):
                proof = _prove(tokens, model, **settings)
                shown = {
                    MismatchKind.NOT_LOADABLE: len(proof.not_loadable),
                    MismatchKind.LOST: proof.lost_tokens,
                    MismatchKind.NOT_USED_BY_REPLAYS: proof.not_used_by_replays,
                }
                assert not shown[found.kind], (found, tokens)
