"""Seeded content whose every 8 bytes tell the round and the offset they belong to.

Word ``i`` of a round is ``key + i * MULTIPLIER`` modulo 2**64. The multiplier is odd, so the mapping can be undone: a
word and a key give the one offset the word can come from, which is how a misplaced or outdated block is recognised.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD_BYTES = 8
POISON_BYTE = 0xA5
"""Fills destinations and guards before a copy."""
MULTIPLIER = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio, made odd: neighbouring words differ in about half of their bits."""
_MODULUS = 1 << 64
_INVERSE = np.uint64(pow(MULTIPLIER, -1, _MODULUS))
CHUNK_WORDS = 1 << 15
"""256 KiB of words: a chunk and its comparison stay in a core's second-level cache."""
_RAMP = np.arange(CHUNK_WORDS, dtype=np.uint64) * np.uint64(MULTIPLIER)
_RAMP.flags.writeable = False


def round_key(seed: int, *labels: str | int) -> int:
    """Derives the key of a round.

    Args:
        seed: The run's seed.
        labels: Whatever sets this round apart: case, direction, round number.

    Returns:
        An integer from 0 to 2**64 - 1.
    """
    text = "\x00".join(map(str, (seed, *labels)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def word_key(key: int, first_word: int) -> np.uint64:
    """The value of word ``first_word`` of a round; a ramp added to it gives the words that follow."""
    return np.uint64((key + first_word * MULTIPLIER) % _MODULUS)


def write_words(key: int, first_word: int, out: NDArray[np.uint64]) -> None:
    """Writes the content of consecutive words.

    Args:
        key: The round's key.
        first_word: Offset of the first word, in words.
        out: uint64, shape ``(words,)``; overwritten.
    """
    for start in range(0, len(out), CHUNK_WORDS):
        part = out[start : start + CHUNK_WORDS]
        np.add(_RAMP[: len(part)], word_key(key, first_word + start), out=part)


def content_bytes(key: int, offset: int, size: int) -> NDArray[np.uint8]:
    """The content of any byte range, aligned or not.

    Args:
        key: The round's key.
        offset: First byte.
        size: Bytes.

    Returns:
        uint8, shape ``(size,)``.
    """
    first_word = offset // WORD_BYTES
    words = np.empty(-(-(offset + size) // WORD_BYTES) - first_word, dtype=np.uint64)
    write_words(key, first_word, words)
    lead = offset - first_word * WORD_BYTES
    return words.view(np.uint8)[lead : lead + size]


def word_offset(word: int, key: int) -> int:
    """Undoes the content: the word offset at which a round holds a value; far outside any buffer for a foreign one."""
    return (word - key) * int(_INVERSE) % _MODULUS
