from __future__ import annotations

import pytest

from ecbench import EcbenchError
from ecbench.encoder_cache.region import region_blocks


@pytest.mark.parametrize(("capacity", "blocks"), [(7168, 1), (7169, 1), (14335, 1), (14336, 2)])
def test_a_capacity_that_is_no_multiple_holds_whole_blocks(capacity, blocks):
    assert region_blocks(capacity, 7168) == blocks


@pytest.mark.parametrize("capacity", [7167, 0, -1])
def test_a_capacity_below_one_block_is_refused_with_both_numbers(capacity):
    with pytest.raises(EcbenchError, match=rf"{capacity} bytes is below one block of 7168 bytes"):
        region_blocks(capacity, 7168)
