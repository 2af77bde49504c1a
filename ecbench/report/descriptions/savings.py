"""``dsv4-swa-savings`` as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ecbench.core.units import format_bytes
from ecbench.report.descriptions.round_trip import LEG_TONES
from ecbench.report.documents import (
    Answer,
    Document,
    FactGroup,
    Row,
    Section,
    Table,
    Tone,
    counted,
    fact_groups,
    shown,
    title_of,
)
from ecbench.report.figures import environment_line, stage_line, warnings
from ecbench.report.savings_differences import against_answers, against_section, fuzz_answers, fuzz_sections
from ecbench.report.savings_figures import (
    COPY_COLUMNS,
    GROUP_COLUMNS,
    MEMORY_COLUMNS,
    OVERVIEW_COLUMNS,
    case_notes,
    copy_row,
    group_row,
    layout_words,
    memory_row,
    overview_row,
    percent,
    saved_words,
    total_rows,
    whole_copies,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecbench.core.records import RoundTripResult
    from ecbench.core.savings_records import SavingsCase, SavingsResult
    from ecbench.report.savings_figures import WholeCopy

_TEXT_COLUMNS = frozenset({"model", "policy", "retention", "proof", "group", "kind", "case", "leg", "bytes"})
INTERRUPTED = "INTERRUPTED: only the cases that were finished are here."
DRAWN = "DRAWN REQUESTS: nothing was copied; models and prompts are random."
SCALED = "Times of the whole prompt are those of what was measured, scaled by bytes."


def describe_savings(result: SavingsResult) -> Document:
    """What is not stored, whether every hit loads, and what that is worth in memory and in seconds."""
    # Its cases are round-trip cases with more to them, and these readers only read.
    plain = cast("RoundTripResult", result)
    return Document(
        title=title_of(result),
        subtitle=environment_line(plain),
        warnings=_warnings(result, plain),
        answers=(*_answers(result.cases), *against_answers(result.cases), *fuzz_answers(result.fuzz)),
        sections=(
            *fuzz_sections(result.fuzz),
            _overview(result.cases),
            *map(_groups, result.cases),
            *map(against_section, result.cases),
            *([_memory(result.cases)] if result.cases else []),
            _copies(result.cases, plain),
        ),
        facts=(*fact_groups(result), *map(_parameters, result.cases)),
        footer=f"{_extent(result)}; {stage_line(plain)}",
    )


def _extent(result: SavingsResult) -> str:
    return counted(len(result.cases), "case") if result.fuzz is None else counted(result.fuzz.masks, "request")


def _warnings(result: SavingsResult, plain: RoundTripResult) -> tuple[str, ...]:
    """Where nothing was copied, no device took part, so that only an early end is worth a warning."""
    ended = () if result.complete else (INTERRUPTED,)
    if result.fuzz is not None:
        return (DRAWN, *ended)
    if result.settings.get("measure"):
        return tuple(warnings(plain))
    return ("PLANNED ONLY: nothing was copied.", *ended)


def _answers(cases: Sequence[SavingsCase]) -> list[Answer]:
    if not cases:
        return []
    shares = [case.totals.all_saved_fraction for case in cases]
    span = " to ".join(dict.fromkeys(map(percent, (min(shares), max(shares)))))
    answers = [Answer("How much is not stored?", f"{span} of the chunks of all groups.", Tone.GOOD), _loads(cases)]
    saved = [words for words in map(saved_words, cases) if words]
    return [*answers, Answer("What is that in seconds?", "; ".join(saved) + ".")] if saved else answers


def _loads(cases: Sequence[SavingsCase]) -> Answer:
    question = "Can every advertised hit be loaded?"
    broken = [case.case_id for case in cases if case.proof is not None and not case.proof.ok]
    unproved = [case.case_id for case in cases if case.proof is None]
    if broken:
        return Answer(question, f"NO: {', '.join(broken)}.", Tone.BAD)
    if unproved:
        return Answer(question, f"Not proved: {', '.join(unproved)}.", Tone.CAUTION)
    lost = sum(case.proof.lost_tokens > 0 for case in cases if case.proof)
    tail = f"; tokens are lost in {lost} of {counted(len(cases), 'case')}" if lost else ""
    return Answer(question, f"Yes{tail}.", Tone.CAUTION if lost else Tone.GOOD)


def _overview(cases: Sequence[SavingsCase]) -> Section:
    rows = tuple(Row(overview_row(case), _proof_tone(case)) for case in cases)
    lead = "without the skip -> with it (saved)" if cases else ""
    return Section("Stored chunks", lead, _table(OVERVIEW_COLUMNS, rows))


def _proof_tone(case: SavingsCase) -> Tone:
    if case.proof is None:
        return Tone.PLAIN
    if not case.proof.ok:
        return Tone.BAD
    return Tone.CAUTION if case.proof.lost_tokens or case.proof.not_used_by_replays else Tone.GOOD


def _groups(case: SavingsCase) -> Section:
    rows = [group_row(group, case) for group in case.groups] + total_rows(case)
    table = _table(GROUP_COLUMNS, tuple(map(Row, rows)))
    return Section(case.case_id, layout_words(case), table, tuple(case_notes(case)))


def _memory(cases: Sequence[SavingsCase]) -> Section:
    rows = [row for row in map(memory_row, cases) if row is not None]
    sizes = dict.fromkeys(format_bytes(case.host_memory.memory_bytes) for case in cases if case.host_memory)
    heading = f"What {', '.join(sizes)} of host memory hold"
    lead = "by slot, as the engine does it, and by what transfers move; prompts share nothing"
    return Section(heading, lead if rows else "", _table(MEMORY_COLUMNS, tuple(map(Row, rows))))


def _copies(cases: Sequence[SavingsCase], plain: RoundTripResult) -> Section:
    measured = [(case, copy) for case in cases for copy in whole_copies(case)]
    rows = tuple(Row(copy_row(case, copy), LEG_TONES[copy.leg.status]) for case, copy in measured)
    samples = [f"{case.case_id}: {note}" for case in cases if case.sample for note in case.sample.notes]
    reasons = [f"{case.case_id}, {copy.name}: {copy.leg.reason}" for case, copy in measured if copy.leg.reason]
    notes = _leg_notes(measured, plain)
    lead = SCALED if rows else ""
    return Section("Measured", lead, _table(COPY_COLUMNS, rows), (*reasons, *samples, *notes))


def _leg_notes(measured: Sequence[tuple[SavingsCase, WholeCopy]], plain: RoundTripResult) -> Iterator[str]:
    """Each note once, with the leg or the number of legs that it holds for; the emulation is a warning already."""
    by_note: dict[str, list[str]] = {}
    for case, copy in measured:
        for note in copy.leg.notes:
            by_note.setdefault(note, []).append(f"{case.case_id} {copy.name}")
    by_note.pop(plain.environment.emulation or "", None)
    for note, legs in by_note.items():
        where = legs[0] if len(legs) == 1 else f"{len(legs)} of {counted(len(measured), 'leg')}"
        yield note if len(legs) == len(measured) else f"{where}: {note}"


def _table(columns: tuple[str, ...], rows: tuple[Row, ...]) -> Table:
    return Table(columns, rows, frozenset(columns) - _TEXT_COLUMNS)


def _parameters(case: SavingsCase) -> FactGroup:
    facts = (("workload", case.workload), *((name, shown(value)) for name, value in case.params.items()))
    return FactGroup(f"Parameters of {case.case_id}", facts)
