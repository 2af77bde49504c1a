"""What a real scheduler did with a planned request, and what a fuzz run against it found, as they are kept."""

from __future__ import annotations

import msgspec

from ecbench.core.records import Record


class PlanDifference(Record, frozen=True, kw_only=True):
    """Something that a plan and the scheduler do not agree on."""

    what: str
    group: str | None = None
    """Null where it is about all groups."""
    ours: str
    theirs: str
    first_chunk: int | None = None
    """The first chunk that only one of them stores."""


class ScheduledGroup(Record, frozen=True, kw_only=True):
    """What the scheduler stored of one cache group."""

    name: str
    """That of the plan's group in its place."""
    tokens_per_block: int
    full_chunks: int
    stored_chunks: int


class SchedulerComparison(Record, frozen=True, kw_only=True):
    """The same request through a real scheduler."""

    scheduler: str
    """What was asked, with its version."""
    refused: str | None = None
    """Why the scheduler does not take the request, in its own words; the rest is empty then."""
    groups: list[ScheduledGroup] = msgspec.field(default_factory=list)
    stored_real_bytes: int | None = None
    """What one rank's transfers move."""
    stored_host_bytes: int | None = None
    """Whole host slots."""
    replay_hit_tokens: int | None = None
    differences: list[PlanDifference] = msgspec.field(default_factory=list)
    """None are left where both did the same."""
    explained: str | None = None
    """Why they differ, where that is known and explains all of it."""

    @property
    def ok(self) -> bool:
        """Both did the same."""
        return self.refused is None and not self.differences


class KnownDifferences(Record, frozen=True, kw_only=True):
    """Drawn requests that differ, or are refused, for a reason that is understood."""

    name: str
    reason: str
    requests: int
    first: int
    """Number of the first of them."""


class FuzzFinding(Record, frozen=True, kw_only=True):
    """A difference that nothing known explains, in its smallest form."""

    number: int
    """Which of the drawn requests showed it first."""
    check: str
    """``mask``: what each group stores; ``scheduler``: the whole scheduler."""
    differences: list[PlanDifference]
    """Of the smallest form."""
    refused: str | None = None
    """The scheduler's words, where it does not take the smallest form."""
    request: str
    """The smallest form, in one line."""
    scenario: str | None = None
    """File that holds it."""


class FuzzTally(Record, frozen=True, kw_only=True):
    """What a fuzz run did and found."""

    scheduler: str
    """What was asked, with its version."""
    seed: int
    asked: int
    """Requests that were to be drawn."""
    masks: int
    """Requests whose stored chunks were compared with the scheduler's rule alone."""
    scheduled: int
    """Requests that went through the whole scheduler; those it refuses are not among them."""
    known: list[KnownDifferences] = msgspec.field(default_factory=list)
    findings: list[FuzzFinding] = msgspec.field(default_factory=list)
    also: int = 0
    """More requests that differ, and were not made smaller."""

    @property
    def ok(self) -> bool:
        """Nothing differs that is not understood."""
        return not self.findings and not self.also
