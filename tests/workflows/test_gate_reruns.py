"""Every kind in the table is asked for again exactly as it was."""

from __future__ import annotations

import json
import sys

import pytest
import typer
from typer.testing import CliRunner

from ecbench.cli.app import app
from ecbench.core.errors import DataError
from ecbench.workflows.comparable import CONVERTERS
from ecbench.workflows.gate_reruns import RERUNS, arguments_for

COMMANDS = typer.main.get_command(app)
WITHOUT_A_SAY = {
    "dsv4-swa-savings": {"fuzz"},
    "probe-ptr-overflow": {"fail_on"},
    "scan-ptrs": {"write_baseline", "output_format"},
}
"""Options that decide no figure of a result that has cases, or that must not be repeated."""
OF_EVERY_COMMAND = {"json_path", "out", "quiet", "help"}
EVERYTHING = {
    "dsv4-swa-savings": {
        "model": ["deepseek-v4-pro", "own.toml"],
        "tokens": ["1000,2000", "3000"],
        "policy": ["pr"],
        "retention_interval": ["none,0"],
        "alignment_tokens": 512,
        "block_size": 128,
        "blocks_per_chunk": 2,
        "connector_block_size": 64,
        "eagle": True,
        "mtp": True,
        "indexer": "mxfp4",
        "cache_dtype": "fp8",
        "tp": 4,
        "host_layout": "replicated",
        "host_memory_bytes": 1 << 35,
        "prove": False,
        "measure": True,
        "device": "xpu-sim",
        "budget_s": 1.5,
        "memory_limit_bytes": 1 << 29,
        "seed": 3,
        "against": "vllm",
        "step_tokens": 256,
    },
    "probe-ptr-overflow": {"torch": ["2.13.0"], "numpy": ["2.4.6", "1.26.4"], "python": ["old"], "details": True},
    "scan-ptrs": {"path": "src", "package": "torch", "fail_on": "never", "baseline": "known.json", "strict": True},
}
"""Settings in which every option is given."""
SAVINGS = "--tokens 1000,2000 --tokens 3000 --policy vllm-0.33 --retention-interval none,0 --block-size 128"
REAL = [
    ["scan-ptrs", "src"],
    ["scan-ptrs", "src", "--fail-on", "latent", "--strict"],
    ["scan-ptrs", "--package", "typer", "--fail-on", "never"],
    ["probe-ptr-overflow"],
    ["probe-ptr-overflow", "--python", sys.executable],
    ["dsv4-swa-savings", "--no-measure", "--tokens", "1000"],
    [
        *(
            "dsv4-swa-savings",
            *SAVINGS.split(),
            "--blocks-per-chunk",
            "2",
            "--eagle",
            "--indexer",
            "mxfp4",
            "--tp",
            "2",
        ),
        *("--replicated", "--host-memory", "32GiB", "--no-prove", "--no-measure", "--step-tokens", "512"),
    ],
    [
        *("dsv4-swa-savings", "--tokens", "1000", "--policy", "pr", "--device", "cpu", "--per-rank", "--prove"),
        *("--budget", "0.5s", "--memory-limit", "256MiB", "--seed", "3"),
    ],
]


def _parsed(arguments):
    """What the command line makes of arguments; nothing is run."""
    name, *rest = arguments
    context = COMMANDS.make_context("ecbench", [name], resilient_parsing=True)
    command = COMMANDS.get_command(context, name)
    assert command is not None
    return command.make_context(name, rest, parent=context).params


def _settings(here, arguments):
    done = CliRunner().invoke(app, [*arguments, "--json", "result.json", "--out", "reports", "--quiet"])
    assert done.exit_code in {0, 1}, done.output
    return json.loads((here / "result.json").read_text())["settings"]


@pytest.mark.parametrize("arguments", REAL, ids=" ".join)
def test_a_command_is_asked_for_again_with_the_same_settings(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "sizes.py").write_text("def size(x):\n    return float(x.data_ptr())\n")
    settings = _settings(tmp_path, arguments)
    assert _settings(tmp_path, arguments_for(arguments[0], settings)) == settings


def test_what_a_scan_accepted_by_writing_it_is_accepted_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sizes.py").write_text("def size(x):\n    return float(x.data_ptr())\n")
    settings = _settings(tmp_path, ["scan-ptrs", "sizes.py", "--write-baseline", "known.json"])
    assert arguments_for("scan-ptrs", settings)[-2:] == ["--baseline", "known.json"]
    assert _settings(tmp_path, arguments_for("scan-ptrs", settings)) == settings


@pytest.mark.parametrize("kind", RERUNS)
def test_every_option_that_decides_a_figure_is_repeated_and_none_is_made_up(kind):
    settings = EVERYTHING[kind]
    assert set(RERUNS[kind](settings)) == set(settings)
    asked, plain = _parsed(arguments_for(kind, settings)), _parsed([kind])
    # Measuring is the default, and its own options show only with it.
    left_out = {name for name in plain if asked[name] == plain[name]} - {"measure"}
    assert left_out - OF_EVERY_COMMAND == WITHOUT_A_SAY[kind]


@pytest.mark.parametrize("kind", RERUNS)
def test_every_kind_that_runs_again_is_one_that_is_compared_and_is_tried_here(kind):
    assert kind in CONVERTERS
    assert any(arguments[0] == kind for arguments in REAL)


@pytest.mark.parametrize("kind", RERUNS)
def test_settings_of_an_older_version_say_what_they_lack(kind):
    for name in EVERYTHING[kind]:
        settings = {key: value for key, value in EVERYTHING[kind].items() if key != name}
        with pytest.raises(
            DataError, match=rf"^its settings lack {name}, .*write a new baseline with `ecbench {kind} "
        ):
            arguments_for(kind, settings)


def test_a_plan_needs_nothing_that_only_measuring_has():
    measured = {"device", "budget_s", "memory_limit_bytes", "seed"}
    settings = {name: value for name, value in EVERYTHING["dsv4-swa-savings"].items() if name not in measured}
    assert "--no-measure" in arguments_for("dsv4-swa-savings", {**settings, "measure": False})
