"""Measured rounds: fresh content, a poisoned destination, the ceiling, the copy, and verification outside the timer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ecbench.core.errors import CopyRefusedError
from ecbench.core.records import LegResult, LegStatus, Sample, Verify
from ecbench.measure.content import round_key
from ecbench.measure.verification import combine_rounds, verify_round
from ecbench.stats.summary import with_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ecbench.core.copy_plan import CopyPlan
    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import Memory
    from ecbench.measure.stages import StageClock

WARM_UP_ROUNDS = 1
"""Rounds that are verified but not counted: they meet cold code, pools and page tables."""
DEFAULT_ROUNDS = 7
"""The least odd number whose interval of the median reaches 95% while one outlier on either side stays inside it."""
MAX_ROUNDS = 10_000
REMEMBERED_ROUNDS = 16
"""Earlier rounds whose content is still recognised as stale."""


@dataclass(frozen=True, eq=False)
class MeasuredCopy:
    """One direction of a case, ready to be run many times.

    Args:
        direction: ``save``, ``store`` or ``load``.
        plan: What ends up where, block by block, as offsets in ``source`` and ``destination``; made without the code
            under test.
        source: All memory around the source, guards included.
        destination: All memory around the destination, guards included.
        run: Does the copy and waits for it.
        ceiling: Copies as many bytes in one piece with a number of host threads; returns seconds. Only reads the
            source.
        notes: What a reader must know about the path.
        writer: Descriptor writer in use.
        blocks: Blocks that move; None where each copy of the plan is one.
    """

    direction: str
    plan: CopyPlan
    source: Memory
    destination: Memory
    run: Callable[[], CopyTimes]
    ceiling: Callable[[int], float]
    notes: tuple[str, ...]
    writer: str
    blocks: int | None = None


@dataclass
class _Leg:
    copy: MeasuredCopy
    samples: list[Sample] = field(default_factory=list)
    verdicts: list[Verify] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    times: CopyTimes | None = None
    error: str | None = None

    @property
    def open(self) -> bool:
        return self.error is None and all(verdict.ok for verdict in self.verdicts)


def measure_rounds(
    copies: Sequence[MeasuredCopy], *, rounds: int, seed: int, label: str, clock: StageClock, process: int = 0
) -> Iterator[list[LegResult]]:
    """Runs the directions of a case in turn, round by round.

    A direction that is refused, or whose bytes are wrong, ends there; the others go on.

    Args:
        copies: The directions.
        rounds: Rounds that count; a warm-up comes before them.
        seed: The run's seed.
        label: Sets this case's content apart from any other's.
        clock: Takes the time of each stage.
        process: Number of this process, noted in each sample.

    Yields:
        What is known after each round, the warm-up included; the last one is the result.
    """
    legs = [_Leg(copy) for copy in copies]
    for number in range(-WARM_UP_ROUNDS, rounds):
        for leg in legs:
            if leg.open:
                _run_round(leg, number, round_key(seed, label, leg.copy.direction, number), process, clock)
        yield [_leg_result(leg) for leg in legs]


def _run_round(leg: _Leg, number: int, key: int, process: int, clock: StageClock) -> None:
    copy = leg.copy
    with clock.stage("content"):
        copy.source.write_content(key)
    with clock.stage("ceiling"):
        ceiling_s = copy.ceiling(leg.times.threads if leg.times else 1)
    with clock.stage("poison"):
        copy.destination.poison()
    try:
        times = copy.run()
    except CopyRefusedError as error:
        leg.error = str(error)
        return
    _add_copy_stages(clock, times)
    with clock.stage("verify"):
        verdict = verify_round(copy.plan, copy.source, copy.destination, key, leg.keys)
    leg.times = times
    leg.verdicts.append(verdict)
    leg.keys = [key, *leg.keys][:REMEMBERED_ROUNDS]
    if number >= 0:
        leg.samples.append(_sample(times, ceiling_s, number, process))


def _add_copy_stages(clock: StageClock, times: CopyTimes) -> None:
    clock.add("fill", times.fill_s)
    clock.add("submit", times.submit_s)
    clock.add("copy", times.copy_s)


def _sample(times: CopyTimes, ceiling_s: float, number: int, process: int) -> Sample:
    return Sample(
        process=process,
        round=number,
        total_s=times.total_s,
        fill_s=times.fill_s,
        submit_s=times.submit_s,
        copy_s=times.copy_s,
        ceiling_s=ceiling_s,
    )


def _leg_result(leg: _Leg) -> LegResult:
    copy = leg.copy
    verify = combine_rounds(leg.verdicts) if leg.verdicts else None
    status, reason = _status(leg, verify)
    return with_figures(
        LegResult(
            direction=copy.direction,
            status=status,
            reason=reason,
            notes=[*copy.notes, *(leg.times.notes if leg.times else ())],
            engine=leg.times.engine if leg.times else None,
            writer=copy.writer,
            samples=list(leg.samples),
            blocks=len(copy.plan) if copy.blocks is None else copy.blocks,
            descriptors=leg.times.descriptors if leg.times else 0,
            copied_bytes=copy.plan.total_bytes,
            verify=verify,
        )
    )


def _status(leg: _Leg, verify: Verify | None) -> tuple[LegStatus, str | None]:
    if leg.error is not None:
        return LegStatus.ERROR, leg.error
    if verify is None or verify.ok:
        return LegStatus.PASSED, None
    where = f" at byte {verify.first_mismatch.offset_bytes}" if verify.first_mismatch else ""
    return LegStatus.FAILED, f"bytes are wrong: {verify.fault}, first{where}"
