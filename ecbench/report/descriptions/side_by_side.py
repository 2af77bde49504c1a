"""A comparison as a document."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ecbench.core.records import LegStatus
from ecbench.report.answers import answers
from ecbench.report.documents import Answer, Document, FactGroup, Row, Section, Table, Tone, environment_facts
from ecbench.report.figures import ABSENT, leg_row, verdict, warnings
from ecbench.report.side_by_side import TIMES_DEPEND_ON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.records import LegResult
    from ecbench.report.side_by_side import MatchedLeg, NamedResult, SideBySide
    from ecbench.stats.ratios import TimeRatio

RATIO_MEANING = "Ratios are times over those of the first result: below 1 is faster. They inform and judge nothing."


def describe_side_by_side(sides: SideBySide, named: Sequence[NamedResult]) -> Document:
    """What differs, and every leg side by side."""
    return Document(
        title=f"ecbench comparison: {' / '.join(sides.labels)}",
        subtitle="; ".join(f"{entry.label}: {entry.result.kind}, {entry.result.started_at}" for entry in named),
        warnings=(*_doubts(sides), *_warnings(named)),
        answers=(*_rightness(named), _speed(sides), _differing(sides)),
        sections=(_side_by_side(sides), _differences(sides)),
        facts=tuple(_facts(entry) for entry in named),
    )


def _facts(entry: NamedResult) -> FactGroup:
    return replace(environment_facts(entry.result.environment), heading=f"Environment of {entry.label}")


def _doubts(sides: SideBySide) -> list[str]:
    names = [row.name for row in sides.differences if row.name in TIMES_DEPEND_ON]
    return [f"NOT ONE MACHINE: times also differ by {', '.join(names)}."] if names else []


def _warnings(named: Sequence[NamedResult]) -> list[str]:
    """Each warning once: with the names of those it is about, or with none where it is about all."""
    labels: dict[str, list[str]] = {}
    for entry in named:
        for line in warnings(entry.result):
            labels.setdefault(line, []).append(entry.label)
    return [line if len(about) == len(named) else f"{', '.join(about)}: {line}" for line, about in labels.items()]


def _rightness(named: Sequence[NamedResult]) -> list[Answer]:
    firsts = [answers(entry.result)[0] for entry in named]
    return [replace(answer, question=f"Is {entry.label} right?") for entry, answer in zip(named, firsts, strict=True)]


def _speed(sides: SideBySide) -> Answer:
    question = f"How do times stand to those of {sides.labels[0]}?"
    parts = []
    for number, label in enumerate(sides.labels[1:], start=1):
        values = [ratio.value for leg in sides.legs if (ratio := leg.ratios[number])]
        parts.append(f"{label}: {_range(values)}")
    return Answer(question, f"{'; '.join(parts)}. Below 1 is faster.")


def _range(values: list[float]) -> str:
    if not values:
        return "no leg that both measured on the same work"
    return (
        f"{min(values):.2f} to {max(values):.2f} times as long" if len(values) > 1 else f"{values[0]:.2f} times as long"
    )


def _differing(sides: SideBySide) -> Answer:
    names = [row.name for row in sides.differences]
    return Answer("What differs?", ", ".join(names) if names else "Nothing in environments or settings.")


def _side_by_side(sides: SideBySide) -> Section:
    base, *others = sides.labels
    columns = ["case", "leg", f"{base}: bandwidth", f"{base}: of ceiling", f"{base}: bytes"]
    for label in others:
        columns += [f"{label}: bandwidth", f"{label}: of ceiling", f"{label}: bytes", f"{label}: time ratio"]
    rows = tuple(_row(leg) for leg in sides.legs)
    numeric = frozenset(name for name in columns[2:] if not name.endswith(": bytes"))
    notes = dict.fromkeys(f"{leg.case_id} {leg.direction}: {remark}" for leg in sides.legs for remark in leg.remarks)
    return Section("Side by side", RATIO_MEANING, Table(tuple(columns), rows, numeric), tuple(notes))


def _row(compared: MatchedLeg) -> Row:
    cells = [compared.case_id, compared.direction]
    for number, leg in enumerate(compared.legs):
        cells += _leg_cells(leg)
        if number:
            cells.append(ratio_text(compared.ratios[number]))
    return Row(tuple(cells), _tone(compared))


def _leg_cells(leg: LegResult | None) -> list[str]:
    if leg is None:
        return [ABSENT, ABSENT, "not in it"]
    _, _, bandwidth, _, ceiling, *_ = leg_row(leg)
    return [bandwidth, ceiling, verdict(leg)]


def ratio_text(ratio: TimeRatio | None) -> str:
    """A ratio with its interval."""
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else ABSENT


def _tone(compared: MatchedLeg) -> Tone:
    statuses = {leg.status if leg else LegStatus.SKIPPED for leg in compared.legs}
    if statuses & {LegStatus.FAILED, LegStatus.ERROR}:
        return Tone.BAD
    return Tone.CAUTION if LegStatus.SKIPPED in statuses else Tone.GOOD


def _differences(sides: SideBySide) -> Section:
    rows = tuple(Row((row.name, *row.values)) for row in sides.differences)
    table = Table(("what", *sides.labels), rows)
    return Section("What differs", "" if rows else "Nothing in environments or settings.", table)
