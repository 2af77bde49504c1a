"""The whole round trip on a fake GPU: region registered, bytes verified on the device, every way out clean."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from ecbench.cli.app import app
from ecbench.core.errors import DoesNotFitError, ExitCode
from ecbench.core.host_memory import HostMemoryKind
from ecbench.core.records import LegStatus
from ecbench.core.toml import parse_table
from ecbench.engine.copy_engines.per_copy import PerCopyEngine
from ecbench.engine.copy_engines.staged import StagedEngine
from ecbench.engine.devices.accelerator_kinds import CUDA, XPU
from ecbench.measure.stages import StageClock
from ecbench.targets.reference_target import ReferenceTarget
from ecbench.transfer.writers import find_writer
from ecbench.workflows.encoder_cache_case import load_case, memory_need
from ecbench.workflows.memory import refuse_what_does_not_fit
from ecbench.workflows.round_trip import RoundTrip, RoundTripOptions, exit_code_of, run_round_trip
from ecbench.workflows.scenarios import ScenarioFile
from tests.engine.fake_accelerator import fake_device
from tests.engine.fake_streams import Order

SCENARIO = """
workload = "ec"
title = "small"
model = "qwen2-vl-2b"
images = [{ size = "336x336", count = 2 }]
placement = "scattered"
rounds = 2
"""


def cases(count, options):
    table = parse_table(SCENARIO, "small.toml")
    files = [ScenarioFile(f"case-{number}", "small.toml", SCENARIO, table) for number in range(count)]
    return [load_case(file, options) for file in files]


def prepared(device, engine, count=1, host_memory=HostMemoryKind.PINNED):
    options = RoundTripOptions(device=device.name, engine=engine.name, host_memory=host_memory)
    wanted = cases(count, options)
    target = ReferenceTarget(engine, find_writer("numpy-batch"), engine.name)
    needs = [memory_need(case, device, target) for case in wanted]
    return RoundTrip(options, device, [target], wanted, needs)


def run(device, engine, count=1, report=lambda *_: None, **options):
    return run_round_trip(prepared(device, engine, count, **options), StageClock(), report)


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("kind", [CUDA, XPU], ids=lambda kind: kind.name)
@pytest.mark.parametrize("make", [lambda device: PerCopyEngine(), StagedEngine], ids=["per-copy", "staged"])
def test_every_byte_arrives(make, kind, order):
    device = fake_device(order, kind=kind)
    result = run(device, make(device))
    assert [leg.status for leg in result.cases[0].legs] == [LegStatus.PASSED] * 2
    assert all(sample.ceiling_s > 0 for leg in result.cases[0].legs for sample in leg.samples)
    assert device.runtime.registered == {}
    assert device.runtime.unregistered_in_flight == []
    assert device.runtime.gpu.violations == []
    assert exit_code_of(result) is ExitCode.OK


def test_the_result_says_what_is_unproven_and_how_memory_was_held():
    device = fake_device(Order.LATE)
    result = run(device, PerCopyEngine())
    notes = result.cases[0].legs[0].notes
    assert any("unverified here" in note and "per-copy" in note for note in notes)
    assert result.environment.device == "cuda:1"
    assert result.environment.pinning == "pinned by cudaHostRegister"
    assert result.settings["host_memory"] == "pinned"


def test_a_refused_registration_is_in_the_result():
    device = fake_device(Order.LATE)
    device.runtime.refuses_registration = True
    result = run(device, PerCopyEngine())
    assert any("cudaHostRegister refused" in note for note in result.cases[0].legs[1].notes)
    assert result.environment.pinning == "pageable: cudaHostRegister refused"
    assert result.cases[0].legs[0].status is LegStatus.PASSED


def test_pageable_memory_is_in_the_result():
    device = fake_device(Order.LATE, host_memory=HostMemoryKind.PAGEABLE)
    result = run(device, PerCopyEngine(), host_memory=HostMemoryKind.PAGEABLE)
    assert result.environment.pinning == "pageable, as asked"
    assert any("pageable, as asked" in note for note in result.cases[0].legs[0].notes)


def test_an_engine_s_own_notes_are_in_the_result():
    device = fake_device(Order.LATE)
    result = run(device, StagedEngine(device))
    assert any("engine staged: the host's side lies in" in note for note in result.cases[0].legs[0].notes)


def test_times_on_xpu_say_what_its_events_do():
    device = fake_device(Order.LATE, kind=XPU)
    result = run(device, PerCopyEngine())
    assert any("overlap" in note for note in result.cases[0].legs[0].notes)


def test_a_device_that_disappears_leaves_the_finished_cases_and_exit_code_three():
    device = fake_device(Order.LATE)

    def lose_it_in_the_second_case(case_id, done, rounds):
        device.runtime.gpu.lost = case_id.startswith("case-1")

    result = run(device, PerCopyEngine(), count=3, report=lose_it_in_the_second_case)
    assert [case.case_id.partition("/")[0] for case in result.cases] == ["case-0"]
    assert not result.complete
    assert "cuda:1 failed while it was used (CUDA error: device is lost)" in result.ended_by
    assert exit_code_of(result) is ExitCode.UNAVAILABLE
    assert device.runtime.registered == {}


def test_ctrl_c_while_copies_are_in_flight_drains_and_unregisters_first():
    device = fake_device(Order.LATE)

    class Interrupted(PerCopyEngine):
        def prepare(self, batch):
            copy = super().prepare(batch)
            counts.append(1)
            if len(counts) == 4:
                PerCopyEngine.prepare(self, batch).run(device.new_stream())
                raise KeyboardInterrupt
            return copy

    counts = []
    result = run(device, Interrupted(), count=2)
    assert exit_code_of(result) is ExitCode.INTERRUPTED
    assert result.ended_by is None
    assert device.runtime.registered == {}
    assert device.runtime.unregistered_in_flight == []


def test_an_error_that_is_not_the_device_s_is_not_hidden():
    class Broken(PerCopyEngine):
        def prepare(self, batch):
            raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape mismatch"):
        run(fake_device(Order.LATE), Broken())


def test_a_case_that_the_device_cannot_hold_is_refused_before_it_runs():
    device = fake_device(Order.LATE, capacity_bytes=1 << 19)
    target = ReferenceTarget(PerCopyEngine(), find_writer("numpy-batch"), "per-copy")
    needs = [memory_need(case, device, target) for case in cases(1, RoundTripOptions())]
    refuse_what_does_not_fit(needs, None, 1 << 40, device_free_bytes=1 << 30)
    with pytest.raises(DoesNotFitError, match=r"the device's free memory, 512 KiB: use fewer or smaller"):
        refuse_what_does_not_fit(needs, None, 1 << 40, device.free_bytes())


@pytest.mark.parametrize(("option", "held"), [("--pinned", "pinned"), ("--pageable", "pageable")])
def test_the_command_line_s_wish_reaches_the_result(option, held, tmp_path):
    (tmp_path / "small.toml").write_text(SCENARIO)
    arguments = [
        "roundtrip",
        str(tmp_path / "small.toml"),
        "--device",
        "cpu",
        option,
        "--json",
        "-",
        "--out",
        str(tmp_path),
    ]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.stderr
    assert msgspec.json.decode(ran.stdout)["settings"]["host_memory"] == held
