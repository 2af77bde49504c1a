from __future__ import annotations

import re
import subprocess
import sys

import pytest

from ecbench import __version__

LIGHT = """
import sys
from typer.testing import CliRunner
from ecbench.cli.app import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
assert CliRunner().invoke(app, ["roundtrip", "--help"]).exit_code == 0
print(sorted({"torch", "numpy", "pandas", "matplotlib", "psutil"} & set(sys.modules)))
"""


def test_help_imports_nothing_heavy():
    output = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_version(ecbench):
    result = ecbench("--version")
    assert (result.exit_code, result.stdout) == (0, f"ecbench {__version__}\n")


def test_the_module_runs_like_the_command():
    output = subprocess.run([sys.executable, "-m", "ecbench", "--version"], capture_output=True, text=True, check=True)
    assert output.stdout == f"ecbench {__version__}\n"


def test_no_command_shows_the_help(ecbench):
    result = ecbench()
    assert "Commands:" in result.output


def test_an_unknown_command_is_exit_code_two(ecbench):
    assert ecbench("fly").exit_code == 2


def test_a_reader_that_goes_away_is_no_failure():
    pipe = f"{sys.executable} -m ecbench report --schema | head -1; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=True)
    assert run.stdout == "{\n0\n"
    assert run.stderr == ""


@pytest.mark.parametrize("command", ["list models", "list scenarios", "roundtrip --dry-run --device cpu"])
def test_a_reader_of_a_table_that_goes_away_is_no_failure(command):
    pipe = f"{sys.executable} -m ecbench {command} | true; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("0\n", "")


def test_a_full_standard_output_is_one_line_and_exit_code_two():
    run = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m ecbench report --schema > /dev/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert re.fullmatch(r"ecbench: standard output: cannot be written .*\n", run.stderr)


@pytest.mark.parametrize("command", ["roundtrip", "report"])
def test_the_help_of_a_command_lists_its_exit_codes(ecbench, command):
    assert "Exit codes: 0 ok" in ecbench(command, "--help").stdout
