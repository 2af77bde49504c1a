"""``dsv4-swa-savings --fuzz``: drawn requests through a real scheduler, differences made small and kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.differential_records import FuzzFinding, FuzzTally, KnownDifferences
from ecbench.core.errors import EcbenchError
from ecbench.core.records import SCHEMA_VERSION
from ecbench.core.savings_records import SavingsResult
from ecbench.engine.machine import describe_environment
from ecbench.engine.registry import open_device
from ecbench.kv_offload.fuzzing import draw_request
from ecbench.kv_offload.request_file import describe_request, render_request
from ecbench.kv_offload.shrinking import shrink
from ecbench.report.files import refuse_unwritable, write_atomically
from ecbench.workflows.case_runs import with_targets
from ecbench.workflows.savings_against import as_records, label_of
from ecbench.workflows.savings_outcomes import MASK, Outcome, check_masks, check_schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ecbench.kv_offload.differential import Difference
    from ecbench.kv_offload.known_differences import Known
    from ecbench.kv_offload.real_scheduler import RealScheduler, SchedulerRequest
    from ecbench.measure.stages import StageClock

    FuzzReport = Callable[[str], None]

KIND = "dsv4-swa-savings"
MAX_REQUESTS = 10_000_000
MAX_SHRUNK = 8
"""Differences that are made small; one fault shows in many requests, and each takes seconds."""
REPORT_EVERY = 500
"""Requests from one line of progress to the next."""
_SUSPECT_SHOWN = 4
"""Differences of one request that are worth showing; the rest follow from them."""


@dataclass
class FuzzRun:
    """A fuzz run as it goes.

    Args:
        name: The scheduler's.
        scheduler: What is asked.
        requests: How many are drawn.
        seed: Decides which.
        out: Where scenarios go; None keeps none.
    """

    name: str
    scheduler: RealScheduler
    requests: int
    seed: int
    out: Path | None
    masks: int = 0
    scheduled: int = 0
    also: int = 0
    shrunk: int = 0
    known: dict[str, KnownDifferences] = field(default_factory=dict)
    findings: list[FuzzFinding] = field(default_factory=list)

    def run(self, report: FuzzReport) -> bool:
        """Draws and compares.

        Args:
            report: Told how far it is.

        Returns:
            Whether it came to its end; Ctrl-C ends it early, and what was found is kept.
        """
        try:
            for number in range(self.requests):
                self._try(number, report)
                if (number + 1) % REPORT_EVERY == 0:
                    report(f"{number + 1:,} of {self.requests:,} requests, {len(self.findings)} differences")
        except KeyboardInterrupt:
            return False
        return True

    def tally(self) -> FuzzTally:
        """What was done and found so far."""
        return FuzzTally(
            scheduler=label_of(self.name, self.scheduler),
            seed=self.seed,
            asked=self.requests,
            masks=self.masks,
            scheduled=self.scheduled,
            known=list(self.known.values()),
            findings=self.findings,
            also=self.also,
        )

    def _try(self, number: int, report: FuzzReport) -> None:
        request = draw_request(self.seed, number)
        outcome = self._check(request)
        if outcome.known is not None:
            self._count(outcome.known, number)
        if not outcome.suspect:
            return
        if self.shrunk == MAX_SHRUNK:
            self.also += 1
            return
        self.shrunk += 1
        report(f"request {number:,} differs ({outcome.check}): making it smaller")
        self._keep(number, request, outcome)

    def _check(self, request: SchedulerRequest) -> Outcome:
        """The bare rule first: a difference there is the cause of all others."""
        outcome = check_masks(self.scheduler, request)
        self.masks += 1
        if outcome.suspect:
            return outcome
        outcome = check_schedule(self.scheduler, request)
        self.scheduled += outcome.refused is None
        return outcome

    def _count(self, known: Known, number: int) -> None:
        counted = self.known.get(known.name)
        if counted is None:
            counted = KnownDifferences(name=known.name, reason=known.reason, requests=0, first=number)
        self.known[known.name] = msgspec.structs.replace(counted, requests=counted.requests + 1)

    def _keep(self, number: int, request: SchedulerRequest, outcome: Outcome) -> None:
        check = check_masks if outcome.check == MASK else check_schedule

        def differs(candidate: SchedulerRequest) -> bool:
            tried = check(self.scheduler, candidate)
            return tried.suspect and tried.nature == outcome.nature

        smallest = request
        try:
            for smaller in shrink(request, differs):
                smallest = smaller
        finally:
            # Ctrl-C keeps the smallest form so far.
            self._add(number, smallest, check(self.scheduler, smallest))

    def _add(self, number: int, request: SchedulerRequest, outcome: Outcome) -> None:
        words = describe_request(request)
        if any(finding.request == words for finding in self.findings):
            self.also += 1
            return
        self.findings.append(
            FuzzFinding(
                number=number,
                check=outcome.check,
                differences=as_records(outcome.differences[:_SUSPECT_SHOWN]),
                refused=outcome.refused,
                request=words,
                scenario=self._save(number, request, outcome),
            )
        )

    def _save(self, number: int, request: SchedulerRequest, outcome: Outcome) -> str | None:
        if self.out is None:
            return None
        refuse_unwritable(self.out)
        path = self.out / f"fuzz-{self.name}-seed{self.seed}-{number}.toml"
        label = label_of(self.name, self.scheduler)
        comments = [
            f"Request {number} of seed {self.seed}, made small: ecbench and {label} differ.",
            *map(_difference_line, outcome.differences[:_SUSPECT_SHOWN]),
            *([f"{label} refuses it: {outcome.refused}"] if outcome.refused else []),
            f"Run again: ecbench dsv4-swa-savings --model {path.name} --against {self.name} --no-measure --no-prove",
        ]
        title = f"Fuzzed: request {number} of seed {self.seed}"
        write_atomically(path, render_request(request, title, comments).encode())
        return str(path)


def run_fuzz(fuzz: FuzzRun, clock: StageClock, report: FuzzReport) -> SavingsResult:
    """Runs a fuzz run, and makes a result of it.

    Args:
        fuzz: What to do.
        clock: Takes the time.
        report: Told how far it is.

    Returns:
        A result without cases; incomplete where Ctrl-C ended it.
    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    with clock.stage("fuzz"):
        complete = fuzz.run(report)
    return SavingsResult(
        schema_version=SCHEMA_VERSION,
        kind=KIND,
        started_at=started_at,
        environment=with_targets(describe_environment(open_device("cpu")), [fuzz.scheduler]),
        settings={"against": fuzz.name, "fuzz": fuzz.requests, "seed": fuzz.seed, "measure": False},
        cases=[],
        complete=complete,
        stages_s=clock.seconds_by_stage(),
        fuzz=fuzz.tally(),
    )


def check_fuzz_options(requests: int, against: str | None, *, models_given: bool) -> str:
    """Checks what was asked for.

    Args:
        requests: How many are drawn.
        against: The scheduler's name.
        models_given: The user names models or prompts as well.

    Returns:
        The scheduler's name.

    Raises:
        EcbenchError: No scheduler to ask, a number of requests that makes no sense, or models beside it.
    """
    if against is None:
        raise EcbenchError("--fuzz needs a scheduler to ask: add --against vllm")
    if models_given:
        raise EcbenchError("--fuzz draws its models and prompts: leave out --model and --tokens")
    if not 1 <= requests <= MAX_REQUESTS:
        raise EcbenchError(f"--fuzz {requests}: give 1 to {MAX_REQUESTS:,} requests")
    return against


def _difference_line(difference: Difference) -> str:
    where = f" of {difference.group}" if difference.group else ""
    first = f" (first: chunk {difference.first_chunk})" if difference.first_chunk is not None else ""
    return f"{difference.what}{where}: {difference.ours} planned, {difference.theirs} by the scheduler{first}"
