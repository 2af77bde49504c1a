"""``doctor`` and ``list`` as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.doctor_records import CheckStatus
from ecbench.report.documents import Answer, Document, Row, Section, Table, Tone, counted, fact_groups, title_of
from ecbench.report.formats.doctor_console import summary
from ecbench.report.formats.listing_console import state

if TYPE_CHECKING:
    from ecbench.core.doctor_records import DoctorResult, ListingResult

_TONES = {CheckStatus.OK: Tone.GOOD, CheckStatus.WARNING: Tone.CAUTION, CheckStatus.PROBLEM: Tone.BAD}


def describe_diagnosis(result: DoctorResult) -> Document:
    """Every check of the machine, with the mend where there is a complaint."""
    rows = tuple(
        Row((check.name, check.status.value, check.detail, check.mend or ""), _TONES[check.status])
        for check in result.cases
    )
    worst = max((list(CheckStatus).index(check.status) for check in result.cases), default=0)
    return Document(
        title=title_of(result),
        subtitle=f"{result.environment.host_cpu}, kernel {result.environment.kernel}",
        answers=(Answer("Is this machine ready?", summary(result), _TONES[list(CheckStatus)[worst]]),),
        sections=(Section("Checks", table=Table(("check", "status", "found", "mend"), rows)),),
        facts=fact_groups(result),
    )


def describe_listing(result: ListingResult) -> Document:
    """Every name, whether it works here, and why not."""
    rows = tuple(
        Row(
            (entry.name, state(entry), entry.description, entry.reason or ""),
            Tone.GOOD if entry.available else Tone.CAUTION,
        )
        for entry in result.cases
    )
    available = sum(entry.available for entry in result.cases)
    return Document(
        title=title_of(result),
        subtitle=f"{result.environment.host_cpu}, kernel {result.environment.kernel}",
        answers=(Answer("What works here?", f"{available} of {counted(len(rows), 'name')}."),),
        sections=(Section("Names", table=Table(("name", "state", "what it is", "reason"), rows)),),
        facts=fact_groups(result),
    )
