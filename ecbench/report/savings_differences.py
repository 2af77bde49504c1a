"""The words and numbers of plans that are held against a real scheduler, and of a fuzz run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.documents import Answer, Row, Section, Table, Tone, counted
from ecbench.report.figures import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecbench.core.differential_records import (
        FuzzFinding,
        FuzzTally,
        PlanDifference,
        ScheduledGroup,
        SchedulerComparison,
    )
    from ecbench.core.savings_records import SavingsCase

_GROUP_COLUMNS = ("group", "tokens/block", "chunks", "planned", "scheduler", "difference")
_KNOWN_COLUMNS = ("known difference", "requests", "first", "why")
_FINDING_COLUMNS = ("request", "check", "differs", "planned", "scheduler", "first chunk", "smallest form", "scenario")
_TEXT_COLUMNS = frozenset({"group", "known difference", "why", "check", "differs", "smallest form", "scenario"})
_MASKS = "what each group stores"
CHECK_WORDS = {"mask": _MASKS, "scheduler": "the whole scheduler"}
"""Checks of a fuzz run, as a reader sees them."""


def against_words(against: SchedulerComparison) -> str:
    """How a comparison ended, in one line."""
    if against.refused is not None:
        return f"{against.scheduler} refuses: {against.refused}"
    if against.differences:
        return "; ".join(map(difference_words, against.differences))
    return "stored chunks, bytes and the replay's hit are equal"


def difference_words(difference: PlanDifference) -> str:
    """One difference as text."""
    where = f" of {difference.group}" if difference.group else ""
    first = f", first chunk {difference.first_chunk:,}" if difference.first_chunk is not None else ""
    return f"{difference.what}{where}: {difference.ours} planned, {difference.theirs} by the scheduler{first}"


def against_answers(cases: Sequence[SavingsCase]) -> list[Answer]:
    """Whether a real scheduler does the same, where one was asked."""
    asked = [(case, case.against) for case in cases if case.against is not None]
    if not asked:
        return []
    question = f"Does {asked[0][1].scheduler} do the same?"
    differ = [f"{case.case_id} ({against_words(against)})" for case, against in asked if not against.ok]
    if differ:
        return [Answer(question, f"NO: {'; '.join(differ)}.", Tone.BAD)]
    return [Answer(question, f"Yes, in {counted(len(asked), 'case')}.", Tone.GOOD)]


def against_section(case: SavingsCase) -> Section:
    """Both plans of one case side by side; empty where no scheduler was asked."""
    against = case.against
    if against is None:
        return Section(case.case_id)
    heading = f"{case.case_id} against {against.scheduler}"
    if against.refused is not None:
        return Section(heading, against_words(against), notes=tuple(_explanations(against)))
    rows = [_group_row(case, against, group) for group in against.groups]
    return Section(heading, "", _table(_GROUP_COLUMNS, rows), (*_totals(case, against), *_notes(against)))


def fuzz_answers(tally: FuzzTally | None) -> list[Answer]:
    """What a fuzz run found, where there was one."""
    if tally is None:
        return []
    question = f"Does {tally.scheduler} do the same with drawn requests?"
    known = sum(known.requests for known in tally.known)
    tail = f"; {counted(known, 'request')} differ or are refused for known reasons" if known else ""
    compared = (
        f"{counted(tally.masks, 'request')} by {_MASKS}, {tally.scheduled:,} by the whole scheduler, seed {tally.seed}"
    )
    if tally.ok:
        return [Answer(question, f"Yes: {compared}{tail}.", Tone.GOOD)]
    found = f"{counted(len(tally.findings), 'difference')} in smallest form, {counted(tally.also, 'more request')}"
    return [Answer(question, f"NO: {found}; {compared}{tail}.", Tone.BAD)]


def fuzz_sections(tally: FuzzTally | None) -> tuple[Section, ...]:
    """What differs, and what differs for known reasons."""
    if tally is None:
        return ()
    findings = [row for finding in tally.findings for row in _finding_rows(finding)]
    known = [
        Row((known.name, f"{known.requests:,}", f"{known.first:,}", known.reason), Tone.CAUTION)
        for known in tally.known
    ]
    return (
        Section("Differences", "each in its smallest form" if findings else "", _table(_FINDING_COLUMNS, findings)),
        Section("Known differences", "", _table(_KNOWN_COLUMNS, known)),
    )


def _group_row(case: SavingsCase, against: SchedulerComparison, theirs: ScheduledGroup) -> Row:
    ours = next((group for group in case.groups if group.name == theirs.name), None)
    found = [one for one in against.differences if one.group == theirs.name]
    first = "; ".join(map(difference_words, found)) or ABSENT
    stored = ABSENT if ours is None else f"{ours.stored_chunks:,}"
    cells = (
        theirs.name,
        f"{theirs.tokens_per_block:,}",
        f"{theirs.full_chunks:,}",
        stored,
        f"{theirs.stored_chunks:,}",
        first,
    )
    return Row(cells, Tone.BAD if found else Tone.GOOD)


def _totals(case: SavingsCase, against: SchedulerComparison) -> Iterator[str]:
    totals = case.totals
    for what, ours, theirs in (
        ("real bytes", totals.stored_real_bytes, against.stored_real_bytes),
        ("host bytes", totals.stored_host_bytes, against.stored_host_bytes),
        ("replay hit in tokens", case.replay_hit_tokens, against.replay_hit_tokens),
    ):
        if theirs is not None:
            yield f"{what}: {ours:,} planned, {theirs:,} by the scheduler"


def _notes(against: SchedulerComparison) -> Iterator[str]:
    whole = [difference for difference in against.differences if difference.group is None]
    yield from (f"DIFFERS: {difference_words(difference)}" for difference in whole)
    yield from _explanations(against)


def _explanations(against: SchedulerComparison) -> Iterator[str]:
    if against.explained is not None:
        yield f"known: {against.explained}"


def _finding_rows(finding: FuzzFinding) -> Iterator[Row]:
    number, check = f"{finding.number:,}", CHECK_WORDS.get(finding.check, finding.check)
    tail = (finding.request, finding.scenario or ABSENT)
    if finding.refused is not None:
        yield Row((number, check, finding.refused, "planned", "refused", ABSENT, *tail), Tone.BAD)
    for difference in finding.differences:
        where = f" of {difference.group}" if difference.group else ""
        first = ABSENT if difference.first_chunk is None else f"{difference.first_chunk:,}"
        what = f"{difference.what}{where}"
        yield Row((number, check, what, difference.ours, difference.theirs, first, *tail), Tone.BAD)


def _table(columns: tuple[str, ...], rows: Sequence[Row]) -> Table:
    return Table(columns, tuple(rows), frozenset(columns) - _TEXT_COLUMNS - {"difference"})
