"""A fixed result with a leg of every status."""

from __future__ import annotations

from ecbench.core.records import (
    CaseResult,
    Environment,
    Fault,
    LegResult,
    LegStatus,
    Mismatch,
    RoundTripResult,
    RunResult,
    Sample,
    Verify,
)
from ecbench.stats.summary import recompute

EMULATION = "xpu-sim: host memory under addresses with bit 63 set; no Intel GPU took part"


def _samples(totals):
    return [
        Sample(
            process=0,
            round=number,
            total_s=total,
            fill_s=total / 100,
            submit_s=total / 200,
            copy_s=total * 0.95,
            ceiling_s=0.009,
        )
        for number, total in enumerate(totals)
    ]


def verified(**changes):
    values = {
        "ok": True,
        "checked_bytes": 1 << 28,
        "mismatched_bytes": 0,
        "source_changed": False,
        "stray_bytes": 0,
        "fault": None,
        "first_mismatch": None,
    }
    return Verify(**{**values, **changes})


def _leg(direction, status, **fields):
    return LegResult(direction=direction, status=status, blocks=10952, copied_bytes=78_503_936, **fields)


_PASSED = _leg(
    "save",
    LegStatus.PASSED,
    engine="memmove",
    writer="numpy-batch",
    samples=_samples([0.010, 0.0101, 0.0099, 0.0105, 0.0098, 0.0102, 0.01]),
    descriptors=8,
    verify=verified(),
    notes=[EMULATION],
)
_FAILED = _leg(
    "load",
    LegStatus.FAILED,
    engine="gather",
    writer="numpy-batch",
    reason="bytes are wrong: swapped, first at byte 4096",
    samples=_samples([0.02]),
    descriptors=10952,
    verify=verified(
        ok=False,
        mismatched_bytes=14336,
        fault=Fault.SWAPPED,
        fault_counts={"swapped": 2},
        first_mismatch=Mismatch(descriptor=0, offset_bytes=4096, expected=17, found=34),
    ),
    notes=["working set of 20.0 MiB fits the last-level cache of 32.0 MiB"],
)
_ERROR = _leg(
    "save", LegStatus.ERROR, writer="setitem", reason="writer setitem: torch | refused <an> address: use another"
)
_SKIPPED = _leg("load", LegStatus.SKIPPED, reason="not asked for")


def _case(case_id, *legs, model="qwen2.5-vl-7b"):
    params = {
        "model": model,
        "images": ["8 x 1024x1024"],
        "placement": "one-run",
        "coalesce": True,
        "block_size_bytes": 7168,
        "engine": "auto",
        "writer": "numpy-batch",
        "rounds": 7,
        "seed": 0,
    }
    return CaseResult(case_id=case_id, workload="ec", params=params, legs=list(legs))


def sample_result(**changes) -> RoundTripResult:
    environment = Environment(
        device="xpu-sim",
        device_name="emulated Intel XPU",
        torch="2.13.0+cpu",
        numpy="2.4.6",
        python="3.11.7",
        ecbench="0.1.0",
        driver=None,
        host_cpu="Example CPU",
        host_cpus=2,
        host_memory_bytes=24 << 30,
        last_level_cache_bytes=32 << 20,
        kernel="6.1.0",
        pinning="none: host to host",
        emulation=EMULATION,
        stand_ins=["torch.Event"],
    )
    fields = {
        "schema_version": 1,
        "kind": "roundtrip",
        "started_at": "2026-01-02T03:04:05+00:00",
        "environment": environment,
        "settings": {"seed": 0},
        "cases": [_case("ec-image-set/qwen2.5-vl-7b", _PASSED, _FAILED), _case("odd/<b>|`x`", _ERROR, _SKIPPED)],
        "complete": False,
        "stages_s": {"imports": 1.5, "copy": 0.25, "other": 0.25},
    }
    return recompute(RunResult(**{**fields, **changes}))
