"""The Triton kernel; imported only where Triton is."""

# No postponed annotations here: Triton reads them as objects. And no import statement, so that type checking gives the
# same answer with and without Triton.
from importlib import import_module
from typing import Any

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

WORDS_PER_STEP = 512
"""64-bit words a program moves at a time: 4 KiB, about the smallest realistic block."""


@triton.jit  # type: ignore[untyped-decorator]
def copy_words(sources, destinations, sizes, count, WORDS: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    """Copies whole 64-bit words by absolute address, descriptors spread over the programs.

    Args:
        sources: Addresses, int64, shape ``(count,)``.
        destinations: Addresses, int64, shape ``(count,)``.
        sizes: Bytes, int64, shape ``(count,)``, multiples of 8.
        count: Descriptors.
        WORDS: Words per step.
    """
    lanes = tl.arange(0, WORDS)
    for copy in range(tl.program_id(0), count, tl.num_programs(0)):
        source = tl.load(sources + copy).to(tl.pointer_type(tl.int64))
        destination = tl.load(destinations + copy).to(tl.pointer_type(tl.int64))
        words = tl.load(sizes + copy) // 8
        for start in range(0, words, WORDS):
            inside = start + lanes < words
            tl.store(destination + start + lanes, tl.load(source + start + lanes, mask=inside), mask=inside)
