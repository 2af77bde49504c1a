"""Results of every kind as what a comparison needs of them: legs with exact figures and, for round trips, samples.

A new kind of result is one function and one line in `CONVERTERS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ecbench.core.comparison_records import Reason
from ecbench.core.errors import DataError
from ecbench.core.probe_records import Ruling
from ecbench.core.records import LegStatus
from ecbench.measure.rounds import WARM_UP_ROUNDS
from ecbench.report.loading import load_result

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ecbench.core.probe_records import ProbeCase
    from ecbench.core.records import CaseResult, Environment, LegResult, Param, RunResult, Sample
    from ecbench.core.savings_records import SavingsCase
    from ecbench.core.scan_records import ScanCase

WHOLE_CASE = "exact"
"""Name of the only leg of a case that has none."""


class ExactFigure(NamedTuple):
    """A figure that no chance takes part in.

    Args:
        value: As it is shown; two that are equal need no more.
        badness: Lower is better; None where any change is one for the worse.
    """

    value: Param
    badness: int | None = None


@dataclass(frozen=True)
class ComparableLeg:
    """One direction of a case.

    Args:
        name: The direction, or `WHOLE_CASE`.
        figures: By name.
        trouble: Why there is nothing to compare here, with its words; None where there is.
        samples: Measured rounds.
        engine: Copy engine that ran.
        writer: Descriptor writer that ran.
        notes: What a reader must know about the path.
    """

    name: str
    figures: dict[str, ExactFigure]
    trouble: tuple[Reason, str] | None = None
    samples: tuple[Sample, ...] = ()
    engine: str | None = None
    writer: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparableCase:
    """One case of a result.

    Args:
        case_id: Its name.
        identity: Workload and parameters. Empty where the name alone tells which case it is.
        legs: Its directions.
    """

    case_id: str
    identity: dict[str, Param]
    legs: tuple[ComparableLeg, ...]


@dataclass(frozen=True)
class ComparableResult:
    """One result.

    Args:
        kind: The command it comes from.
        started_at: When.
        environment: Where.
        settings: How.
        cases: What it found.
        complete: False where it was interrupted.
    """

    kind: str
    started_at: str
    environment: Environment
    settings: dict[str, Param]
    cases: tuple[ComparableCase, ...]
    complete: bool = True


def comparable(result: RunResult[Any]) -> ComparableResult:
    """Takes what can be compared out of a result.

    Raises:
        DataError: A kind of result that holds nothing to compare.
    """
    if result.kind not in CONVERTERS:
        raise DataError(f"a result of {result.kind!r} cannot be compared: give one of {', '.join(CONVERTERS)}")
    convert = CONVERTERS[result.kind]
    return ComparableResult(
        kind=result.kind,
        started_at=result.started_at,
        environment=result.environment,
        settings=result.settings,
        cases=tuple(convert(case) for case in result.cases),
        complete=result.complete,
    )


def load_comparable(path: Path) -> ComparableResult:
    """Loads a result of any kind in `CONVERTERS`.

    Raises:
        DataError: The file cannot be read, is no such result, is of a newer schema, or holds impossible samples.
    """
    result = load_result(path)
    try:
        return comparable(result)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _round_trip_case(case: CaseResult) -> ComparableCase:
    return ComparableCase(
        case_id=case.case_id,
        identity={"workload": case.workload, **case.params},
        legs=tuple(map(_round_trip_leg, case.legs)),
    )


def _round_trip_leg(leg: LegResult) -> ComparableLeg:
    return ComparableLeg(
        name=leg.direction,
        figures={
            "blocks": ExactFigure(leg.blocks),
            "descriptors": ExactFigure(leg.descriptors),
            "copied_bytes": ExactFigure(leg.copied_bytes),
            "checked_bytes per round": ExactFigure(_checked_bytes_per_round(leg)),
        },
        trouble=_trouble(leg),
        samples=tuple(leg.samples),
        engine=leg.engine,
        writer=leg.writer,
        notes=tuple(leg.notes),
    )


def _checked_bytes_per_round(leg: LegResult) -> int | None:
    if leg.verify is None or not leg.samples:
        return None
    processes = len({sample.process for sample in leg.samples})
    return leg.verify.checked_bytes // (len(leg.samples) + WARM_UP_ROUNDS * processes)


def _trouble(leg: LegResult) -> tuple[Reason, str] | None:
    reasons = {
        LegStatus.FAILED: Reason.BYTE_FAULT,
        LegStatus.ERROR: Reason.REFUSED_COPY,
        LegStatus.SKIPPED: Reason.MISSING,
    }
    return (reasons[leg.status], leg.reason or leg.status.value) if leg.status in reasons else None


def _savings_case(case: SavingsCase) -> ComparableCase:
    """What is stored, what a replay hits and whether every hit loads; then its legs, where they were measured."""
    figures = {
        f"{name} of {group.name}": ExactFigure(value)
        for group in case.groups
        for name, value in (("stored_chunks", group.stored_chunks), ("stored_blocks", group.stored_blocks))
    }
    figures["replay_hit_tokens"] = ExactFigure(case.replay_hit_tokens, -case.replay_hit_tokens)
    if case.proof is not None:
        figures["hits that cannot be loaded"] = ExactFigure(len(case.proof.not_loadable), len(case.proof.not_loadable))
        figures["lost_tokens"] = ExactFigure(case.proof.lost_tokens, case.proof.lost_tokens)
    if case.against is not None:
        differences = len(case.against.differences) + (case.against.refused is not None)
        figures["differences from the scheduler"] = ExactFigure(differences, differences)
    measured = _round_trip_case(case)
    return ComparableCase(case.case_id, measured.identity, (ComparableLeg(WHOLE_CASE, figures), *measured.legs))


def _probe_case(case: ProbeCase) -> ComparableCase:
    """Rulings, the worse the further down in `Ruling`."""
    order = list(Ruling)
    figures = {
        f"ruling on {convention.name}": ExactFigure(convention.ruling.value, order.index(convention.ruling))
        for convention in case.conventions
        if convention.ruling is not None
    }
    trouble = (Reason.MISSING, case.reason) if case.reason is not None else None
    return ComparableCase(case.case_id, {}, (ComparableLeg(WHOLE_CASE, figures, trouble),))


def _scan_case(case: ScanCase) -> ComparableCase:
    """Findings by what stays when lines move; a new one is for the worse."""
    figures = {
        f"{finding.rule} in {finding.path}: {finding.expression} [{finding.identity}]": ExactFigure(1, 1)
        for finding in case.findings
    }
    # Else a file with findings would become better by a syntax error.
    figures |= {f"not parsed: {file.path}": ExactFigure(1, 1) for file in case.unparsable}
    return ComparableCase(case.case_id, {}, (ComparableLeg(WHOLE_CASE, figures),))


CONVERTERS: dict[str, Callable[[Any], ComparableCase]] = {
    "roundtrip": _round_trip_case,
    "sweep": _round_trip_case,
    "dsv4-swa-savings": _savings_case,
    "probe-ptr-overflow": _probe_case,
    "scan-ptrs": _scan_case,
}
"""By kind of result."""
