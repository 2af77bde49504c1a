"""How long reports take: 10,000 samples in every format, and 1,000,000 samples into a DataFrame.

Run it as ``python benchmarks/report_speed.py``; it exits 1 where a limit is missed. Both times include reading
the JSON; the first includes importing what the formats need.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ecbench.core.records import (
    CaseResult,
    Environment,
    LegResult,
    LegStatus,
    RoundTripResult,
    RunResult,
    Sample,
    Verify,
    to_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_FORMATS_LIMIT_S = 10.0
LOADING_LIMIT_S = 3.0
ROUNDS = 3
"""Best of so many loads: a shared machine's stalls are not ours."""


def result_with(cases: int, samples_per_leg: int) -> RoundTripResult:
    """A round trip of two directions per case."""
    return RunResult(
        schema_version=1,
        kind="roundtrip",
        started_at="2026-01-02T03:04:05+00:00",
        environment=Environment(
            device="cpu",
            device_name="host memory",
            torch="2.13.0",
            numpy="2.4.6",
            python="3.11.7",
            ecbench="0.1.0",
            driver=None,
            host_cpu="example",
            host_cpus=2,
            host_memory_bytes=1 << 34,
            last_level_cache_bytes=1 << 25,
            kernel="6.1",
            pinning="none",
            emulation=None,
        ),
        settings={"seed": 0},
        cases=[_case(number, samples_per_leg) for number in range(cases)],
    )


def _case(number: int, samples_per_leg: int) -> CaseResult:
    params = {"engine": "memmove", "block_size_bytes": 4096 << number % 8, "count": 64}
    legs = [_leg(direction, samples_per_leg) for direction in ("save", "load")]
    return CaseResult(case_id=f"case-{number}", workload="ec", params=params, legs=legs)


def _leg(direction: str, samples: int) -> LegResult:
    return LegResult(
        direction=direction,
        status=LegStatus.PASSED,
        engine="memmove",
        writer="numpy-batch",
        samples=[_sample(number) for number in range(samples)],
        blocks=64,
        descriptors=8,
        copied_bytes=64 << 16,
        verify=Verify(
            ok=True,
            checked_bytes=1 << 22,
            mismatched_bytes=0,
            source_changed=False,
            stray_bytes=0,
            fault=None,
            first_mismatch=None,
        ),
    )


def _sample(number: int) -> Sample:
    seconds = 0.01 + 1e-6 * (number * 7919 % 1009)
    return Sample(
        process=0,
        round=number,
        total_s=seconds,
        fill_s=seconds / 100,
        submit_s=seconds / 200,
        copy_s=seconds * 0.95,
        ceiling_s=0.009,
    )


def _in_all_formats(path: Path, out: Path) -> None:
    from ecbench.report.formats.names import ReportFormat  # noqa: PLC0415 - its import is part of what is timed
    from ecbench.workflows.reporting import load_report, write_report  # noqa: PLC0415 - likewise

    write_report(load_report([path]), out, list(ReportFormat))


def _load_million(path: Path) -> None:
    import ecbench  # noqa: PLC0415 - as a notebook does it

    assert len(ecbench.load(path)) == 1_000_000


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> int:
    """Prints both times beside their limits."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, large = folder / "small.json", folder / "large.json"
        small.write_bytes(to_json(result_with(cases=20, samples_per_leg=250)))
        formats_s = _seconds(lambda: _in_all_formats(small, folder / "out"))
        large.write_bytes(to_json(result_with(cases=100, samples_per_leg=5000)))
        loading_s = min(_seconds(lambda: _load_million(large)) for _ in range(ROUNDS))
    print(f"10,000 samples in all formats:        {formats_s:5.2f} s (limit {ALL_FORMATS_LIMIT_S:.0f} s)")
    print(f"1,000,000 samples into a DataFrame:   {loading_s:5.2f} s (limit {LOADING_LIMIT_S:.0f} s)")
    return int(formats_s > ALL_FORMATS_LIMIT_S or loading_s > LOADING_LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
