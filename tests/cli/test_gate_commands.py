"""``ecbench gate`` with a baseline of another command than ``roundtrip``."""

from __future__ import annotations

import json

import msgspec
import pytest
from typer.testing import CliRunner

from ecbench.cli.app import app
from ecbench.core.records import to_json
from ecbench.report.loading import load_result
from ecbench.workflows import command_gate

CORRUPTION = "def size(x):\n    return float(x.data_ptr())\n"
CRASH = "import torch\n\n\ndef table(x):\n    return torch.tensor([x.data_ptr()])\n"


@pytest.fixture
def sources(here):
    """A folder whose file has a finding."""
    (here / "src").mkdir()
    (here / "src" / "sizes.py").write_text(CORRUPTION)
    return here / "src"


@pytest.fixture
def baseline(ecbench, sources, here):
    """A stored scan."""
    assert ecbench("scan-ptrs", "src", "--json", "scan.json", "--quiet").exit_code == 1
    return here / "scan.json"


@pytest.fixture
def in_process(here, monkeypatch):
    """Runs the command in this process, which spares seconds; changes are made to its result."""
    changes = {}

    def run(arguments, load, **_):
        done = CliRunner().invoke(app, [*arguments[3:], "--json", "run.json", "--out", "run", "--quiet"])
        assert done.exit_code in {0, 1}, done.output
        return msgspec.structs.replace(load(here / "run.json"), **changes)

    monkeypatch.setattr(command_gate, "run_command", run)
    return changes


def test_a_fresh_process_scans_again_and_known_findings_pass(ecbench, baseline):
    shown = ecbench("gate", "--baseline", "scan.json", "--strict")
    assert shown.exit_code == 0, shown.stderr
    assert "gate: running ecbench scan-ptrs src --fail-on crash" in shown.stderr
    assert "1 passed; 1 exact figures compared, 0 differ" in shown.stdout


def test_a_new_finding_fails_until_it_is_made_part_of_the_baseline(ecbench, baseline, sources, in_process):
    (sources / "table.py").write_text(CRASH)
    shown = ecbench("gate", "--baseline", "scan.json")
    assert shown.exit_code == 1
    assert "R1 in src/table.py" in shown.stdout
    updated = ecbench("gate", "--baseline", "scan.json", "--update", "--json", "copy.json")
    assert (updated.exit_code, updated.stdout) == (0, "")
    assert "baseline: scan.json" in updated.stderr
    assert json.loads((baseline.parent / "copy.json").read_text())["kind"] == "scan-ptrs"
    assert ecbench("gate", "--baseline", "scan.json", "--quiet").exit_code == 0


def test_quiet_says_nothing_when_all_is_well(ecbench, baseline, in_process):
    shown = ecbench("gate", "--baseline", "scan.json", "--quiet")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "")


def test_the_json_is_a_gate_of_the_command(ecbench, baseline, in_process):
    document = json.loads(ecbench("gate", "--baseline", "scan.json", "--json", "-").stdout)
    assert (document["kind"], document["compared_kind"]) == ("gate", "scan-ptrs")


def test_planned_chunks_and_replay_hits_are_gated(ecbench, here, in_process):
    asked = ("dsv4-swa-savings", "--no-measure", "--tokens", 1000, "--policy", "pr", "--json", "plan.json", "--quiet")
    assert ecbench(*asked).exit_code == 0
    assert ecbench("gate", "--baseline", "plan.json", "--strict", "--quiet").exit_code == 0
    stored = load_result(here / "plan.json")
    more = msgspec.structs.replace(stored.cases[0], replay_hit_tokens=stored.cases[0].replay_hit_tokens + 256)
    (here / "plan.json").write_bytes(to_json(msgspec.structs.replace(stored, cases=[more])))
    shown = ecbench("gate", "--baseline", "plan.json")
    assert shown.exit_code == 1
    assert "replay_hit_tokens: 1024 before, 768 now" in shown.stdout


def test_a_run_that_a_lost_device_ended_is_compared_and_exits_3_but_is_no_baseline(ecbench, baseline, in_process):
    in_process |= {"complete": False, "ended_by": "cuda: the device is lost"}
    ended = ecbench("gate", "--baseline", "scan.json")
    assert ended.exit_code == 3
    assert "ecbench: cuda: the device is lost; compared what was finished" in ended.stderr
    assert "The new result was interrupted" in ended.stdout
    before = baseline.read_bytes()
    ended = ecbench("gate", "--baseline", "scan.json", "--update")
    assert ended.exit_code == 3
    assert "ecbench: cuda: the device is lost; no baseline was written" in ended.stderr
    assert baseline.read_bytes() == before


def test_an_interrupted_command_exits_130_and_keeps_the_baseline(ecbench, baseline, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_gate, "run_command", interrupt)
    before = baseline.read_bytes()
    assert ecbench("gate", "--baseline", "scan.json").exit_code == 130
    assert ecbench("gate", "--baseline", "scan.json", "--update").exit_code == 130
    assert baseline.read_bytes() == before


def test_a_case_that_is_gone_is_inconclusive(ecbench, baseline, in_process):
    stored = load_result(baseline)
    gone = msgspec.structs.replace(stored.cases[0], case_id="gone")
    baseline.write_bytes(to_json(msgspec.structs.replace(stored, cases=[*stored.cases, gone])))
    assert ecbench("gate", "--baseline", "scan.json").exit_code == 0
    assert ecbench("gate", "--baseline", "scan.json", "--strict").exit_code == 5


@pytest.mark.parametrize("arguments", [("ec-churned",), ("--device", "cpu"), ("--processes", 2), ("--pageable",)])
@pytest.mark.parametrize("update", [(), ("--update",)])
def test_what_is_for_round_trips_is_refused_in_one_line(ecbench, baseline, arguments, update):
    refused = ecbench("gate", "--baseline", "scan.json", *arguments, *update)
    assert refused.exit_code == 2
    (line,) = refused.stderr.splitlines()
    assert "scan.json is a result of scan-ptrs, which runs again with its own options: leave out" in line


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"path": "src"}, "its settings lack package, fail_on, baseline, strict"), ({}, "its settings lack path")],
)
def test_a_baseline_of_an_older_version_exits_4_and_says_how_to_write_a_new_one(ecbench, baseline, settings, words):
    baseline.write_bytes(to_json(msgspec.structs.replace(load_result(baseline), settings=settings)))
    refused = ecbench("gate", "--baseline", "scan.json")
    assert refused.exit_code == 4
    (line,) = refused.stderr.splitlines()
    assert words in line
    assert "write a new baseline with `ecbench scan-ptrs ... --json FILE`" in line


def test_a_result_that_no_gate_runs_again_exits_4_and_is_not_overwritten(ecbench, here):
    assert ecbench("list", "engines", "--json", "engines.json").exit_code == 0
    before = (here / "engines.json").read_bytes()
    for update in ((), ("--update",)):
        refused = ecbench("gate", "--baseline", "engines.json", *update)
        assert refused.exit_code == 4
        assert "a result of 'list' is no baseline of a gate: give one of roundtrip" in refused.stderr
    assert (here / "engines.json").read_bytes() == before


def test_update_of_a_file_that_is_missing_or_broken_writes_round_trips(ecbench, here, tiny):
    for text in (None, "{"):
        if text is not None:
            (here / "new.json").write_text(text)
        asked = ("gate", "--baseline", "new.json", "--update", tiny, "--device", "cpu", "--processes", 1, "--quiet")
        assert ecbench(*asked).exit_code == 0
        assert load_result(here / "new.json").kind == "roundtrip"
        (here / "new.json").unlink()
