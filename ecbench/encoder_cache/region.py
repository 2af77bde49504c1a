"""The encoder cache's region: blocks of one embedding row in shared memory (`ecbench.transfer.shared_region`)."""

from __future__ import annotations

from ecbench.core.errors import EcbenchError
from ecbench.transfer.shared_region import (
    SHM_DIRECTORY,
    RegionHandle,
    SharedRegion,
    attach_region,
    create_region,
    shm_free_bytes,
)

__all__ = [
    "SHM_DIRECTORY",
    "RegionHandle",
    "SharedRegion",
    "attach_region",
    "create_region",
    "region_blocks",
    "shm_free_bytes",
]


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
