"""``ecbench selftest``: byte faults and slowdowns, made on purpose -> what the verifier and the gate find of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ecbench.core.errors import CopyRefusedError, ExitCode, UnavailableError
from ecbench.core.records import Fault, LegStatus
from ecbench.core.selftest_records import InjectedFault, ProcessRound, SelftestCase, SelftestResult
from ecbench.engine.copy_engines.faulty import FaultyEngine
from ecbench.measure.fault_injection import FaultInjection
from ecbench.measure.rounds import WARM_UP_ROUNDS
from ecbench.measure.stages import StageClock
from ecbench.stats.alpha_spending import LookSchedule
from ecbench.stats.error_rates import PROMISES, REPEATS, with_rates
from ecbench.workflows.case_runs import exit_code_for, run_cases
from ecbench.workflows.round_trip import RoundTripOptions, prepare_round_trip, run_round_trip, with_engine
from ecbench.workflows.selftest_rounds import run_turns, warm_server
from ecbench.workflows.selftest_worker import RoundRequest, direction_of

if TYPE_CHECKING:
    from ecbench.core.records import LegResult, RoundTripResult
    from ecbench.workflows.round_trip import RoundTrip

KIND = "selftest"
DEFAULT_SCENARIO = "selftest"
Progress = Callable[[str], None]
"""Told now and then how far it is."""
_REPORTS_PER_RUN = 8


@dataclass(frozen=True)
class Extent:
    """How much is run.

    Args:
        pairs: Pairs of process rounds in each gate.
        turns_per_pair: Turns for each of them: so many gates share no process round.
        rounds: Rounds that count, per process round.
        budget_s: Seconds after which no turn is started, once there are as many as pairs.
    """

    pairs: int
    turns_per_pair: int
    rounds: int = 15
    budget_s: float = math.inf

    @property
    def turns(self) -> int:
        """Turns in all."""
        return self.pairs * self.turns_per_pair


FULL = Extent(pairs=16, turns_per_pair=6)
"""16 pairs find a slowdown of twice the threshold in 98 of 100 gates (benchmarks/gate_simulation.py)."""
QUICK = Extent(pairs=10, turns_per_pair=4, rounds=9, budget_s=25.0)
"""Leaves 35 of 60 seconds to imports, faults, statistics and reports."""


@dataclass(frozen=True)
class SelftestOptions:
    """What a user can ask of a self-test.

    Args:
        scenario: Shipped name or path.
        device: Registered device name.
        engine: Registered engine name.
        writer: Registered writer name.
        extent: How much is run.
        pairs: Pairs in each gate; None leaves it to the extent.
        seed: Decides content, faults, the order of runs and the re-pairing.
    """

    scenario: str = DEFAULT_SCENARIO
    device: str = "auto"
    engine: str = "auto"
    writer: str = "numpy-batch"
    extent: Extent = FULL
    pairs: int | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Selftest:
    """A self-test whose every name was resolved and whose memory fits; nothing was run yet.

    Args:
        options: What the user asked for.
        extent: How much is run.
        schedule: Looks of each gate.
        faults_on: Runs the scenario block by block, one round that counts.
    """

    options: SelftestOptions
    extent: Extent
    schedule: LookSchedule
    faults_on: RoundTrip

    @property
    def request(self) -> RoundRequest:
        """A process round without delay."""
        options = self.options
        return RoundRequest(
            scenario=options.scenario,
            device=self.faults_on.device.name,
            engine=options.engine,
            writer=options.writer,
            rounds=self.extent.rounds,
            seed=options.seed,
            delay=0.0,
        )


def prepare_selftest(options: SelftestOptions) -> Selftest:
    """Resolves names, checks the scenario and states memory.

    Raises:
        EcbenchError: A bad name, scenario or number (exit 2), or something that is not available here (exit 3).
    """
    extent = dataclasses.replace(options.extent, pairs=options.pairs or options.extent.pairs)
    schedule = LookSchedule.up_to(extent.pairs)
    extent = dataclasses.replace(extent, pairs=schedule.rounds[-1])
    faults_on = prepare_round_trip(
        RoundTripOptions(
            scenarios=(options.scenario,),
            device=options.device,
            engine=options.engine,
            writer=options.writer,
            # A descriptor per block: verification names faults block by block.
            coalesce=False,
            rounds=1,
            seed=options.seed,
        )
    )
    return Selftest(options, extent, schedule, faults_on)


def run_selftest(prepared: Selftest, clock: StageClock, report: Progress) -> SelftestResult:
    """Injects every fault, then runs process rounds with and without delays, then judges.

    Args:
        prepared: From `prepare_selftest`.
        clock: Takes the time of each stage.
        report: Told now and then how far it is.

    Returns:
        The result. Where Ctrl-C or a lost device ended the run, it is incomplete: without a case while faults were
        injected, later with the turns that were finished.

    Raises:
        EcbenchError: A process round failed, or a copy was refused.
    """
    options = prepared.options
    turns = _Turns()
    result = run_cases(
        prepared.faults_on.cases,
        lambda *_: _run_case(prepared, turns, clock, report),
        kind=KIND,
        device=prepared.faults_on.device,
        settings={
            "device": options.device,
            "engine": options.engine,
            "writer": options.writer,
            "seed": options.seed,
            "pairs": prepared.extent.pairs,
            "rounds": prepared.extent.rounds,
            "warm_up_rounds": WARM_UP_ROUNDS,
        },
        clock=clock,
    )
    return msgspec.structs.replace(result, complete=result.complete and not turns.interrupted)


@dataclass
class _Turns:
    """The process rounds of the turns that were finished."""

    rounds: list[ProcessRound] = field(default_factory=list)
    interrupted: bool = False


def _run_case(prepared: Selftest, turns: _Turns, clock: StageClock, report: Progress) -> SelftestCase:
    case = prepared.faults_on.cases[0]
    with clock.stage("faults"):
        faults = inject_faults(prepared.faults_on, report)
    with clock.stage("process rounds"):
        _gather(turns, prepared, report)
    with clock.stage("statistics"):
        return with_rates(
            SelftestCase(
                case_id=case.case_id,
                workload=case.scenario.workload,
                params=case.params,
                pairs=prepared.extent.pairs,
                looks=list(prepared.schedule.rounds),
                repeats=REPEATS,
                seed=prepared.options.seed,
                promises=PROMISES,
                process_rounds=turns.rounds,
                faults=faults,
            )
        )


def inject_faults(round_trip: RoundTrip, report: Progress) -> list[InjectedFault]:
    """Makes a fault of every class in every direction, and sees what verification says.

    Args:
        round_trip: Runs one round that counts, so that the fault meets content of an earlier round.
        report: Told about the start.

    Raises:
        EcbenchError: A copy was refused, or the device is gone.
        KeyboardInterrupt: Ctrl-C.
    """
    report(f"{round_trip.cases[0].case_id}: byte faults of {len(Fault)} classes")
    return [entry for fault in Fault for entry in _inject(fault, round_trip)]


def _inject(fault: Fault, round_trip: RoundTrip) -> list[InjectedFault]:
    draw = np.random.default_rng([round_trip.options.seed, list(Fault).index(fault)])
    injection = FaultInjection(fault, draw)
    faulty = with_engine(round_trip, lambda engine: FaultyEngine(engine, round_trip.device, injection))
    result = run_round_trip(faulty, StageClock(), lambda *_: None)
    _refuse_unfinished(result)
    return [_outcome(fault, leg, injection) for leg in result.cases[0].legs]


def _refuse_unfinished(result: RoundTripResult) -> None:
    if not result.complete:
        raise UnavailableError(result.ended_by) if result.ended_by else KeyboardInterrupt
    for case in result.cases:
        for leg in case.legs:
            if leg.status is LegStatus.ERROR:
                raise CopyRefusedError(f"{case.case_id} {leg.direction}: {leg.reason}")


def _outcome(fault: Fault, leg: LegResult, injection: FaultInjection) -> InjectedFault:
    return InjectedFault(
        fault=fault,
        direction=leg.direction,
        injected=direction_of(leg.direction) in injection.changed,
        found=leg.status is LegStatus.FAILED,
        named=leg.verify.fault if leg.verify else None,
        counts=leg.verify.fault_counts if leg.verify else {},
    )


def _gather(turns: _Turns, prepared: Selftest, report: Progress) -> None:
    extent = prepared.extent
    try:
        with warm_server() as server:
            finished = run_turns(
                server.run_round, prepared.request, least=extent.pairs, most=extent.turns, budget_s=extent.budget_s
            )
            for turn, entries in enumerate(finished):
                if turn % max(1, extent.turns // _REPORTS_PER_RUN) == 0:
                    report(f"turn {turn + 1} of {extent.turns}: {len(entries)} process rounds each")
                turns.rounds += entries
    except KeyboardInterrupt:
        # The faults, and the turns so far, are worth keeping.
        turns.interrupted = True


def missed(case: SelftestCase) -> list[InjectedFault]:
    """Faults that changed bytes and were not found."""
    return [entry for entry in case.faults if entry.injected and not entry.found]


def exit_code_of(result: SelftestResult) -> ExitCode:
    """The exit code a result calls for: a fault that is missed, or more false alarms than promised."""
    failed = any(missed(case) or case.cries_wolf for case in result.cases)
    return exit_code_for(result, failed=failed)
