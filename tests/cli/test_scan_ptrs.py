"""``ecbench scan-ptrs`` on the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from ecbench.cli.scan_ptrs import scan_ptrs

CRASH = "import torch\n\n\ndef table(x):\n    return torch.tensor([x.data_ptr()])\n"
CORRUPTION = "def size(x):\n    return float(x.data_ptr())\n"
LATENT = "import torch\n\n\ndef table(host_cache):\n    return torch.tensor([host_cache.data_ptr()])\n"
CLEAN = "import torch\n\n\ndef table(x):\n    return torch.tensor([x.data_ptr()], dtype=torch.uint64)\n"
BROKEN = "def broken(:\n"

app = typer.Typer()
app.command()(scan_ptrs)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def tree(folder, **sources):
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("source", "fail_on", "code"),
    [
        (CRASH, None, 1),
        (CORRUPTION, None, 1),
        (LATENT, None, 0),
        (CLEAN, None, 0),
        (CRASH, "corruption", 0),
        (CORRUPTION, "corruption", 1),
        (LATENT, "latent", 1),
        (CLEAN, "latent", 0),
        (CORRUPTION, "never", 0),
    ],
)
def test_the_exit_code_follows_the_worst_finding(tmp_path, source, fail_on, code):
    arguments = [] if fail_on is None else ["--fail-on", fail_on]
    assert run(tree(tmp_path, module=source), *arguments).exit_code == code


def test_a_finding_is_printed_on_one_line_with_why_and_mend(tmp_path):
    outcome = run(tree(tmp_path, module=CRASH))
    first, *rest = outcome.stdout.splitlines()
    assert first == f"{tmp_path}/module.py:5:5: R1 crash: torch.tensor([x.data_ptr()])"
    assert any(line.strip().startswith("why:") for line in rest)
    assert any(line.strip().startswith("mend:") for line in rest)
    assert rest[-1] == "1 finding (1 crash), 1 file scanned"


def test_a_file_that_cannot_be_parsed_is_reported_and_skipped(tmp_path):
    outcome = run(tree(tmp_path, good=CLEAN, bad=BROKEN))
    assert outcome.exit_code == 0
    assert f"{tmp_path}/bad.py:1: not parsed: invalid syntax" in outcome.stdout


def test_strict_makes_it_inconclusive(tmp_path):
    assert run(tree(tmp_path, good=CLEAN, bad=BROKEN), "--strict").exit_code == 5
    assert run(tree(tmp_path, good=CRASH, bad=BROKEN), "--strict").exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("missing",),
        (),
        ("--package", "no_such_package_at_all"),
        (".", "--package", "json"),
        (".", "--fail-on", "often"),
    ],
    ids=["missing-path", "nothing", "missing-package", "both", "unknown-severity"],
)
def test_bad_input_exits_2(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tree(tmp_path, module=CLEAN))
    assert run(*arguments).exit_code == 2


def test_an_error_is_one_line(tmp_path):
    outcome = run(tmp_path / "missing")
    assert outcome.stderr.count("\n") == 1
    assert "does not exist" in outcome.stderr


def test_json_on_stdout_is_the_whole_output(tmp_path):
    outcome = run(tree(tmp_path, module=CRASH), "--json", "-")
    result = json.loads(outcome.stdout)
    (case,) = result["cases"]
    assert (outcome.exit_code, result["kind"], result["schema_version"]) == (1, "scan-ptrs", 1)
    assert case["findings"][0]["rule"] == "R1"
    assert case["files_scanned"] == 1
    assert [rule["id"] for rule in case["rules"]] == [f"R{number}" for number in range(1, 10)]


def test_json_can_go_to_a_file_beside_the_text(tmp_path):
    outcome = run(tree(tmp_path, module=CRASH), "--json", tmp_path / "scan.json")
    assert "R1 crash" in outcome.stdout
    assert json.loads((tmp_path / "scan.json").read_text())["cases"][0]["findings"][0]["line"] == 5


@pytest.mark.parametrize(
    ("name", "start"), [("markdown", "# ecbench scan-ptrs"), ("sarif", "{"), ("text", "0 finding")]
)
def test_other_formats_can_be_printed(tmp_path, name, start):
    assert run(tree(tmp_path, module=CLEAN), "--format", name).stdout.startswith(start)


def test_out_writes_all_formats(tmp_path):
    outcome = run(tree(tmp_path, module=CLEAN), "--out", tmp_path / "reports")
    assert sorted(path.suffix for path in (tmp_path / "reports").iterdir()) == [".html", ".json", ".md", ".sarif"]
    assert "reports: " in outcome.stderr


def test_quiet_prints_only_what_went_wrong(tmp_path):
    assert run(tree(tmp_path, module=CLEAN), "--quiet").output == ""
    assert "R1 crash" in run(tree(tmp_path, module=CRASH), "--quiet").stdout


def test_with_a_baseline_only_new_findings_fail(tmp_path):
    source, baseline = tree(tmp_path, module=CRASH), tmp_path / "baseline.json"
    assert run(source, "--write-baseline", baseline).exit_code == 0
    moved = "# moved down\n\n" + CRASH
    known = run(tree(tmp_path, module=moved), "--baseline", baseline)
    assert known.exit_code == 0
    assert "1 in the baseline" in known.stdout
    grown = run(tree(tmp_path, module=moved + CORRUPTION), "--baseline", baseline)
    assert grown.exit_code == 1
    assert "1 finding (1 corruption)" in grown.stdout


def test_a_baseline_that_cannot_be_read_exits_4(tmp_path):
    source = tree(tmp_path, module=CRASH)
    assert run(source, "--baseline", tmp_path / "missing.json").exit_code == 4
    (tmp_path / "damaged.json").write_text("{")
    assert run(source, "--baseline", tmp_path / "damaged.json").exit_code == 4


def test_suppressed_findings_do_not_fail(tmp_path):
    accepted = CRASH.replace("data_ptr()])", "data_ptr()])  # ecbench: ignore[R1] low addresses only")
    outcome = run(tree(tmp_path, module=accepted))
    assert outcome.exit_code == 0
    assert "1 suppressed" in outcome.stdout


def test_an_installed_package_is_scanned_and_not_imported(tmp_path, monkeypatch):
    package = tmp_path / "some_scanned_package"
    package.mkdir()
    tree(package, __init__="raise RuntimeError('imported')\n", module=CRASH)
    monkeypatch.syspath_prepend(tmp_path)
    assert run("--package", "some_scanned_package").exit_code == 1


def test_an_interrupt_exits_130(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ecbench.workflows.scan.run_scan", interrupted)
    assert run(tree(tmp_path, module=CLEAN)).exit_code == 130


def test_neither_torch_nor_numpy_is_imported(tmp_path):
    code = (
        "import sys; from pathlib import Path; from ecbench.workflows.scan import run_scan, ScanOptions; "
        f"run_scan(ScanOptions(path=Path({str(tree(tmp_path, module=CRASH))!r}))); "
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
