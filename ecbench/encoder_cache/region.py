"""How many blocks of one embedding row a region holds."""

from __future__ import annotations

from ecbench.core.errors import EcbenchError


def region_blocks(capacity_bytes: int, block_size_bytes: int) -> int:
    """How many blocks a capacity holds.

    Args:
        capacity_bytes: Host bytes granted to the region (the engine's ``ec_cpu_bytes``).
        block_size_bytes: Bytes of one block.

    Raises:
        EcbenchError: Less than one block fits.
    """
    if capacity_bytes < block_size_bytes:
        raise EcbenchError(
            f"region capacity of {capacity_bytes} bytes is below one block of {block_size_bytes} bytes: "
            f"give at least {block_size_bytes}"
        )
    return capacity_bytes // block_size_bytes
