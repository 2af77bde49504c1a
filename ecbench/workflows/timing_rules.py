"""Which times are compared, and how: the default, or a ``gate.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import msgspec

from ecbench.core.errors import EcbenchError, ScenarioError, unknown_name
from ecbench.core.shares import parse_share
from ecbench.core.toml import convert_table, line_in_entry, line_of_key, parse_table, read_text
from ecbench.stats.pairing import DEFAULT_METRIC, METRICS
from ecbench.stats.verdicts import DEFAULT_THRESHOLD
from ecbench.workflows.comparability import UNDER_TEST_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

MAX_RULES = 1000
_UNDER_TEST = "under_test"
_TIMING = "timing"


class OnInconclusive(StrEnum):
    """What a gate does with times that cannot tell."""

    WARN = "warn"
    """Says so; exit 0, or 5 with ``--strict``."""
    FAIL = "fail"
    """Counts it as a regression."""
    IGNORE = "ignore"
    """Exit 0 also with ``--strict``."""


@dataclass(frozen=True)
class TimingRule:
    """Which times are compared and how.

    Args:
        metric: Name in `ecbench.stats.pairing.METRICS`.
        cases: Globs of case names.
        threshold: Accepted slowdown as a fraction.
        on_inconclusive: What a gate does when the data cannot tell.
    """

    metric: str = DEFAULT_METRIC
    cases: tuple[str, ...] = ("*",)
    threshold: float = DEFAULT_THRESHOLD
    on_inconclusive: OnInconclusive = OnInconclusive.WARN

    def names(self, case_id: str) -> bool:
        """Whether the rule is about a case."""
        return any(fnmatchcase(case_id, glob) for glob in self.cases)


def rule_for(case_id: str, rules: Iterable[TimingRule]) -> TimingRule | None:
    """The first rule that names a case."""
    return next((rule for rule in rules if rule.names(case_id)), None)


@dataclass(frozen=True)
class GateConfig:
    """What a gate is told beside its scenarios.

    Args:
        timing: Rules; the first that names a case counts, and cases that none names have no timing gate.
        under_test: What is meant to differ from the baseline's environment.
        where: File they come from; None for the default.
    """

    timing: tuple[TimingRule, ...] = (TimingRule(),)
    under_test: tuple[str, ...] = ()
    where: str | None = None

    def refuse_idle_globs(self, case_ids: Collection[str]) -> None:
        """Finds globs that name no case: a misspelt one would switch a gate off without a word.

        Raises:
            ScenarioError: A glob names none of the cases.
        """
        for rule in self.timing if self.where is not None else ():
            for glob in rule.cases:
                if not any(fnmatchcase(case_id, glob) for case_id in case_ids):
                    raise ScenarioError(
                        f"{self.where}: cases = {glob!r} names no case: the cases are {', '.join(sorted(case_ids))}"
                    )


class _TimingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    cases: Annotated[list[str], msgspec.Meta(min_length=1)]
    metric: str = DEFAULT_METRIC
    threshold: str | float = DEFAULT_THRESHOLD
    on_inconclusive: OnInconclusive = OnInconclusive.WARN


class _GateTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    timing: Annotated[list[_TimingTable], msgspec.Meta(max_length=MAX_RULES)] = []
    under_test: list[str] = []


def read_gate_config(path: Path) -> GateConfig:
    """Reads a ``gate.toml``.

    Raises:
        ScenarioError: It cannot be read, is not TOML, or has an unknown key or a bad value; key and line are named.
    """
    text, where = read_text(path), str(path)
    table = convert_table(parse_table(text, where), text, where, _GateTable)
    under_test, rules = [], []
    try:
        under_test = list(map(_known_under_test, table.under_test))
        for entry in table.timing:
            rules.append(_rule(entry))  # noqa: PERF401 - how far it came tells where the bad value is
    except _BadValueError as error:
        line = (
            line_of_key(text, error.key)
            if error.key == _UNDER_TEST
            else line_in_entry(text, _TIMING, len(rules), error.key)
        )
        raise ScenarioError(f"{where}, line {line}, key {error.key!r}: {error}") from error
    return GateConfig(tuple(rules), tuple(under_test), where)


class _BadValueError(EcbenchError):
    """A value that its type cannot tell to be wrong."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _known_under_test(name: str) -> str:
    if name not in UNDER_TEST_NAMES:
        raise _BadValueError(_UNDER_TEST, str(unknown_name("thing under test", name, UNDER_TEST_NAMES)))
    return name


def _rule(table: _TimingTable) -> TimingRule:
    if table.metric not in METRICS:
        raise _BadValueError("metric", str(unknown_name("metric", table.metric, tuple(METRICS))))
    try:
        threshold = parse_share(table.threshold)
    except EcbenchError as error:
        raise _BadValueError("threshold", str(error)) from error
    return TimingRule(table.metric, tuple(table.cases), threshold, table.on_inconclusive)
