"""The words and numbers that every format of a pointer probe shows."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ecbench.core.probe_records import Ruling, rulings_by_name, safe_everywhere

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.probe_records import ConventionRuling, ProbeCase, ProbeFinding

ABSENT = "-"
CHANGED = "*"
RULING_WORDS = {
    Ruling.SAFE: "safe",
    Ruling.WARN: "safe, with a warning",
    Ruling.FAILS: "fails",
    Ruling.CORRUPTS: "silent corruption",
    None: "not tried",
}
RULING_COLUMNS = ("convention", "ruling", "ns/element", "exception or remark")
VALUE_CLASSES = ("low", "high-aligned", "high-unaligned", "max", "overflow", "device")
FINDING_COLUMNS = ("method", "table", "encoding", "read back", *VALUE_CLASSES, "exception, warning")


class MatrixCell(NamedTuple):
    """A ruling in the matrix of versions."""

    text: str
    ruling: Ruling | None


def case_title(case: ProbeCase) -> str:
    """Which torch and which NumPy a case is about."""
    known = [("torch", "torch"), ("numpy", "NumPy"), ("python", "Python")]
    return ", ".join(f"{word} {case.params[key]}" for key, word in known if case.params.get(key))


def ruling_row(convention: ConventionRuling) -> tuple[str, ...]:
    """One convention as text, in the order of `RULING_COLUMNS`."""
    cost = ABSENT if convention.ns_per_element is None else _three_digits(convention.ns_per_element)
    remark = "; ".join(text for text in (convention.note, convention.exception) if text)
    return convention.name, RULING_WORDS[convention.ruling], cost, remark


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - from here on .3g gives an exponent


def probed(cases: Sequence[ProbeCase]) -> list[ProbeCase]:
    """The cases that could be probed."""
    return [case for case in cases if case.reason is None]


def matrix_columns(cases: Sequence[ProbeCase]) -> list[str]:
    """Headings of the matrix: one column per probed case, its Python only where they differ."""
    several = len({case.params["python"] for case in cases}) > 1
    names = [f"torch {case.params['torch']}, NumPy {case.params['numpy']}" for case in cases]
    if several:
        names = [f"{name}, Python {case.params['python']}" for name, case in zip(names, cases, strict=True)]
    return ["convention", *names]


def matrix_rows(cases: Sequence[ProbeCase]) -> list[tuple[str, list[MatrixCell]]]:
    """Rows of the matrix: a convention and its cell per case, marked where it differs from the cell on its left."""
    columns = [rulings_by_name(case) for case in cases]
    return [(name, _cells([column[name] for column in columns])) for name in columns[0]]


def _cells(conventions: list[ConventionRuling]) -> list[MatrixCell]:
    texts = [_cell_text(convention) for convention in conventions]
    marked = [
        text if index == 0 or text == texts[index - 1] else f"{text} {CHANGED}" for index, text in enumerate(texts)
    ]
    return [MatrixCell(text, convention.ruling) for text, convention in zip(marked, conventions, strict=True)]


def _cell_text(convention: ConventionRuling) -> str:
    words = RULING_WORDS[convention.ruling]
    if convention.ruling is Ruling.FAILS and convention.exception:
        return f"{words} ({convention.exception.partition(':')[0]})"
    return words


def matrix_notes(cases: Sequence[ProbeCase]) -> list[str]:
    """What stands below the matrix."""
    safe = ", ".join(safe_everywhere(cases)) or "none"
    return [f"{CHANGED} differs from the column on its left.", f"Safe everywhere: {safe}.", *_advice(cases)]


def _advice(cases: Sequence[ProbeCase]) -> list[str]:
    """The advice of each case, or one line where all are given the same."""
    if len({case.advice for case in cases}) == 1:
        return [cases[0].advice]
    return [f"{case_title(case)}: {case.advice}" for case in cases]


def case_notes(case: ProbeCase) -> list[str]:
    """What a reader must know about a probed case beside its rulings."""
    notes = [device_note(case)]
    if not case.unexpected:
        notes.append(f"All as expected of {case.expectation}.")
    return notes


def unexpected_lines(case: ProbeCase) -> list[str]:
    """What differs from the known behaviour of the case's versions."""
    return [
        f"UNEXPECTED {difference.name}: expected {difference.expected}, found {difference.found}"
        for difference in case.unexpected
    ]


def device_note(case: ProbeCase) -> str:
    """How real device addresses look, without any of them."""
    if case.device is None:
        return "No accelerator here: addresses were made up, and tables live in host memory."
    return (
        f"Device {case.device}: {case.device_addresses_high} of {case.device_addresses} addresses have bit 63 set; "
        f"one of them was probed too."
    )


def not_probed_lines(cases: Sequence[ProbeCase]) -> list[str]:
    """The cases that could not be probed, and why."""
    return [f"NOT PROBED {case_title(case)}: {case.reason}" for case in cases if case.reason is not None]


def finding_groups(case: ProbeCase) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Every finding: per group of methods, rows in the order of `FINDING_COLUMNS`."""
    return [
        (group, [_finding_row(list(row)) for _, row in groupby(findings, _row_key)])
        for group, findings in groupby(case.findings, lambda finding: finding.group)
    ]


def _row_key(finding: ProbeFinding) -> tuple[str, ...]:
    return finding.method, finding.dtype, finding.encoding, finding.read_back


def _finding_row(findings: list[ProbeFinding]) -> tuple[str, ...]:
    by_class = {finding.value_class: finding for finding in findings}
    outcomes = [_outcome(by_class.get(name)) for name in VALUE_CLASSES]
    said = [text for finding in findings for text in (finding.exception, finding.warning) if text]
    return (*_row_key(findings[0]), *outcomes, "; ".join(dict.fromkeys(said)))


def _outcome(finding: ProbeFinding | None) -> str:
    if finding is None:
        return ABSENT
    return finding.damage or finding.outcome.value
