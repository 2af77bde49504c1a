"""A fixed sweep: two engines with known costs over block size and count, and one cell of each other status."""

from __future__ import annotations

from itertools import product

from msgspec.structs import replace

from ecbench.core.records import CaseResult, LegResult, LegStatus, Sample
from ecbench.core.sweep_records import SweepResult
from ecbench.stats.sweep_model import with_model
from tests.report.samples import sample_result, verified

SIZES = [4096, 8192, 16384, 65536, 262144]
COUNTS = [64, 512, 4096]
ENGINES = {"memmove": (20e-6, 0.6e-6, 8e9), "gather": (120e-6, 0.05e-6, 6e9)}
"""Seconds per batch, seconds per descriptor, bytes per second."""
_WOBBLE = (1.0, 1.02, 0.99, 1.05, 0.985, 1.01, 1.03, 0.995)


def _samples(seconds, descriptor_s, copied_bytes, rounds):
    return [
        Sample(
            process=0,
            round=number,
            total_s=seconds * wobble,
            fill_s=descriptor_s * 0.4,
            submit_s=descriptor_s * 0.2,
            copy_s=seconds * wobble - descriptor_s * 0.7,
            ceiling_s=(5e-6 + copied_bytes / 9e9) * _WOBBLE[-1 - number % len(_WOBBLE)],
        )
        for number, wobble in zip(range(rounds), _WOBBLE * (1 + rounds // len(_WOBBLE)), strict=False)
    ]


def _leg(direction, engine, size, count, rounds):
    fixed_s, per_descriptor_s, bandwidth = ENGINES[engine]
    factor = 1.0 if direction == "save" else 1.15
    seconds = factor * (fixed_s + count * per_descriptor_s + size * count / bandwidth)
    return LegResult(
        direction=direction,
        status=LegStatus.PASSED,
        engine=engine,
        writer="numpy-batch",
        samples=_samples(seconds, count * per_descriptor_s, size * count, rounds),
        blocks=count,
        descriptors=count,
        copied_bytes=size * count,
        verify=verified(),
    )


def _cell(engine, size, count, rounds):
    params = {
        "engine": engine,
        "block_size_bytes": size,
        "count": count,
        "run_length": 1,
        "byte_offset": 0,
        "coalesce": True,
        "host_memory": "pageable",
        "writer": "numpy-batch",
    }
    legs = [_leg(direction, engine, size, count, rounds) for direction in ("save", "load")]
    case_id = f"grid/{size // 1024}KiBx{count},{engine}"
    return CaseResult(case_id=case_id, workload="copies", params=params, legs=legs)


def sweep_result(sizes=SIZES, counts=COUNTS, engines=tuple(ENGINES), rounds=8, *, damaged=True) -> SweepResult:
    """Every combination; the last cell was skipped, and those before it refused and wrong, where there are enough."""
    cells = [_cell(engine, size, count, rounds) for engine, size, count in product(engines, sizes, counts)]
    if damaged:
        cells[-3:] = _damaged(cells[-3:])
    base = sample_result(cases=[])
    return with_model(
        SweepResult(
            **{
                **{name: getattr(base, name) for name in base.__struct_fields__},
                "kind": "sweep",
                "settings": {"scenario": "grid", "seed": 0},
                "cases": cells,
                "axes": {"engine": list(engines), "block_size": list(sizes), "count": list(counts)},
                "fits": [],
                "coalescing": [],
                "crossovers": [],
                "model_notes": [],
            }
        )
    )


def _damaged(cells):
    wrong, refused, skipped = cells
    no_time = {"samples": [], "descriptors": 0, "verify": None}
    return [
        replace(
            wrong, legs=[replace(leg, status=LegStatus.FAILED, reason="bytes are wrong: torn") for leg in wrong.legs]
        ),
        replace(
            refused,
            legs=[replace(leg, status=LegStatus.ERROR, reason="no room: use less", **no_time) for leg in refused.legs],
        ),
        replace(
            skipped,
            legs=[replace(leg, status=LegStatus.SKIPPED, reason="not here", **no_time) for leg in skipped.legs],
        ),
    ]
