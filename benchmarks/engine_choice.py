"""Where `gather` beats `memmove` on this host: the numbers behind `ecbench.engine.copy_engines.auto.HOST_CHOICE`.

    python benchmarks/engine_choice.py

Prints the time of `memmove` over that of `gather` for scattered blocks, by block size and count; above 1, `gather`
is ahead. Both run in turn on the same memory.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import DescriptorBatch, Direction
from ecbench.engine.copy_engines.host import GatherEngine, MemmoveEngine
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.transfer.addresses import address_of
from ecbench.transfer.descriptor_arrays import DescriptorArrayPool
from ecbench.transfer.writers import find_writer

KIB = 1024
BLOCK_SIZES = (3 * KIB, 7 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)
COUNTS = (4, 16, 64, 128, 256, 512, 4096)
MAX_BYTES = 256 << 20
ROUNDS = 9


def ratio(device: CpuDevice, block: int, count: int) -> float:
    """Time of `memmove` over time of `gather`, preparation included."""
    ids = np.random.default_rng(0).permutation(2 * count)[:count]
    plan = CopyPlan(np.arange(count) * block, ids * block, np.full(count, block), count * block, 2 * count * block)
    source, destination = device.empty(plan.source_bytes), device.empty(plan.destination_bytes)
    arrays = DescriptorArrayPool(device.pointer_dtype).acquire(count)
    find_writer("numpy-batch").write(arrays, 0, plan, address_of(source), address_of(destination))
    columns = [tensor[:count] for tensor in arrays.tensors]
    batch = DescriptorBatch(Direction.TO_HOST, *columns, (source,), (destination,))
    times: dict[str, list[float]] = {"memmove": [], "gather": []}
    for _ in range(ROUNDS):
        for engine in (MemmoveEngine(), GatherEngine()):
            began = time.perf_counter()
            engine.prepare(batch).run(device.current_stream())
            times[engine.name].append(time.perf_counter() - began)
    return median(times["memmove"]) / median(times["gather"])


def main() -> None:
    """Prints the table."""
    device = CpuDevice()
    print("block     " + "".join(f"{count:>8}" for count in COUNTS))
    for block in BLOCK_SIZES:
        cells = [
            f"{ratio(device, block, count):8.2f}" if 3 * block * count <= MAX_BYTES else f"{'-':>8}" for count in COUNTS
        ]
        print(f"{block // KIB:4} KiB  {''.join(cells)}")


if __name__ == "__main__":
    main()
