"""Cells whose times follow from known constants."""

from __future__ import annotations

import numpy as np

from ecbench.core.records import CaseResult, LegResult, LegStatus, Sample
from ecbench.stats.cost_model import Observation

KIB = 1024
SIZES = [KIB, 4 * KIB, 16 * KIB, 64 * KIB]
COUNTS = [1, 16, 128, 1024]


def seconds_of(descriptors, copied_bytes, fixed_s, descriptor_s, bandwidth):
    return fixed_s + descriptors * descriptor_s + copied_bytes / bandwidth


def observations(fixed_s, descriptor_s, bandwidth, *, noise=0.0, seed=0, sizes=SIZES, counts=COUNTS):
    draw = np.random.default_rng(seed)
    return [
        Observation(
            f"{size}x{count}",
            count,
            size * count,
            seconds_of(count, size * count, fixed_s, descriptor_s, bandwidth)
            * float(np.exp(noise * draw.standard_normal())),
        )
        for size in sizes
        for count in counts
    ]


def cell(
    engine, size, count, seconds, *, run_length=1, apart=False, direction="save", status=LegStatus.PASSED, offset=0
):
    """A cell of one direction as a sweep reports it, with three equal samples."""
    samples = [
        Sample(process=0, round=number, total_s=seconds, fill_s=0, submit_s=0, copy_s=seconds, ceiling_s=seconds)
        for number in range(3)
    ]
    return CaseResult(
        case_id=f"fake/{size}x{count},{run_length},{apart},{engine}",
        workload="copies",
        params={
            "block_size_bytes": size,
            "count": count,
            "run_length": run_length,
            "byte_offset": offset,
            "coalesce": not apart,
            "host_memory": "pageable",
        },
        legs=[
            LegResult(
                direction=direction,
                status=status,
                engine=engine,
                writer="numpy-batch",
                samples=samples,
                blocks=count,
                descriptors=count if apart else -(-count // run_length),
                copied_bytes=size * count,
            )
        ],
    )
