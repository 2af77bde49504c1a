from __future__ import annotations

import errno
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

import jsonschema
import msgspec
import pytest
import typer
from typer.testing import CliRunner

from ecbench.cli import sweep as command
from ecbench.core.sweep_records import SweepResult
from ecbench.report import files
from ecbench.report.axes import varying_axes
from ecbench.report.descriptions.sweep import describe_sweep
from ecbench.report.loading import load_result
from ecbench.report.schema import results_schema
from ecbench.stats.sweep_model import with_model
from ecbench.workflows import copy_session, sweep_journal
from ecbench.workflows.scenarios import SWEEP, shipped_workload
from tests.faults import FaultyEngine
from tests.workflows.sweeps import TINY_SWEEP

KILLS = 15
FITTED_SWEEP = """\
workload = "sweep"
title = "Enough cells for a model"
rounds = 2

[axes]
block_size = ["4KiB", "16KiB", "64KiB", "256KiB"]
count = [1, 16, 64]
run_length = [1, 16]
engine = "memmove,gather"
"""
RUN = """
import sys, typer
from ecbench.cli.sweep import sweep
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(sweep)
app(sys.argv[1:])
"""
FORK_AND_KILL = """
import os, random, signal, sys, time
from pathlib import Path
from ecbench.core.errors import EcbenchError
from ecbench.measure.stages import StageClock
from ecbench.workflows.sweep import SweepOptions, prepare_sweep, reopen_journal, run_sweep, start_journal

draw, folder = random.Random(2), Path()
options = SweepOptions(scenario=sys.argv[1], device="cpu", rounds=300)

def run(open_journal):
    sweep = prepare_sweep(options)
    with open_journal(sweep, folder) as journal:
        run_sweep(sweep, journal, StageClock(), lambda _: None)

killed = 0
for number in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        run(reopen_journal if number else start_journal)
        os._exit(0)
    time.sleep(draw.uniform(0.05, 0.3))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    killed += os.WIFSIGNALED(status)
print(killed)
"""


@pytest.fixture
def sweep():
    app = typer.Typer()
    app.command()(command.sweep)

    def run(*arguments, **options):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)

    return run


@pytest.fixture
def tiny(here):
    (here / "tiny.toml").write_text(TINY_SWEEP)
    return "tiny.toml"


