"""The lookup of many requests at once agrees with a search chunk by chunk, and the proof with trying everything."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ecbench.kv_offload import advertised_boundaries, look_up, plan_load, prove
from ecbench.kv_offload.lookup import Lookup
from tests.property.kv_brute_force import hit_tokens, needed_chunks, used_chunks
from tests.property.kv_hybrids import plans


@given(plans(), st.data())
@settings(max_examples=150, deadline=None)
def test_requests_looked_up_together_hit_what_each_hits_alone(plan, data):
    tokens = plan.prompt.tokens
    shared = np.array(data.draw(st.lists(st.integers(0, tokens), min_size=1, max_size=12)))
    lengths = shared + np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(shared), max_size=len(shared))))
    lengths = np.maximum(lengths, 1)
    together = Lookup(plan.groups).hits(lengths, shared).tokens
    assert together.tolist() == [
        hit_tokens(plan, *pair) for pair in zip(lengths.tolist(), shared.tolist(), strict=True)
    ]


@given(plans())
@settings(max_examples=150, deadline=None)
def test_the_proof_names_exactly_the_boundaries_that_do_not_load(plan):
    extra = plan.layout.eagle_chunk_tokens
    unfit = {}
    for boundary in advertised_boundaries(plan).tolist():
        hit = hit_tokens(plan, boundary + extra + 1, boundary + extra)
        stored = [set(group.chunk_ids().tolist()) for group in plan.groups]
        whole = all(needed_chunks(group, hit) <= kept for group, kept in zip(plan.groups, stored, strict=True))
        if hit < boundary or not whole:
            unfit[boundary] = hit
    proof = prove(plan)
    assert {found.boundary_tokens: found.hit_tokens for found in proof.not_loadable} == unfit
    assert proof.ok == (not unfit)


@given(plans())
@settings(max_examples=100, deadline=None)
def test_chunks_are_unused_where_no_request_of_any_length_has_a_use_for_them(plan):
    used = [set() for _ in plan.groups]
    for shared in range(1, plan.prompt.tokens + 1):
        for length in (shared, shared + 1, shared + 2, shared + 50):
            hit = hit_tokens(plan, length, shared)
            for index, group in enumerate(plan.groups):
                used[index] |= used_chunks(group, hit, shared) if hit else set()
    unused = [len(set(group.chunk_ids().tolist()) - chunks) for group, chunks in zip(plan.groups, used, strict=True)]
    assert list(prove(plan).not_used_by_replays_by_group) == unused


@given(plans())
@settings(max_examples=100, deadline=None)
def test_a_replay_hits_what_the_proof_says_and_loads_only_stored_chunks(plan):
    replay = look_up(plan, plan.prompt.tokens + 1)
    proof = prove(plan)
    assert replay.tokens == proof.replay_hit_tokens == hit_tokens(plan, plan.prompt.tokens + 1, plan.prompt.tokens)
    for group, load in zip(plan.groups, plan_load(plan, replay.tokens), strict=True):
        assert group.stored[load.first_chunk : load.end_chunk].all()
        assert 0 <= load.skipped_blocks < group.layout.blocks_per_chunk
