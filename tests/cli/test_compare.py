from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from ecbench.cli.compare import compare
from ecbench.core.records import to_json
from tests.comparison_samples import base_result, case, failed_leg, leg, noisy_result, result, slower_result


@pytest.fixture
def run(here):
    """Writes two results and compares them."""
    app = typer.Typer()
    app.command()(compare)

    def invoke(base, new, *arguments):
        for name, content in (("base.json", base), ("new.json", new)):
            (here / name).write_bytes(content if isinstance(content, bytes) else to_json(content))
        return CliRunner().invoke(app, ["base.json", "new.json", *map(str, arguments)])

    return invoke


def test_a_regression_is_shown_and_exits_0_unless_told_otherwise(run):
    shown = run(base_result(), slower_result(0.5))
    assert shown.exit_code == 0
    for word in ("REGRESSED", "slower beyond threshold", "+10%", "unpaired", "1 regressed", "geometric mean"):
        assert word in shown.stdout
    assert shown.stderr == ""


@pytest.mark.parametrize(
    ("fail_on", "new", "code"),
    [
        ("never", result(case(failed_leg())), 0),
        ("regressed", result(case(failed_leg())), 1),
        ("regressed", slower_result(0.5), 1),
        ("regressed", result(case(leg(processes=8, descriptors=3))), 1),
        ("inconclusive", noisy_result(), 5),
        ("any", slower_result(-0.5), 1),
        ("any", slower_result(0.0), 0),
    ],
)
def test_fail_on_decides_the_exit_code(run, fail_on, new, code):
    assert run(base_result(), new, "--fail-on", fail_on).exit_code == code


@pytest.mark.parametrize(
    ("inputs", "code", "words"),
    [
        ((b"{}", base_result()), 4, "base.json"),
        ((base_result(), b"nonsense"), 4, "new.json"),
        ((base_result(), result(case(leg(), seed=1))), 4, "the workloads differ (seed is 0 and 1)"),
        ((base_result(), base_result(), "--threshold", "lots"), 2, "threshold 'lots'"),
        ((base_result(), base_result(), "--metric", "speed"), 2, "unknown metric 'speed'"),
        ((base_result(), base_result(), "--under-test", "moon"), 2, "unknown thing under test 'moon'"),
    ],
)
def test_what_cannot_be_compared_is_one_line_with_its_exit_code(run, inputs, code, words):
    refused = run(*inputs)
    assert refused.exit_code == code
    (line,) = refused.stderr.splitlines()
    assert line.startswith("ecbench: ")
    assert words in line


def test_json_on_stdout_is_all_there_is(run):
    document = json.loads(run(base_result(), slower_result(0.5), "--json", "-").stdout)
    assert (document["kind"], document["schema_version"]) == ("compare", 1)
    assert document["cases"][0]["legs"][0]["times"]["verdict"] == "regressed"


def test_out_writes_json_markdown_and_a_page(run, here):
    shown = run(base_result(), slower_result(0.5), "--out", "reports", "--json", "copy.json")
    assert {path.suffix for path in (here / "reports").iterdir()} == {".json", ".md", ".html"}
    assert "reports: reports/compare-" in shown.stderr
    assert (here / "copy.json").exists()


def test_quiet_prints_only_what_went_wrong(run):
    assert run(base_result(), slower_result(0.5), "--quiet").stdout == ""
    assert "REGRESSED" in run(base_result(), slower_result(0.5), "--quiet", "--fail-on", "regressed").stdout


def test_another_machine_is_named_before_the_table(run):
    shown = run(base_result(), slower_result(0.5, environment={"host_cpu": "another CPU"}))
    assert shown.exit_code == 0
    assert "times are not comparable" in shown.stdout
    assert shown.stdout.index("another CPU") < shown.stdout.index("INCONCLUSIVE")
