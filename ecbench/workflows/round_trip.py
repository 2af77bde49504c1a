"""``ecbench roundtrip``: scenarios -> cases -> measured, verified rounds -> one result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError, ExitCode, unknown_name
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.records import CaseResult, LegResult, RoundTripResult
from ecbench.core.units import format_bytes
from ecbench.engine.registry import open_device, open_engine
from ecbench.measure.rounds import WARM_UP_ROUNDS, measure_rounds
from ecbench.transfer.shared_region import shm_free_bytes
from ecbench.transfer.writers import find_writer
from ecbench.workflows.case_runs import exit_code_for, run_cases, went_wrong
from ecbench.workflows.leg_notes import with_notes
from ecbench.workflows.memory import MemoryNeed, refuse_what_does_not_fit
from ecbench.workflows.scenarios import SWEEP, read_scenario, refuse_unknown
from ecbench.workflows.workloads import ALL_WORKLOADS, WORKLOAD_NAMES, WORKLOADS, default_scenarios, workload_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.protocols import CopyEngine, DescriptorWriter, Device
    from ecbench.core.records import Environment, Param
    from ecbench.measure.stages import StageClock
    from ecbench.workflows.scenarios import ScenarioFile
    from ecbench.workflows.workloads import RoundTripCase

RoundReport = Callable[[str, int, int], None]
"""Called after each round with the case, the rounds done and the rounds in all."""


@dataclass(frozen=True)
class RoundTripOptions:
    """What a user can ask of a round trip; None leaves it to the scenario.

    Args:
        scenarios: Shipped names or paths; none runs the default set.
        device: Registered device name.
        workload: Which default scenarios to run, and which workload named scenarios must have.
        model: Replaces the scenarios' model.
        engine: Registered engine name.
        writer: Registered writer name.
        coalesce: Joins neighbouring blocks, or not.
        rounds: Rounds that count.
        seed: Decides content and churn.
        memory_limit_bytes: Most host memory a case may take, this process included.
        host_memory: How an accelerator's host side is held.
    """

    scenarios: tuple[str, ...] = ()
    device: str = "auto"
    workload: str = ALL_WORKLOADS
    model: str | None = None
    engine: str = "auto"
    writer: str = "numpy-batch"
    coalesce: bool | None = None
    rounds: int | None = None
    seed: int = 0
    memory_limit_bytes: int | None = None
    host_memory: HostMemoryKind = HostMemoryKind.PINNED


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """A run whose every name was resolved and whose memory fits; nothing is allocated yet."""

    options: RoundTripOptions
    device: Device
    engine: CopyEngine
    writer: DescriptorWriter
    cases: Sequence[RoundTripCase]
    needs: list[MemoryNeed]


def prepare_round_trip(options: RoundTripOptions) -> RoundTrip:
    """Resolves names, checks scenarios and states memory.

    Raises:
        EcbenchError: A bad name, scenario or size (exit 2), or something that is not available here (exit 3).
    """
    if options.workload not in WORKLOAD_NAMES:
        raise unknown_name("workload", options.workload, WORKLOAD_NAMES)
    writer = find_writer(options.writer)
    cases = _load_cases(options)
    device = open_device(options.device, options.host_memory)
    engine = open_engine(options.engine, device)
    needs = [workload_of(case).memory_need(case, device) for case in cases]
    refuse_what_does_not_fit(needs, options.memory_limit_bytes, shm_free_bytes(), device.free_bytes())
    return RoundTrip(options, device, engine, writer, cases, needs)


def _load_cases(options: RoundTripOptions) -> list[RoundTripCase]:
    names = options.scenarios or default_scenarios(options.workload, options.model)
    refuse_unknown(names, WORKLOADS)
    files = [read_scenario(name) for name in names]
    for file in files:
        _refuse_other_workload(file, options.workload)
    cases = [WORKLOADS[file.workload].load_case(file, options) for file in files]
    twice = [case_id for case_id, count in Counter(case.case_id for case in cases).items() if count > 1]
    if twice:
        raise EcbenchError(f"case {twice[0]} is asked for twice: name each scenario once")
    return cases


def _refuse_other_workload(file: ScenarioFile, wanted: str) -> None:
    if file.workload == SWEEP:
        raise EcbenchError(f"{file.where} is a sweep, no round trip: run it with ecbench sweep {file.name}")
    if file.workload not in WORKLOADS:
        raise unknown_name(f"workload in {file.where}", file.workload, tuple(WORKLOADS))
    if wanted not in {ALL_WORKLOADS, file.workload}:
        raise EcbenchError(
            f"{file.where} has workload {file.workload!r}, not {wanted!r}: leave out --workload {wanted}"
        )


def run_round_trip(prepared: RoundTrip, clock: StageClock, report_round: RoundReport) -> RoundTripResult:
    """Runs all cases.

    Args:
        prepared: From `prepare_round_trip`.
        clock: Takes the time of each stage.
        report_round: Told after each round.

    Returns:
        The result; where Ctrl-C or a lost device ended the run, it is incomplete and holds the finished cases.
    """
    return run_cases(
        prepared.cases,
        lambda case, environment: _run_case(prepared, case, environment, clock, report_round),
        kind="roundtrip",
        device=prepared.device,
        settings=_settings(prepared),
        clock=clock,
    )


def _settings(prepared: RoundTrip) -> dict[str, Param]:
    options = prepared.options
    return {
        "device": options.device,
        "engine": options.engine,
        "writer": options.writer,
        "workload": options.workload,
        "target": "reference",
        "host_memory": options.host_memory.value,
        "seed": options.seed,
        "warm_up_rounds": WARM_UP_ROUNDS,
    }


def _run_case(
    prepared: RoundTrip, case: RoundTripCase, environment: Environment, clock: StageClock, report_round: RoundReport
) -> CaseResult:
    rounds = case.scenario.rounds
    legs: list[LegResult] = []
    with workload_of(case).open_case(case, prepared.device, prepared.engine, prepared.writer) as copies:
        steps = measure_rounds(copies, rounds=rounds, seed=case.seed, label=case.case_id, clock=clock)
        for done, legs in enumerate(steps, 1):  # noqa: B007 - the last one is the result
            report_round(case.case_id, done, rounds + WARM_UP_ROUNDS)
    params = {
        **case.params,
        "engine": prepared.options.engine,
        "writer": prepared.options.writer,
        "rounds": rounds,
        "seed": case.seed,
    }
    return CaseResult(
        case_id=case.case_id,
        workload=case.scenario.workload,
        params=params,
        legs=[with_notes(leg, environment, prepared.device) for leg in legs],
    )


def exit_code_of(result: RoundTripResult) -> ExitCode:
    """The exit code a result calls for."""
    return exit_code_for(result, failed=any(went_wrong(leg) for case in result.cases for leg in case.legs))


def describe_needs(needs: Sequence[MemoryNeed]) -> list[tuple[str, str, str, str]]:
    """Rows of a table: case, host region, device buffers, peak host memory."""
    return [
        (
            need.case_id,
            format_bytes(need.host_region_bytes),
            format_bytes(need.device_bytes),
            format_bytes(need.peak_host_bytes),
        )
        for need in needs
    ]
