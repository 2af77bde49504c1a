"""Several results side by side. Informs only: whether a change is accepted is for ``compare`` and ``gate`` to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.records import LegStatus
from ecbench.report.documents import shown
from ecbench.stats.ratios import time_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ecbench.core.records import CaseResult, LegResult, RunResult
    from ecbench.stats.ratios import TimeRatio

TIMES_DEPEND_ON = ("device", "device_name", "driver", "host_cpu", "host_cpus", "pinning", "emulation", "stand_ins")
"""Fields of an environment whose difference says that it was not one change on one machine."""


@dataclass(frozen=True)
class NamedResult:
    """A result with the name that tells it from the others.

    Args:
        label: Short and unique among those shown together.
        result: Of a kind with legs.
    """

    label: str
    result: RunResult[CaseResult]


@dataclass(frozen=True)
class MatchedLeg:
    """One direction of one case in every result.

    Args:
        case_id: The case.
        direction: The leg.
        legs: The leg in each result; null where a result lacks it.
        ratios: Its time over that of the first result; null for the first, and where times say nothing.
        remarks: What differs between the results in this case.
    """

    case_id: str
    direction: str
    legs: tuple[LegResult | None, ...]
    ratios: tuple[TimeRatio | None, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Something in which results differ, with its value in each."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class SideBySide:
    """Results side by side; the first is the base."""

    labels: tuple[str, ...]
    differences: tuple[Difference, ...]
    legs: tuple[MatchedLeg, ...]


def set_side_by_side(named: Sequence[NamedResult]) -> SideBySide:
    """Matches the legs of results by case and direction.

    Args:
        named: At least two; times are set against those of the first.
    """
    results = [entry.result for entry in named]
    by_result = [{case.case_id: case for case in result.cases} for result in results]
    case_ids = dict.fromkeys(case_id for cases in by_result for case_id in cases)
    return SideBySide(
        labels=tuple(entry.label for entry in named),
        differences=tuple(_differences(results)),
        legs=tuple(leg for case_id in case_ids for leg in _match_case([cases.get(case_id) for cases in by_result])),
    )


def _differences(results: Sequence[RunResult[CaseResult]]) -> list[Difference]:
    names = results[0].environment.__struct_fields__
    facts = [{name: getattr(result.environment, name) for name in names} for result in results]
    settings = [{f"setting {name}": value for name, value in result.settings.items()} for result in results]
    return [*_differing(facts), *_differing(settings)]


def _differing(mappings: Sequence[Mapping[str, object]]) -> list[Difference]:
    names = dict.fromkeys(name for mapping in mappings for name in mapping)
    rows = [Difference(name, tuple(shown(mapping.get(name)) for mapping in mappings)) for name in names]
    return [row for row in rows if len(set(row.values)) > 1]


def _match_case(cases: Sequence[CaseResult | None]) -> list[MatchedLeg]:
    present = [case for case in cases if case is not None]
    directions = dict.fromkeys(leg.direction for case in present for leg in case.legs)
    parameters = [{name: value for name, value in case.params.items() if name != "seed"} for case in present]
    differing = [f"{row.name}: {' / '.join(row.values)}" for row in _differing(parameters)]
    return [_match_leg(present[0].case_id, direction, cases, differing) for direction in directions]


def _match_leg(
    case_id: str, direction: str, cases: Sequence[CaseResult | None], differing: Sequence[str]
) -> MatchedLeg:
    legs = tuple(_leg(case, direction) for case in cases)
    paths = [
        _path_difference(legs, "engine", lambda leg: leg.engine),
        _path_difference(legs, "writer", lambda leg: leg.writer),
        _path_difference(legs, "descriptors", lambda leg: leg.descriptors or None),
        _path_difference(legs, "bytes moved", lambda leg: leg.copied_bytes or None),
    ]
    ratios = (None, *(_ratio(legs[0], leg) for leg in legs[1:]))
    return MatchedLeg(case_id, direction, legs, ratios, (*differing, *filter(None, paths)))


def _leg(case: CaseResult | None, direction: str) -> LegResult | None:
    return next((leg for leg in case.legs if leg.direction == direction), None) if case else None


def _path_difference(
    legs: Iterable[LegResult | None], name: str, value: Callable[[LegResult], str | int | None]
) -> str | None:
    values = [shown(value(leg)) for leg in legs if leg is not None and value(leg) is not None]
    return f"{name}: {' / '.join(values)}" if len(set(values)) > 1 else None


def _ratio(base: LegResult | None, new: LegResult | None) -> TimeRatio | None:
    """Wrong bytes have no speed, and times of different work no ratio."""
    if base is None or new is None or base.copied_bytes != new.copied_bytes:
        return None
    if not all(leg.status is LegStatus.PASSED and leg.samples for leg in (base, new)):
        return None
    return time_ratio([sample.total_s for sample in base.samples], [sample.total_s for sample in new.samples])
