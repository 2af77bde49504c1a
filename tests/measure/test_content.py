from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.measure.content import CHUNK_WORDS, POISON_BYTE, content_bytes, round_key, word_offset, write_words

KEYS = st.integers(0, 2**64 - 1)


@given(KEYS, st.integers(0, 2**40))
def test_every_word_tells_its_offset(key, first_word):
    words = np.empty(5, dtype=np.uint64)
    write_words(key, first_word, words)
    assert [word_offset(int(word), key) for word in words] == list(range(first_word, first_word + 5))


@given(KEYS, st.integers(0, 100), st.integers(0, 100))
def test_any_byte_range_is_a_slice_of_the_whole(key, offset, size):
    whole = content_bytes(key, 0, 200)
    assert content_bytes(key, offset, size).tobytes() == whole[offset : offset + size].tobytes()


def test_long_content_continues_across_chunks():
    words = np.empty(3 * CHUNK_WORDS + 5, dtype=np.uint64)
    write_words(1, 7, words)
    assert (np.diff(words) == words[1] - words[0]).all()


def test_a_word_of_another_round_decodes_to_nowhere():
    keys = [round_key(0, "case", number) for number in range(200)]
    content = content_bytes(keys[0], 0, 8).view(np.uint64)
    assert all(word_offset(int(content[0]), key) > 2**40 for key in keys[1:])


def test_keys_depend_on_every_label():
    labels = [(0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2), (0, "a1"), (0, "a", "1", "")]
    assert len({round_key(*label) for label in labels}) == len(labels)


def test_no_word_of_a_gigabyte_looks_like_poison():
    poison = int.from_bytes(bytes([POISON_BYTE]) * 8, "little")
    for number in range(100):
        assert word_offset(poison, round_key(0, number)) > 2**30


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4096, 262_144 + 13])
@pytest.mark.parametrize("misalignment", [0, 1, 4])
def test_memory_knows_its_own_content(size, misalignment):
    from ecbench.measure.memory import HostMemory

    array = np.zeros(size + misalignment, dtype=np.uint8)[misalignment:]
    memory = HostMemory(array)
    memory.write_content(3)
    assert array.tobytes() == content_bytes(3, 0, size).tobytes()
    assert memory.holds_content(3)
    if size:
        array[size // 2] ^= 1
        assert not memory.holds_content(3)
