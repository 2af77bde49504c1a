"""Targets side by side within one round trip: how much longer one takes than the reference, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.records import LegStatus
from ecbench.report.figures import ABSENT
from ecbench.stats.ratios import time_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecbench.core.records import CaseResult, LegResult, RoundTripResult

PARTS = ("total", "fill", "submit", "copy")
TARGET_COLUMNS = ("case", "leg", *PARTS)
TARGET_HEADING = "Time over the reference's"
TARGET_LEAD = "1.5 is half as long again; in brackets the 95% interval, from seven rounds on"
_ROUNDS_OF_AN_INTERVAL = 7
"""The least for which both medians have an interval at the level that a ratio of the two needs."""


def target_rows(result: RoundTripResult) -> list[tuple[str, ...]]:
    """A row per direction that ran on the reference and on another target, in the order of the cases."""
    return [
        (case.case_id, leg.direction, *(_ratio_text(base, leg, part) for part in PARTS))
        for case, leg, base in _matched(result)
    ]


def _matched(result: RoundTripResult) -> Iterator[tuple[CaseResult, LegResult, LegResult]]:
    cases = {case.case_id: case for case in result.cases}
    for case in result.cases:
        target = case.params.get("target")
        base = cases.get(case.case_id.removesuffix(f"@{target}")) if target is not None else None
        if base is None:
            continue
        legs = {leg.direction: leg for leg in base.legs}
        yield from ((case, leg, legs[leg.direction]) for leg in case.legs if leg.direction in legs)


def _ratio_text(base: LegResult, leg: LegResult, part: str) -> str:
    """Wrong bytes have no speed, and a part that took no time has no ratio."""
    times = [[getattr(sample, f"{part}_s") for sample in side.samples] for side in (base, leg)]
    passed = base.status is LegStatus.PASSED and leg.status is LegStatus.PASSED
    if not passed or any(not side or min(side) <= 0 for side in times):
        return ABSENT
    ratio = time_ratio(*times)
    if min(map(len, times)) < _ROUNDS_OF_AN_INTERVAL:
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
