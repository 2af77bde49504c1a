from __future__ import annotations

import contextlib
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench import EcbenchError
from ecbench.encoder_cache import EmbeddingCache, coalesce
from tests.conftest import GOLDEN

TRACES = (GOLDEN / "embedding_cache_vllm_0.33.0.jsonl").read_text().splitlines()


def _replay(cache, op):
    name, key, *rest = op
    try:
        if name == "alloc":
            ids = cache.alloc(key, rest[0])
            return None if ids is None else list(ids)
        getattr(cache, name)(key)
    except EcbenchError:
        return "refused"
    return "ok"


def test_the_traces_of_the_real_allocator_replay_exactly():
    assert len(TRACES) == 250
    for line in TRACES:
        trace = json.loads(line)
        cache = EmbeddingCache(trace["num_blocks"])
        for op in trace["ops"]:
            assert _replay(cache, op) == op[-1], op
        assert sorted(cache.keys) == sorted(trace["live"])


def test_the_save_descriptors_of_the_real_engine_come_out_exactly():
    checked = 0
    for line in TRACES:
        for save in json.loads(line)["save_descriptors"]:
            got = coalesce(save["block_ids"], save["block_size_bytes"], save["total_bytes"])
            assert [list(copy) for copy in got] == save["descriptors"]
            checked += 1
    assert checked == 1379


@pytest.mark.behaviour(18)
def test_ids_are_unique_and_ascend():
    cache = EmbeddingCache(10)
    first, second = cache.alloc("a", 4), cache.alloc("b", 6)
    assert list(first) == sorted(first)
    assert list(second) == sorted(second)
    assert sorted([*first, *second]) == list(range(10))


@pytest.mark.behaviour(19)
def test_a_full_cache_gives_none():
    cache = EmbeddingCache(4)
    cache.alloc("a", 3)
    assert cache.alloc("b", 2) is None
    assert cache.alloc("c", 1) == [0]


@pytest.mark.behaviour(20)
@pytest.mark.parametrize(("key", "blocks"), [("a", 1), ("b", 5), ("b", -1)])
def test_a_duplicate_an_over_capacity_and_a_negative_allocation_are_refused(key, blocks):
    cache = EmbeddingCache(4)
    cache.alloc("a", 1)
    with pytest.raises(EcbenchError, match=f"entry {key!r}"):
        cache.alloc(key, blocks)
    assert cache.free_blocks == 3


@pytest.mark.behaviour(21)
def test_zero_blocks_are_an_empty_allocation():
    cache = EmbeddingCache(0)
    assert cache.alloc("a", 0) == []
    cache.mark_ready("a")
    cache.pin("a")
    assert "a" in cache


@pytest.mark.behaviour(22)
def test_an_entry_is_ready_once_it_is_marked_and_can_be_marked_once():
    cache = EmbeddingCache(4)
    cache.alloc("a", 1)
    assert not cache.is_ready("a")
    cache.mark_ready("a")
    assert cache.is_ready("a")
    with pytest.raises(EcbenchError, match="ready already"):
        cache.mark_ready("a")
    for use in (cache.mark_ready, cache.pin, cache.unpin, cache.discard, cache.block_ids):
        with pytest.raises(EcbenchError, match="no entry 'unknown'"):
            use("unknown")


@pytest.mark.behaviour(23)
def test_an_entry_that_is_not_ready_cannot_be_pinned():
    cache = EmbeddingCache(4)
    cache.alloc("a", 1)
    with pytest.raises(EcbenchError, match="not ready"):
        cache.pin("a")


@pytest.mark.behaviour(24)
def test_pins_nest_and_cannot_go_below_zero():
    cache = EmbeddingCache(1)
    cache.alloc("a", 1)
    cache.mark_ready("a")
    cache.pin("a")
    cache.pin("a")
    cache.unpin("a")
    assert cache.alloc("b", 1) is None
    cache.unpin("a")
    with pytest.raises(EcbenchError, match="no pin"):
        cache.unpin("a")
    assert cache.alloc("b", 1) == [0]


def _ready(cache, *keys):
    for key in keys:
        cache.alloc(key, 1)
        cache.mark_ready(key)


@pytest.mark.behaviour(25)
def test_the_oldest_entry_goes_first_and_held_ones_stay():
    cache = EmbeddingCache(4)
    _ready(cache, "old", "pinned", "young")
    cache.alloc("saving", 1)
    cache.pin("pinned")
    cache.alloc("new", 1)
    assert cache.keys == ["pinned", "young", "saving", "new"]


def test_an_unpinned_entry_is_the_youngest_again():
    cache = EmbeddingCache(2)
    _ready(cache, "a", "b")
    cache.pin("a")
    cache.unpin("a")
    cache.alloc("c", 1)
    assert cache.keys == ["a", "c"]


@pytest.mark.behaviour(26)
def test_nothing_is_evicted_where_room_cannot_be_made():
    cache = EmbeddingCache(4)
    _ready(cache, "a", "b")
    cache.pin("b")
    cache.alloc("saving", 2)
    assert cache.alloc("c", 2) is None
    assert cache.keys == ["a", "b", "saving"]


@pytest.mark.behaviour(27)
def test_eight_threads_never_share_a_block():
    cache = EmbeddingCache(64)
    held: list[set[int]] = [set() for _ in range(8)]
    clashes, finished = [], []

    def work(me):
        for number in range(400):
            key = f"{me}-{number}"
            ids = cache.alloc(key, 1 + number % 7)
            if ids is None:
                continue
            held[me] = set(ids)
            clashes.extend(held[me] & held[other] for other in range(8) if other != me and held[me] & held[other])
            held[me] = set()
            if number % 2:
                cache.mark_ready(key)
                with contextlib.suppress(EcbenchError):  # another thread may have evicted it already
                    cache.pin(key)
                    cache.unpin(key)
            else:
                cache.discard(key)
        finished.append(me)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(finished) == list(range(8))
    assert clashes == []
    assert cache.free_blocks + sum(len(cache.block_ids(key)) for key in cache.keys) == 64


def test_a_discarded_entry_gives_its_blocks_back_and_a_ready_one_is_not_discarded():
    cache = EmbeddingCache(4)
    cache.alloc("a", 4)
    cache.discard("a")
    assert cache.free_blocks == 4
    _ready(cache, "b")
    with pytest.raises(EcbenchError, match="is ready"):
        cache.discard("b")


def test_a_negative_region_is_refused():
    with pytest.raises(EcbenchError, match="-1 blocks"):
        EmbeddingCache(-1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["alloc", "mark_ready", "pin", "unpin", "discard"]), st.integers(0, 5), st.integers(0, 9)
        )
    )
)
def test_whatever_is_asked_no_block_is_lost_or_given_twice(ops):
    cache = EmbeddingCache(8)
    for name, key, blocks in ops:
        _replay(cache, (name, f"k{key}", blocks) if name == "alloc" else (name, f"k{key}"))
        owned = [block for key in cache.keys for block in cache.block_ids(key)]
        assert len(owned) == len(set(owned))
        assert len(owned) + cache.free_blocks == 8