def _error_line(result):
    lines = [line for line in result.stderr.splitlines() if line.startswith("ecbench:")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


def _document(here):
    (path,) = (here / "reports").glob("*.json")
    return json.loads(path.read_text())


def _legs(document):
    return [
        (case["case_id"], leg["direction"], len(leg["samples"])) for case in document["cases"] for leg in case["legs"]
    ]


def test_a_sweep_prints_its_cells_and_writes_its_reports_and_no_journal_is_left(sweep, tiny, here):
    result = sweep(tiny, "--device", "cpu")
    assert result.exit_code == 0
    for word in ("tiny/4KiBx12,run=3,memmove", "save", "load", "of ceiling", "right", "SKIPPED", "6 skipped"):
        assert word in result.stdout
    assert {path.suffix for path in (here / "reports").iterdir()} == {".json", ".md", ".html"}
    document = _document(here)
    jsonschema.validate(document, results_schema())
    assert document["kind"] == "sweep"
    assert document["complete"] is True
    assert document["axes"]["block_size"] == [4096, 7168, 1000]
    assert {count for _, _, count in _legs(document)} == {0, 3}


def test_the_model_is_printed_and_follows_from_the_samples(sweep, here):
    (here / "fitted.toml").write_text(FITTED_SWEEP)
    result = sweep("fitted.toml", "--device", "cpu")
    assert result.exit_code == 0
    for word in ("cost model", "per descriptor", "half of it at", "which engine where", "coalescing", "predicted"):
        assert word in result.stdout
    (markdown,) = (here / "reports").glob("*.md")
    for word in ("## Cost model", "## Which engine where", "## What coalescing gives", "## Cells"):
        assert word in markdown.read_text()
    stored = msgspec.json.decode(next((here / "reports").glob("*.json")).read_bytes(), type=SweepResult)
    assert {fit.group.engine for fit in stored.fits} <= {"memmove", "gather"}
    assert with_model(stored) == stored


def test_axes_come_from_options(sweep, tiny, here):
    result = sweep(
        tiny,
        *("--block-size", "4KiB,8KiB", "--count", "6", "--run-length", "1,2", "--byte-offset", "0,8"),
        *("--writer", "numpy-batch,numpy-item", "--engine", "memmove,gather", "--direction", "save"),
        *("--axis", "coalesce=false", "--pageable", "--rounds", 1, "--device", "cpu", "--quiet"),
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    document = _document(here)
    assert len(document["cases"]) == 2 * 2 * 2 * 2 * 2
    assert {leg["descriptors"] for case in document["cases"] for leg in case["legs"]} == {6}
    assert {direction for _, direction, _ in _legs(document)} == {"save"}


KV_SWEEP = """\
workload = "sweep"
cells = "kv"
title = "A small KV cell"
rounds = 2

[axes]
tokens = 512
engine = "memmove"
"""


def test_axes_of_kv_cells_come_from_options_and_every_format_shows_them(sweep, here):
    (here / "kv.toml").write_text(KV_SWEEP)
    result = sweep(
        *("kv.toml", "--block-size", "128,256", "--alignment-tokens", "default,512", "--blocks-per-chunk", "1,2"),
        *("--retention-interval", "none,0", "--axis", "memory=32MiB", "--rounds", 1, "--device", "cpu"),
    )
    assert result.exit_code == 0
    for word in ("kv/512tok,block=128,align=512,chunk=2,retain=none,memory=32MiB,memmove", "store", "load", "right"):
        assert word in result.stdout.replace("\n", "")
    assert "a sample is copied" in " ".join(result.stdout.split())
    document = _document(here)
    assert len(document["cases"]) == 2**4
    (markdown,) = (here / "reports").glob("*.md")
    assert "a sample is copied" in markdown.read_text()
    assert "## Plans" in markdown.read_text()
    loaded = load_result(next((here / "reports").glob("*.json")))
    (plans,) = [section for section in describe_sweep(loaded).sections if section.heading == "Plans"]
    ran = [case for case in document["cases"] if case["legs"][0]["samples"]]
    assert 8 < len(plans.table.rows) == len(ran) < 2**4
    assert varying_axes(loaded) == ["block_size_tokens", "alignment_tokens", "blocks_per_chunk", "retention_interval"]


def test_json_on_stdout_is_only_json(sweep, tiny, here):
    result = sweep(tiny, "--json", "-", "--device", "cpu")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kind"] == "sweep"


def test_json_and_reports_go_where_they_are_told(sweep, tiny, here):
    result = sweep(tiny, "--json", "x/result.json", "--out", "y/z", "--quiet", "--device", "cpu")
    assert result.exit_code == 0
    assert json.loads((here / "x" / "result.json").read_text())["complete"] is True
    assert len(list((here / "y" / "z").iterdir())) == 3
    assert not (here / "reports").exists()


def test_emulated_sweeps_say_so(sweep, tiny, here):
    result = sweep(tiny, "--device", "xpu-sim")
    assert result.exit_code == 0
    assert "EMULATED" in result.stdout
    (markdown,) = (here / "reports").glob("*.md")
    assert "EMULATED" in markdown.read_text()


def test_progress_in_a_pipe_is_plain_lines_with_the_time_left(sweep, tiny, here):
    lines = [line for line in sweep(tiny, "--device", "cpu").stderr.splitlines() if line.startswith("sweep:")]
    assert 2 < len(lines) <= 11
    assert all(re.fullmatch(r"sweep: \d+%, \d+ cell-rounds on disk, about \d+ s left", line) for line in lines)
    assert lines[-1].startswith("sweep: 100%, 9 cell-rounds")


def test_a_dry_run_prints_cells_bytes_and_time_and_runs_nothing(sweep, tiny, here):
    result = sweep(tiny, "--dry-run", "--device", "cpu")
    assert result.exit_code == 0
    assert "48.0 KiB" in result.stdout
    assert re.search(r"6 cells \(3 skipped\).*peak host memory.*about", result.stdout)
    assert [path.name for path in here.iterdir()] == ["tiny.toml"]


def test_many_cells_must_be_meant(sweep, tiny, here, monkeypatch):
    many = ",".join(map(str, range(1, 101)))
    arguments = [
        tiny,
        "--count",
        many,
        "--byte-offset",
        many,
        "--block-size",
        "8",
        "--run-length",
        1,
        "--device",
        "cpu",
    ]
    result = sweep(*arguments)
    assert result.exit_code == 2
    assert "10000 cells: add --yes" in _error_line(result)
    assert [path.name for path in here.iterdir()] == ["tiny.toml"]
    assert sweep(*arguments, "--dry-run").exit_code == 0
    monkeypatch.setattr(command, "_run", lambda *_, **__: 0)
    assert sweep(*arguments, "--yes").exit_code == 0


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
def test_in_a_terminal_many_cells_are_asked_about(sweep, tiny, monkeypatch, answer, code):
    many = ",".join(map(str, range(1, 101)))
    monkeypatch.setattr(command, "_run", lambda *_, **__: 0)
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda self: True, raising=False)
    arguments = ["--count", many, "--byte-offset", many, "--block-size", "8", "--run-length", 1, "--device", "cpu"]
    result = sweep(tiny, *arguments, input=answer)
    if "run it?" not in result.output:
        pytest.skip("this typer's test runner cannot play a terminal")
    assert result.exit_code == code


BAD_INPUT = {
    "no scenario": (["nothing"], "unknown scenario 'nothing'.*ec-block-size"),
    "a round trip": (["ec-image-set"], "workload 'ec' is no sweep: run it with ecbench roundtrip ec-image-set"),
    "no file": (["./nothing.toml"], "nothing.toml: cannot be read"),
    "unknown axis": (["tiny.toml", "--axis", "colour=1"], "unknown axis 'colour': choose one of block_size"),
    "axis of other cells": (["tiny.toml", "--alignment-tokens", "256"], "unknown axis 'alignment_tokens'.*run_length"),
    "KV axis of other cells": (["kv-block-size", "--count", "3"], "unknown axis 'count'.*retention_interval"),
    "axis without values": (["tiny.toml", "--axis", "count"], "write it like"),
    "unknown unit": (["tiny.toml", "--block-size", "4apples"], "unknown unit 'apples'"),
    "unknown engine": (["tiny.toml", "--engine", "warp"], "unknown engine 'warp'.*memmove"),
    "unknown writer": (["tiny.toml", "--writer", "pen"], "unknown writer 'pen'.*numpy-batch"),
    "unknown device": (["tiny.toml", "--device", "tpu"], "unknown device 'tpu'"),
    "budget without unit": (["tiny.toml", "--budget", "5 apples"], "duration '5 apples'"),
    "no budget": (["tiny.toml", "--budget", "0s"], "more than 0"),
    "memory limit": (["tiny.toml", "--memory-limit", "1MiB"], "more than the memory limit"),
    "too small": (["tiny.toml", "--max-batch", "1"], "has no cell"),
    "nothing to resume": (["tiny.toml", "--resume"], "holds no unfinished sweep of tiny"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_exit_code_two_and_one_line(sweep, tiny, here, arguments, message):
    result = sweep("--device", "cpu", *arguments)
    assert result.exit_code == 2
    assert re.search(message, _error_line(result))
    assert not list(here.glob("reports/*"))


def test_wrong_options_are_exit_code_two(sweep, tiny):
    assert sweep().exit_code == 2
    assert sweep(tiny, "--rounds", "0").exit_code == 2
    assert sweep(tiny, "--colour").exit_code == 2


def test_where_nothing_can_run_it_is_exit_code_three(sweep, tiny, here):
    result = sweep(tiny, "--device", "cpu", "--pinned", "--run-length", 1)
    assert result.exit_code == 3
    assert "no driver that pins host memory" in _error_line(result)


def test_wrong_bytes_are_exit_code_one(sweep, tiny, here, monkeypatch):
    def flip(source, destination, sources, destinations, sizes):
        destination[destinations[0]] ^= 1

    monkeypatch.setattr(copy_session, "open_engine", lambda name, device: FaultyEngine(flip))
    result = sweep(tiny, "--device", "cpu")
    assert result.exit_code == 1
    assert "WRONG: corrupt" in result.stdout
    assert {leg["status"] for case in _document(here)["cases"] for leg in case["legs"]} == {"failed", "skipped"}


def test_a_folder_that_cannot_be_written_is_found_before_the_run(sweep, tiny, here, monkeypatch):
    (here / "file").touch()
    monkeypatch.setattr("ecbench.workflows.sweep.run_sweep", lambda *_: pytest.fail("ran first"))
    result = sweep(tiny, "--out", "file/reports", "--device", "cpu")
    assert result.exit_code == 2
    assert "file/reports: cannot be written" in _error_line(result)


@pytest.fixture
def started(here):
    """A sweep that would run for minutes, in a process of its own."""
    (here / "long.toml").write_text(TINY_SWEEP.replace("rounds = 3", "rounds = 10000"))

    def start(*arguments, **options):
        command_line = [sys.executable, "-c", RUN, "long.toml", "--device", "cpu", *arguments]
        return subprocess.Popen(
            command_line,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            restore_signals=True,
            **options,
        )

    return start


def _wait_for_rounds(here):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in (here / "reports").glob("*.journal"):
            if path.read_bytes().count(b"\n") > 20:
                return path
    pytest.fail("no journal after a minute")


def test_ctrl_c_saves_what_was_measured_and_says_how_to_go_on(started, here, sweep):
    process = started()
    _wait_for_rounds(here)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "INTERRUPTED" in output
    assert re.search(r"interrupted; \d+ cell-rounds are in reports/sweep-long-.*\.journal: go on with --resume", errors)
    document = _document(here)
    assert document["complete"] is False
    assert any(count for _, _, count in _legs(document))
    (journal,) = (here / "reports").glob("*.journal")
    anew = sweep("long.toml", "--device", "cpu", "--rounds", 1)
    assert anew.exit_code == 0
    assert f"an unfinished one is in reports/{journal.name}: --resume would go on with it" in anew.stderr
    refused = sweep("long.toml", "--device", "cpu", "--resume", "--rounds", 7)
    assert refused.exit_code == 4
    assert "rounds: 10000 there, 7 here" in _error_line(refused)
    assert journal.exists()


def test_after_kills_at_random_moments_resuming_gives_the_cells_of_an_uninterrupted_run(sweep, tiny, here):
    whole = sweep(tiny, "--rounds", 300, "--device", "cpu", "--out", "whole", "--quiet")
    assert whole.exit_code == 0
    run = subprocess.run(
        [sys.executable, "-c", FORK_AND_KILL, tiny, str(KILLS)], capture_output=True, text=True, check=True, cwd=here
    )
    assert int(run.stdout) >= 3
    if list(here.glob("*.journal")):
        assert sweep(tiny, "--rounds", 300, "--device", "cpu", "--out", ".", "--resume", "--quiet").exit_code == 0
    assert not list(here.glob("*.journal"))
    (resumed,), (uninterrupted,) = here.glob("*.json"), (here / "whole").glob("*.json")
    resumed, uninterrupted = json.loads(resumed.read_text()), json.loads(uninterrupted.read_text())
    assert _legs(resumed) == _legs(uninterrupted)
    assert resumed["settings"]["processes"] > 1
    for case in resumed["cases"]:
        for leg in case["legs"]:
            numbers = [(sample["process"], sample["round"]) for sample in leg["samples"]]
            assert len(set(numbers)) == len(numbers)
            assert leg["verify"] is None or leg["verify"]["ok"]


def test_a_disk_that_fills_up_ends_the_sweep_in_one_line_and_resuming_finishes_it(sweep, tiny, here, monkeypatch):
    real, written = os.write, []

    def fill_up(fd, data):
        written.append(len(data))
        if len(written) > 8:
            real(fd, data[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr(sweep_journal.os, "write", fill_up)
        result = sweep(tiny, "--device", "cpu")
    assert result.exit_code == 2
    assert "No space left on device" in _error_line(result)
    assert "go on with --resume" in result.stderr
    assert sweep(tiny, "--device", "cpu", "--resume").exit_code == 0
    assert {count for _, _, count in _legs(_document(here))} == {0, 3}


def test_a_file_that_may_not_grow_ends_the_sweep_in_one_line(started, here):
    limit = 1_000_000
    process = started(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "cannot be written (File too large)" in errors
    assert "Traceback" not in errors


def test_a_journal_is_kept_until_the_result_is_written(sweep, tiny, here, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_and_rename", full)
        result = sweep(tiny, "--device", "cpu")
    assert result.exit_code == 2
    assert "every byte is right" in result.stdout
    assert len(list((here / "reports").glob("*.journal"))) == 1
    assert sweep(tiny, "--device", "cpu", "--resume", "--quiet").exit_code == 0
    assert {path.suffix for path in (here / "reports").iterdir()} == {".json", ".md", ".html"}


@pytest.mark.parametrize("name", shipped_workload(SWEEP))
def test_every_shipped_sweep_can_be_planned(sweep, here, name):
    assert sweep(name, "--dry-run", "--device", "cpu").exit_code == 0


def test_names_with_quotes_and_markup_are_only_text(sweep, here):
    name = "it's <b>|`x` a sweep.toml"
    (here / name).write_text(TINY_SWEEP)
    assert sweep(f"./{name}", "--device", "cpu", "--rounds", 1).exit_code == 0
    (markdown,) = (here / "reports").glob("*.md")
    assert "<b>" not in markdown.read_text().replace("\\<b\\>", "")


@pytest.mark.parametrize("seed", [0, random.Random(0).randrange(10**9)])
def test_the_seed_is_kept(sweep, tiny, here, seed):
    assert sweep(tiny, "--device", "cpu", "--seed", seed, "--quiet").exit_code == 0
    assert _document(here)["settings"]["seed"] == seed
