from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from ecbench.cli.probe_ptr_overflow import FailOnChoice, probe_ptr_overflow
from ecbench.pointers import probe as probe_file
from ecbench.pointers.environments import Installer
from ecbench.pointers.rulings import FailOn
from tests.conftest import GOLDEN
from tests.pointers.faulty_torch import SILENT_FAULTS, FaultyTorch

APP = typer.Typer(pretty_exceptions_enable=False)
APP.command()(probe_ptr_overflow)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command with reports and environments in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def invoke(*arguments: str):
        return CliRunner().invoke(APP, ["--out", str(tmp_path / "reports"), *arguments])

    return invoke


@pytest.fixture
def probing(monkeypatch):
    """Replaces what the probe of this process does."""

    def replace(function) -> None:
        monkeypatch.setattr("ecbench.workflows.probe.probe", function)

    return replace


def test_the_installed_torch_is_probed_and_nothing_is_unexpected(run):
    done = run()
    assert done.exit_code == 0
    assert f"torch {torch.__version__}, NumPy {np.__version__}" in done.stdout
    assert "Use numpy-view-uint64: " in done.stdout
    assert "UNEXPECTED" not in done.stdout


def test_json_on_stdout_is_the_whole_result_and_nothing_else(run):
    result = json.loads(run("--json", "-").stdout)
    assert (result["kind"], result["schema_version"]) == ("probe-ptr-overflow", 1)
    (case,) = result["cases"]
    assert case["params"]["torch"] == torch.__version__
    assert case["recommended"] == "numpy-view-uint64"
    assert case["unexpected"] == []
    assert set(case["conventions"][0]) >= {"name", "ruling", "exception", "ns_per_element", "expected"}
    assert len(case["findings"]) > 1000


def test_reports_are_written_as_json_markdown_and_a_page(run, tmp_path):
    run("--quiet")
    written = sorted(path.suffix for path in (tmp_path / "reports").iterdir())
    assert written == [".html", ".json", ".md"]


def test_quiet_prints_nothing_where_all_is_well(run):
    done = run("--quiet")
    assert (done.stdout, done.stderr) == ("", "")


def test_details_show_every_finding(run, probing):
    probing(lambda torch, numpy, details: probe_file.probe(torch, numpy))
    text = run("--details").stdout
    for method in (
        "numpy-view-vectorised",
        "index-select",
        "maximum-mixed",
        "ctypes-c-int64",
        "dlpack",
        "gloo-broadcast",
    ):
        assert method in text


def test_details_also_ask_for_what_takes_seconds(run, probing):
    asked = []

    def note(torch, numpy, details):
        asked.append(details)
        return probe_file.probe(torch, numpy)

    probing(note)
    run()
    run("--details")
    assert asked == [False, True]


@pytest.mark.parametrize(("fail_on", "code"), [("fails", 1), ("corruption", 1), ("unexpected", 0), ("never", 0)])
def test_the_user_chooses_what_exits_1(run, fail_on, code):
    assert run("--fail-on", fail_on, "--quiet").exit_code == code


@pytest.mark.parametrize("fault", SILENT_FAULTS)
def test_a_torch_that_lies_exits_1_and_is_named(run, probing, fault):
    probing(lambda torch, numpy, details: probe_file.probe(FaultyTorch(SILENT_FAULTS[fault]), numpy))
    done = run("--quiet")
    assert done.exit_code == 1
    assert "UNEXPECTED uint64-setitem-raw: expected " in done.stdout
    assert "silent corruption" in done.stdout
    assert run("--quiet", "--fail-on", "never").exit_code == 0


@pytest.mark.parametrize("arguments", [("--torch", "newest"), ("--numpy", "2.x y"), ("--fail-on", "sometimes")])
def test_bad_input_exits_2(run, arguments):
    assert run(*arguments).exit_code == 2


def test_an_interpreter_that_is_not_there_exits_3(run):
    done = run("--python", "/nowhere/python")
    assert done.exit_code == 3
    assert (
        done.stderr
        == "ecbench: --python /nowhere/python: there is no interpreter; name a Python or an environment's folder\n"
    )


def test_a_version_that_cannot_be_installed_exits_3_with_the_installers_last_error(run, monkeypatch):
    failing = ["/bin/sh", "-c", "echo 'ERROR: No matching distribution found for torch==9.9.9'; exit 1"]
    installer = Installer("pip", create=lambda _: failing, install=lambda *_: failing)
    monkeypatch.setattr("ecbench.workflows.probe.choose_installer", lambda: installer)
    done = run("--torch", "9.9.9", "--numpy", "2.4.6")
    assert done.exit_code == 3
    assert "NOT PROBED torch 9.9.9, NumPy 2.4.6" in done.stdout
    assert "pip failed: No matching distribution found for torch==9.9.9" in done.stdout


def test_ctrl_c_exits_130(run, probing):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    probing(interrupt)
    done = run()
    assert done.exit_code == 130
    assert done.stderr.endswith("ecbench: interrupted; finished cases saved: 0\n")


def test_an_existing_interpreter_is_probed_beside_others(run, monkeypatch):
    document = probe_file.probe(torch, np)
    monkeypatch.setattr("ecbench.workflows.probe.probe_with", lambda python, details: document)
    done = run("--python", sys.executable, "--python", sys.prefix)
    assert done.exit_code == 0
    assert "Safe everywhere: numpy-view-uint64, " in done.stdout


def test_each_torch_is_paired_with_each_numpy(run, monkeypatch):
    pairs = []

    def prepare(versions, *_):
        pairs.append((versions.torch, versions.numpy))
        return sys.executable

    document = probe_file.probe(torch, np)
    monkeypatch.setattr("ecbench.workflows.probe.prepare_environment", prepare)
    monkeypatch.setattr("ecbench.workflows.probe.probe_with", lambda python, details: document)
    run("--torch", "2.13.0", "--torch", "2.14.1", "--numpy", "1.26.4", "--numpy", "2.4.6")
    assert pairs == [("2.13.0", "1.26.4"), ("2.13.0", "2.4.6"), ("2.14.1", "1.26.4"), ("2.14.1", "2.4.6")]
    pairs.clear()
    run("--torch", "2.14.1")
    assert pairs == [("2.14.1", np.__version__)]


def test_the_choices_of_fail_on_are_those_of_the_rulings():
    assert [choice.value for choice in FailOnChoice] == [choice.value for choice in FailOn]


@pytest.mark.network
def test_two_versions_side_by_side_rule_as_their_golden_tables_say(tmp_path):
    """Installs two versions below the user's own cache folder (some 10 GB, minutes); they stay for the next time."""
    pairs = ["torch 2.13.0, numpy 2.4.6", "torch 2.14.1, numpy 2.4.6"]
    arguments = ["--torch", "2.13.0", "--torch", "2.14.1", "--numpy", "2.4.6", "--out", str(tmp_path)]
    done = CliRunner().invoke(APP, [*arguments, "--json", str(tmp_path / "result.json")])
    assert done.exit_code == 0
    cases = json.loads((tmp_path / "result.json").read_text())["cases"]
    golden = json.loads((GOLDEN / "probe_rulings.json").read_text())
    for pair, case in zip(pairs, cases, strict=True):
        ruled = {convention["name"]: convention["ruling"] for convention in case["conventions"]}
        assert ruled == {name: text.partition(" ")[0] for name, text in golden[pair].items()}
        assert case["unexpected"] == []
