"""What a report says, before any format decides how it looks: one shape for every kind of result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ecbench.core.records import Environment, RunResult


class Tone(StrEnum):
    """How a line is to be taken."""

    PLAIN = "plain"
    GOOD = "good"
    CAUTION = "caution"
    BAD = "bad"


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    cells: tuple[str, ...]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Table:
    """Cells as text; columns in ``numeric`` stand right-aligned."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    numeric: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Section:
    """A heading, a line about it, a table and what must be noted below it."""

    heading: str
    lead: str = ""
    table: Table | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """There is nothing to show under the heading."""
        return not (self.lead or self.notes or (self.table is not None and self.table.rows))


@dataclass(frozen=True)
class Answer:
    """One of the questions that a reader comes with."""

    question: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class FactGroup:
    """Raw values under one name: the environment, the settings, a case's parameters."""

    heading: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Document:
    """A whole report in the order in which it is read."""

    title: str
    subtitle: str
    warnings: tuple[str, ...] = ()
    """What must be read before any number."""
    answers: tuple[Answer, ...] = ()
    sections: tuple[Section, ...] = ()
    facts: tuple[FactGroup, ...] = ()
    footer: str = ""

    @property
    def shown_sections(self) -> tuple[Section, ...]:
        """Sections that have something to show."""
        return tuple(section for section in self.sections if not section.is_empty)


def title_of(result: RunResult[Any]) -> str:
    """The heading of a report on one result."""
    return f"ecbench {result.kind}, {result.started_at}"


def environment_facts(environment: Environment) -> FactGroup:
    """Every field of an environment."""
    names = environment.__struct_fields__
    return FactGroup("Environment", tuple((name, shown(getattr(environment, name))) for name in names))


def fact_groups(result: RunResult[Any]) -> tuple[FactGroup, ...]:
    """The environment, the settings and the times of the stages of one result."""
    settings = tuple((name, shown(value)) for name, value in result.settings.items())
    stages = tuple((f"{name} (s)", shown(seconds)) for name, seconds in result.stages_s.items())
    groups = (environment_facts(result.environment), FactGroup("Settings", settings), FactGroup("Stages", stages))
    return tuple(group for group in groups if group.facts)


def shown(value: object) -> str:
    """A raw value as text."""
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(shown, value)) if isinstance(value, list | tuple) else str(value)


def counted(number: int, noun: str) -> str:
    """A number with its noun, for example ``1 case`` or ``2 cases``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
