"""The device run itself, tried on a fake GPU: whoever has the hardware must not find its errors."""

from __future__ import annotations

import msgspec
import pytest

from ecbench.core.descriptors import PreparedCopy
from ecbench.core.errors import ExitCode
from ecbench.core.records import CaseResult, LegStatus, RunResult, to_json
from ecbench.engine.copy_engines.per_copy import PerCopyEngine
from ecbench.engine.diagnostics.device_runs import read_device_runs
from tests.device import __main__ as device_run
from tests.device import checks, grid
from tests.device.checks import Outcome
from tests.device.report import proven_engines, render
from tests.engine.fake_accelerator import fake_device
from tests.engine.fake_streams import Order

NAMES = ["per-copy", "staged"]


@pytest.fixture
def small(monkeypatch):
    """As everywhere, but in sizes that a fake GPU is done with in seconds."""
    monkeypatch.setattr(checks, "COUNTS", (1, 70))
    monkeypatch.setattr(checks, "DELAY_BYTES", 64)
    monkeypatch.setattr(checks, "DELAY_KERNELS", 2)
    monkeypatch.setattr(checks, "SCENARIO", checks.SCENARIO.replace("count = 4", "count = 1"))
    monkeypatch.setattr(grid, "MAX_CELL_BYTES", 70_000)
    monkeypatch.setattr(grid, "BLOCK_BYTES", (3072, 16384))
    monkeypatch.setattr(grid, "COUNTS", (4, 8))


def run(device):
    return device_run.run(device, NAMES, lambda line: None)


def test_on_right_hardware_everything_passes(small, tmp_path):
    device = fake_device(Order.OTHERS_FIRST)
    result, outcomes = run(device)
    assert [outcome for outcome in outcomes if outcome.problem] == []
    assert len(outcomes) == len(checks.CHECKS) * (len(NAMES) + 1) + len(NAMES)
    assert device_run.exit_code(result, outcomes) is ExitCode.OK
    assert device.runtime.gpu.violations == []
    assert device.runtime.registered == {}
    text = render(result, outcomes, "cuda")
    record = tmp_path / "measurements.md"
    record.write_text(text)
    assert read_device_runs(record) == {"cuda": set(NAMES)}
    assert "| 3.00 KiB | 4 | staged | load |" in text
    assert "skipped: 128 KiB is above 68.4 KiB for one cell" in text
    assert msgspec.json.decode(to_json(result), type=RunResult[CaseResult]).kind == "device-run"


def test_wrong_bytes_are_a_failure_and_prove_nothing(small, monkeypatch):
    nothing = PreparedCopy(PerCopyEngine.name, 0, run=lambda stream: None)
    monkeypatch.setattr(PerCopyEngine, "prepare", lambda self, batch: nothing)
    result, outcomes = run(fake_device(Order.LATE))
    assert device_run.exit_code(result, outcomes) is ExitCode.CHECK_FAILED
    assert proven_engines(result, outcomes) == ["staged"]
    assert "failed: bytes are wrong: missing" in render(result, outcomes, "cuda")
    assert any("every_batch_count / per-copy" in outcome.name and outcome.problem for outcome in outcomes)


def test_the_command_writes_json_and_markdown(small, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(device_run, "open_device", lambda name: fake_device(Order.LATE))
    monkeypatch.setattr(device_run, "ENGINES", dict.fromkeys(["per-copy"]))
    monkeypatch.setattr(device_run, "CHECKS", checks.CHECKS[:1])
    assert device_run.main(["--device", "cuda:1", "--out", str(tmp_path)]) == 0
    suffixes = sorted(path.suffix for path in tmp_path.iterdir())
    assert suffixes == [".json", ".md"]
    printed = capsys.readouterr()
    assert "Device run: `cuda` (Fake GPU 1): `per-copy`" in printed.out
    assert "engine per-copy: runs here" in printed.err


def test_a_check_that_breaks_does_not_end_the_run():
    def broken(device, engine):
        raise OSError("no such thing")

    outcome = checks.run_check(broken, fake_device(Order.LATE), PerCopyEngine())
    assert outcome == Outcome("broken / per-copy / cuda:1", "OSError: no such thing")


def test_cells_that_come_too_late_are_skipped_with_the_reason():
    cell = grid.Cell("per-copy", 3072, 4)
    case = grid.measure_cell(cell, fake_device(Order.LATE), PerCopyEngine(), deadline_s=0.0)
    assert [leg.status for leg in case.legs] == [LegStatus.SKIPPED] * 2
    assert "time" in case.legs[0].reason


def test_the_grid_is_the_one_that_was_promised():
    wanted = grid.cells(["a", "b"])
    assert len(wanted) == 2 * 5 * 2
    assert {cell.block_bytes for cell in wanted} == {3072, 7168, 16384, 65536, 1048576}
    assert {cell.count for cell in wanted} == {64, 4096}
    assert [cell.engine for cell in wanted[:2]] == ["a", "b"]
    assert (grid.ROUNDS, grid.MAX_CELL_BYTES) == (3, 512 << 20)


def test_without_an_accelerator_the_command_says_so(capsys):
    assert device_run.main(["--device", "cpu"]) == 3
    assert "torch sees no accelerator" in capsys.readouterr().err
