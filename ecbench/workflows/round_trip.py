"""``ecbench roundtrip``: scenarios -> cases -> measured, verified rounds -> one result."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError, ExitCode, unknown_name
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.records import CaseResult, LegResult, RoundTripResult, RunResult
from ecbench.core.units import format_bytes
from ecbench.engine.registry import open_device
from ecbench.measure.rounds import WARM_UP_ROUNDS, measure_rounds
from ecbench.targets.reference_target import ReferenceTarget
from ecbench.targets.registry import REFERENCE, names_of, open_targets
from ecbench.transfer.shared_region import shm_free_bytes
from ecbench.transfer.writers import find_writer
from ecbench.workflows.case_runs import exit_code_for, run_cases, went_wrong
from ecbench.workflows.leg_notes import with_notes
from ecbench.workflows.memory import MemoryNeed, refuse_what_does_not_fit, together
from ecbench.workflows.scenarios import SWEEP, read_scenario, refuse_unknown
from ecbench.workflows.workloads import ALL_WORKLOADS, WORKLOAD_NAMES, WORKLOADS, default_scenarios, workload_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.protocols import CopyEngine, Device
    from ecbench.core.records import Environment, Param
    from ecbench.measure.stages import StageClock
    from ecbench.targets.protocol import Target
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
        target: Whose connectors run: a registered name, or ``both``.
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
    target: str = REFERENCE


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """A run whose every name was resolved and whose memory fits; nothing is allocated yet."""

    options: RoundTripOptions
    device: Device
    targets: Sequence[Target]
    cases: Sequence[RoundTripCase]
    needs: list[MemoryNeed]


def prepare_round_trip(options: RoundTripOptions) -> RoundTrip:
    """Resolves names, checks scenarios and states memory.

    Raises:
        EcbenchError: A bad name, scenario or size (exit 2), or something that is not available here (exit 3).
    """
    if options.workload not in WORKLOAD_NAMES:
        raise unknown_name("workload", options.workload, WORKLOAD_NAMES)
    names_of(options.target)
    find_writer(options.writer)
    cases = _load_cases(options)
    device = open_device(options.device, options.host_memory)
    targets = open_targets(options.target, device, engine=options.engine, writer=options.writer)
    _refuse_what_targets_decide(options, device, cases, targets)
    needs = [together([workload_of(case).memory_need(case, device, target) for target in targets]) for case in cases]
    refuse_what_does_not_fit(needs, options.memory_limit_bytes, shm_free_bytes(), device.free_bytes())
    return RoundTrip(options, device, targets, cases, needs)


def _refuse_what_targets_decide(
    options: RoundTripOptions, device: Device, cases: Sequence[RoundTripCase], targets: Sequence[Target]
) -> None:
    pageable = options.host_memory is HostMemoryKind.PAGEABLE and not device.copies_inside_submit
    for target in targets:
        if pageable and target.name != REFERENCE:
            raise EcbenchError(f"target {target.name} pins its region itself: leave out --pageable")
        for case in cases:
            target.refuse(case.case_id, coalesce=case.scenario.coalesce)


def with_engine(prepared: RoundTrip, wrap: Callable[[CopyEngine], CopyEngine]) -> RoundTrip:
    """The same run of the reference with another engine, for those who test this tool.

    Args:
        prepared: A run of the reference alone.
        wrap: Makes the engine, given the one that would have run.
    """
    (reference,) = prepared.targets
    assert isinstance(reference, ReferenceTarget)
    return replace(prepared, targets=[replace(reference, copy_engine=wrap(reference.copy_engine))])


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
    grouped: RunResult[list[CaseResult]] = run_cases(
        prepared.cases,
        lambda case, environment: _run_case(prepared, case, environment, clock, report_round),
        kind="roundtrip",
        device=prepared.device,
        settings=_settings(prepared),
        clock=clock,
        targets=prepared.targets,
    )
    fields = {name: getattr(grouped, name) for name in grouped.__struct_fields__}
    return RoundTripResult(**{**fields, "cases": [case for group in grouped.cases for case in group]})


def _settings(prepared: RoundTrip) -> dict[str, Param]:
    options = prepared.options
    return {
        "device": options.device,
        "engine": options.engine,
        "writer": options.writer,
        "workload": options.workload,
        "target": options.target,
        "host_memory": options.host_memory.value,
        "seed": options.seed,
        "warm_up_rounds": WARM_UP_ROUNDS,
    }


def _run_case(
    prepared: RoundTrip, case: RoundTripCase, environment: Environment, clock: StageClock, report_round: RoundReport
) -> list[CaseResult]:
    """One result per target; their rounds take turns."""
    rounds = case.scenario.rounds
    legs: list[LegResult] = []
    with ExitStack() as stack:
        opened = [
            stack.enter_context(workload_of(case).open_case(case, prepared.device, target))
            for target in prepared.targets
        ]
        copies = [copy for of_target in opened for copy in of_target]
        steps = measure_rounds(copies, rounds=rounds, seed=case.seed, label=case.case_id, clock=clock)
        for done, legs in enumerate(steps, 1):  # noqa: B007 - the last one is the result
            report_round(case.case_id, done, rounds + WARM_UP_ROUNDS)
    noted = iter([with_notes(leg, environment, prepared.device) for leg in legs])
    return [
        _case_result(case, target, list(itertools.islice(noted, len(of_target))))
        for target, of_target in zip(prepared.targets, opened, strict=True)
    ]


def _case_result(case: RoundTripCase, target: Target, legs: list[LegResult]) -> CaseResult:
    """The result of a case on a target; that of the reference is named and described by the case alone."""
    others = {} if target.name == REFERENCE else {"target": target.name}
    return CaseResult(
        case_id=case.case_id + case_suffix(target.name),
        workload=case.scenario.workload,
        params={
            **case.params,
            "engine": target.engine,
            "writer": target.writer,
            "rounds": case.scenario.rounds,
            "seed": case.seed,
            **others,
        },
        legs=legs,
    )


def case_suffix(target: str) -> str:
    """What a target adds to the name of a case: nothing for the reference.

    Args:
        target: Registered name.
    """
    return "" if target == REFERENCE else f"@{target}"


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
