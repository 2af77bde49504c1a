"""Results made up for comparisons: as many processes, rounds, slowdowns and differences as a test asks for."""

from __future__ import annotations

import random

import msgspec

from ecbench.core.records import CaseResult, Environment, LegResult, LegStatus, RunResult, Sample, Verify
from ecbench.stats.summary import recompute

ENVIRONMENT = Environment(
    device="cpu",
    device_name="host memory",
    torch="2.13.0",
    numpy="2.4.6",
    python="3.11.7",
    ecbench="0.1.0",
    driver=None,
    host_cpu="Example CPU",
    host_cpus=8,
    host_memory_bytes=64 << 30,
    last_level_cache_bytes=32 << 20,
    kernel="6.1.0",
    pinning="none: host to host",
    emulation=None,
)
PARAMS = {
    "model": "example",
    "images": ["2 x 336x336"],
    "engine": "auto",
    "writer": "numpy-batch",
    "rounds": 7,
    "seed": 0,
}
CHECKED_BYTES_PER_ROUND = 4096


def samples(*, processes=1, rounds=7, slowdown=0.0, noise=0.01, seed=0):
    draw = random.Random(seed)
    made = []
    for process in range(processes):
        for number in range(rounds):
            total = 1e-3 * (1 + slowdown) * (1 + draw.uniform(-noise, noise))
            made.append(
                Sample(
                    process=process,
                    round=number,
                    total_s=total,
                    fill_s=total / 100,
                    submit_s=total / 50,
                    copy_s=total * 0.9,
                    ceiling_s=0.8e-3,
                )
            )
    return made


def leg(direction="save", *, processes=1, rounds=7, slowdown=0.0, noise=0.01, seed=0, **changes):
    verified = processes * (rounds + 1)
    fields = {
        "direction": direction,
        "status": LegStatus.PASSED,
        "engine": "memmove",
        "writer": "numpy-batch",
        "samples": samples(processes=processes, rounds=rounds, slowdown=slowdown, noise=noise, seed=seed),
        "blocks": 288,
        "descriptors": 2,
        "copied_bytes": 884_736,
        "verify": Verify(
            ok=True,
            checked_bytes=CHECKED_BYTES_PER_ROUND * verified,
            mismatched_bytes=0,
            source_changed=False,
            stray_bytes=0,
            fault=None,
            first_mismatch=None,
        ),
    }
    return LegResult(**{**fields, **changes})


def failed_leg(direction="save"):
    return leg(direction, status=LegStatus.FAILED, reason="bytes are wrong: swapped, first at byte 4096")


def case(*legs, case_id="tiny/example", **params):
    return CaseResult(case_id=case_id, workload="ec", params={**PARAMS, **params}, legs=list(legs))


def result(*cases, environment=None, settings=None, complete=True, started_at="2026-01-02T03:04:05+00:00"):
    return recompute(
        RunResult(
            schema_version=1,
            kind="roundtrip",
            started_at=started_at,
            environment=msgspec.structs.replace(ENVIRONMENT, **(environment or {})),
            settings=settings or {"seed": 0},
            cases=list(cases),
            complete=complete,
        )
    )


def slower_result(slowdown, *, processes=8, **changes):
    """The case of `base_result`, slower, with noise of its own."""
    return result(case(leg(processes=processes, slowdown=slowdown, seed=round(slowdown * 100) + 1)), **changes)


def base_result(*, processes=8, **changes):
    return result(case(leg(processes=processes)), **changes)


def noisy_result():
    """As fast as `base_result`, with process rounds that differ by half."""
    return result(case(leg(processes=8, rounds=1, noise=0.6, seed=1)))
