"""Yes-or-no checks of an engine on a device; no test framework, so that they run where only torch and NumPy are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ecbench.core.descriptors import Direction
from ecbench.core.errors import CopyRefusedError, ExitCode
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.protocols import CopyEngine, Device
from ecbench.core.toml import parse_table
from ecbench.engine.devices.accelerator import AcceleratorDevice
from ecbench.engine.registry import open_device, open_engine
from ecbench.measure.stages import StageClock
from ecbench.targets.reference_target import ReferenceTarget
from ecbench.transfer.writers import find_writer
from ecbench.workflows.encoder_cache_case import load_case, memory_need
from ecbench.workflows.round_trip import RoundTrip, RoundTripOptions, exit_code_of, run_round_trip
from ecbench.workflows.scenarios import ScenarioFile
from tests.engine.hazards import HAZARDS
from tests.engine.transfers import block_plan, odd_plan, transfer

COUNTS = (1, 64, 4096, 60_000)
COUNT_BLOCK_BYTES = 512
"""Small, so that 60,000 copies are 30 MB."""
ODD_COPIES = 300
WHOLE_WORDS_ONLY = frozenset({"triton"})
TAKE_PAGEABLE = frozenset({"per-copy", "staged"})
DELAY_BYTES = 64 << 20
DELAY_KERNELS = 60
"""Passes over 64 MiB: a few milliseconds on any GPU, long beside the copies that must not overtake them."""
SCENARIO = """
workload = "ec"
title = "A few images without neighbouring blocks"
model = "qwen2-vl-2b"
images = [{ size = "448x448", count = 4 }]
placement = "scattered"
rounds = 3
"""

Check = Callable[[Device, CopyEngine], None]


@dataclass(frozen=True)
class Outcome:
    """How a check ended.

    Args:
        name: The check, and the engine.
        problem: What went wrong; None where nothing did.
    """

    name: str
    problem: str | None


def slow_kernels(device):
    """Keeps the compute stream busy."""
    block = device.empty(DELAY_BYTES)
    for _ in range(DELAY_KERNELS):
        block.add_(1)


def hazard_check(hazard):
    """A hazard under a busy compute stream."""

    def check(device, engine):
        assert hazard(device, engine, delay=slow_kernels), "wrong bytes"

    check.__name__ = hazard.__name__
    return check


def every_batch_count(device, engine):
    """One copy, many, and more than a call may take."""
    for count in COUNTS:
        for direction in Direction:
            verdict, done = transfer(device, engine, block_plan(count, COUNT_BLOCK_BYTES, direction), direction)
            assert verdict.ok, f"{count} copies {direction.value}: {verdict.fault}"
            assert done.descriptors == count


def odd_sizes(device, engine):
    """Any length at any offset; an engine that only takes whole words must say so."""
    for direction in Direction:
        try:
            verdict, _ = transfer(device, engine, odd_plan(ODD_COPIES, seed=1), direction)
        except CopyRefusedError:
            assert engine.name in WHOLE_WORDS_ONLY, "refused"
            continue
        assert verdict.ok, f"{direction.value}: {verdict.fault}"


def scattered_host(device, engine):
    """Blocks apart from each other on both sides."""
    for direction in Direction:
        verdict, _ = transfer(device, engine, block_plan(500, 3072, direction, contiguous_host=False), direction)
        assert verdict.ok, f"{direction.value}: {verdict.fault}"


def encoder_cache_round_trip(device, engine):
    """The command's own round trip, verified on the device."""
    options = RoundTripOptions(device=device.name, engine=engine.name)
    table = parse_table(SCENARIO, "device.toml")
    case = load_case(ScenarioFile("device", "device.toml", SCENARIO, table), options)
    target = ReferenceTarget(engine, find_writer("numpy-batch"), engine.name)
    prepared = RoundTrip(options, device, [target], [case], [memory_need(case, device, target)])
    result = run_round_trip(prepared, StageClock(), lambda *_: None)
    reasons = [leg.reason for case in result.cases for leg in case.legs if leg.reason]
    assert exit_code_of(result) is ExitCode.OK, result.ended_by or "; ".join(reasons)


CHECKS: tuple[Check, ...] = (
    encoder_cache_round_trip,
    *(hazard_check(hazard) for hazard in HAZARDS),
    every_batch_count,
    odd_sizes,
    scattered_host,
)


def run_check(check, device, engine):
    """Runs one check; whatever it raises becomes its problem, so that the others still run."""
    name = f"{check.__name__} / {engine.name} / {device.name}"
    try:
        check(device, engine)
    except Exception as error:
        return Outcome(name, f"{type(error).__name__}: {error}")
    return Outcome(name, None)


def pageable_outcomes(device, engine_names):
    """The round trip over host memory that no driver was told about, by the engines that leave such memory to torch."""
    pageable = AcceleratorDevice(device.kind, device.index, HostMemoryKind.PAGEABLE, device.runtime)
    names = [name for name in engine_names if name in TAKE_PAGEABLE]
    outcomes = [run_check(encoder_cache_round_trip, pageable, open_engine(name, pageable)) for name in names]
    return [Outcome(f"pageable {outcome.name}", outcome.problem) for outcome in outcomes]


def second_device_outcomes(device, engine_names):
    """The round trip on the next GPU, where there is one: the index must be kept end to end."""
    if device.runtime is not torch or torch.accelerator.device_count() < 2:
        return []
    other = open_device(f"{device.kind.torch_type}:1")
    return [run_check(encoder_cache_round_trip, other, open_engine(name, other)) for name in engine_names]
