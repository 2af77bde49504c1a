"""The three questions of a reader: is it right, how far from the ceiling, and why."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ecbench.core.records import LegStatus
from ecbench.core.units import format_bytes, format_seconds
from ecbench.report.documents import Answer, Tone, counted
from ecbench.report.figures import verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ecbench.core.records import CaseResult, Environment, LegResult, RoundTripResult, Sample

RIGHT = "Is it right?"
HOW_FAR = "How far from the ceiling?"
WHY = "Why?"
_NAMED_FAULTS = 3
"""Bad legs that the first answer names; the tables hold all of them."""
_LEAST_SHARE = 0.005
"""Causes below this share would be shown as 0%."""
_AT_THE_CEILING = 0.98
"""From this share on there is no gap worth explaining: repeated medians differ by as much."""


def answers(result: RoundTripResult) -> tuple[Answer, ...]:
    """The questions with their answers, in reading order."""
    legs = [(case, leg) for case in result.cases for leg in case.legs]
    measured = [(case, leg) for case, leg in legs if leg.status is LegStatus.PASSED and leg.ceiling_ratio is not None]
    return (_is_it_right(legs), _how_far(measured, result.environment), _why(measured))


def _is_it_right(legs: list[tuple[CaseResult, LegResult]]) -> Answer:
    bad = [f"{case.case_id} {leg.direction} {verdict(leg)}" for case, leg in legs if _went_wrong(leg)]
    skipped = sum(leg.status is LegStatus.SKIPPED for _, leg in legs)
    checked = format_bytes(sum(leg.verify.checked_bytes for _, leg in legs if leg.verify))
    verified = sum(leg.verify is not None for _, leg in legs)
    extent = f"{checked} checked in {counted(verified, 'leg')}" + (f", {skipped} skipped" if skipped else "")
    if bad:
        more = f" and {len(bad) - _NAMED_FAULTS} more" if len(bad) > _NAMED_FAULTS else ""
        named = "; ".join(bad[:_NAMED_FAULTS]) + more
        return Answer(RIGHT, f"NO. {len(bad)} of {counted(len(legs), 'leg')} went wrong: {named}. {extent}.", Tone.BAD)
    if len(legs) == skipped:
        return Answer(RIGHT, "Nothing ran, so nothing is known.", Tone.CAUTION)
    return Answer(RIGHT, f"Yes, every byte: {extent}.", Tone.GOOD)


def _went_wrong(leg: LegResult) -> bool:
    return leg.status in {LegStatus.FAILED, LegStatus.ERROR}


def _how_far(measured: list[tuple[CaseResult, LegResult]], environment: Environment) -> Answer:
    if not measured:
        return Answer(HOW_FAR, "No leg passed with samples, so there is nothing to set against it.", Tone.CAUTION)
    shares = _by_direction(measured, lambda leg: leg.ceiling_ratio or 0.0)
    parts = [f"{direction} {_span(values)}" for direction, values in shares.items()]
    text = f"Of one contiguous copy: {', '.join(parts)}."
    if environment.emulation:
        return Answer(HOW_FAR, f"{text} EMULATED: this judges no hardware.", Tone.CAUTION)
    if environment.device == "cpu":
        return Answer(HOW_FAR, f"{text} Host to host, this judges ecbench's own overhead.", Tone.CAUTION)
    return Answer(HOW_FAR, text)


def _by_direction(
    measured: Iterable[tuple[CaseResult, LegResult]], figure: Callable[[LegResult], float]
) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for _, leg in measured:
        values.setdefault(leg.direction, []).append(figure(leg))
    return values


def _span(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{min(values):.2f} to {max(values):.2f} (median {median(values):.2f})"


@dataclass(frozen=True)
class _Gap:
    """Median times of a leg over its ceiling, by cause."""

    total_s: float
    ceiling_s: float
    causes_s: dict[str, float]

    @classmethod
    def of(cls, samples: list[Sample]) -> _Gap:
        stages = {name: median(getattr(sample, f"{name}_s") for sample in samples) for name in ("fill", "submit")}
        copying = median(sample.copy_s - sample.ceiling_s for sample in samples)
        waiting = median(_unnamed_s(sample) for sample in samples)
        causes = {
            "the copy itself": copying,
            "filling descriptors": stages["fill"],
            "submitting": stages["submit"],
            "waiting and bookkeeping": waiting,
        }
        total, ceiling = (median(getattr(sample, name) for sample in samples) for name in ("total_s", "ceiling_s"))
        return cls(total, ceiling, {cause: max(seconds, 0.0) for cause, seconds in causes.items()})


def _unnamed_s(sample: Sample) -> float:
    return sample.total_s - sample.fill_s - sample.submit_s - sample.copy_s


def _why(measured: list[tuple[CaseResult, LegResult]]) -> Answer:
    if not measured:
        return Answer(WHY, "Nothing was measured.", Tone.CAUTION)
    case, leg = min(measured, key=lambda pair: pair[1].ceiling_ratio or 0.0)
    if (leg.ceiling_ratio or 0.0) >= _AT_THE_CEILING:
        return Answer(WHY, "There is no gap to explain: every leg that passed is at the ceiling.")
    gap = _Gap.of(leg.samples)
    return Answer(
        WHY,
        f"Farthest off is {case.case_id} {leg.direction}: {format_seconds(gap.total_s)} against "
        f"{format_seconds(gap.ceiling_s)}. Of what it takes more, {_shares(gap)}. {_descriptors(leg)}",
    )


def _shares(gap: _Gap) -> str:
    total = sum(gap.causes_s.values()) or 1.0
    ordered = sorted(gap.causes_s.items(), key=lambda item: -item[1])
    return ", ".join(
        f"{cause} is {seconds / total:.0%}" for cause, seconds in ordered if seconds / total >= _LEAST_SHARE
    )


def _descriptors(leg: LegResult) -> str:
    size = format_bytes(leg.copied_bytes / max(leg.descriptors, 1))
    return f"It moves {counted(leg.blocks, 'block')} as {counted(leg.descriptors, 'descriptor')} of {size} on average."
