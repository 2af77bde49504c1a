from __future__ import annotations

import json

import pytest

from ecbench.core.records import to_json
from ecbench.report.formats.names import ENDINGS, ReportFormat
from tests.report.samples import sample_result
from tests.report.sweeps import sweep_result


@pytest.fixture(autouse=True)
def _no_step(monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.fixture
def saved(here):
    (here / "result.json").write_bytes(to_json(sample_result()))
    return "result.json"


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


WORDS = {
    ReportFormat.CONSOLE: "WRONG: swapped",
    ReportFormat.MARKDOWN: "| leg |",
    ReportFormat.HTML: "<!DOCTYPE html>",
    ReportFormat.CSV: "case_id,workload",
    ReportFormat.JSON: '"kind"',
    ReportFormat.JUNIT: "<testsuites",
}


@pytest.mark.parametrize("wanted", ENDINGS)
def test_a_saved_result_can_be_shown_again(ecbench, here, saved, wanted):
    result = ecbench("report", saved, "--format", wanted.value)
    assert result.exit_code == 0
    assert WORDS[wanted] in result.stdout
    assert names_in(here) == [saved]


def test_without_a_format_a_folder_gets_json_markdown_and_html(ecbench, here, saved):
    result = ecbench("report", saved, "--out", "new/folder")
    assert result.exit_code == 0
    assert "WRONG: swapped" in result.stdout
    stem = "roundtrip-2026-01-02T030405Z"
    assert names_in(here / "new/folder") == [f"{stem}.html", f"{stem}.json", f"{stem}.md"]
    assert "reports: new/folder/" in result.stderr


def test_every_format_at_once_gives_a_file_each_and_one_per_plot(ecbench, here, saved):
    formats = [part for wanted in ReportFormat for part in ("--format", wanted.value)]
    result = ecbench("report", saved, *formats, "--out", "all", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    endings = {name.removeprefix("roundtrip-2026-01-02T030405Z") for name in names_in(here / "all")}
    plots = {f"-{name}.{ending}" for name in ("bandwidth-by-leg", "time-split") for ending in ("png", "svg")}
    assert endings == {*ENDINGS.values(), *plots}


def test_plots_go_to_the_usual_folder(ecbench, here, saved):
    assert ecbench("report", saved, "--format", "svg").exit_code == 0
    assert all(name.endswith(".svg") for name in names_in(here / "reports"))


def test_one_format_can_be_given_a_file_name(ecbench, here, saved):
    assert ecbench("report", saved, "--format", "html", "--out", "page.html").exit_code == 0
    assert (here / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_several_results_are_set_side_by_side(ecbench, here, saved):
    (here / "other name.json").write_bytes(to_json(sample_result(complete=True)))
    result = ecbench("report", saved, "other name.json")
    assert result.exit_code == 0
    assert "ecbench comparison: result / other name" in result.stdout
    assert "result: INTERRUPTED" in result.stdout
    assert "1.000 (0.9" in result.stdout
    both = ecbench("report", saved, "other name.json", "--format", "json")
    assert len(json.loads(both.stdout)) == 2


def test_a_sweep_is_shown_with_its_cost_model(ecbench, here):
    (here / "sweep.json").write_bytes(to_json(sweep_result()))
    assert "cost model" in ecbench("report", "sweep.json").stdout
    assert ecbench("report", "sweep.json", "--format", "png", "--out", "plots").exit_code == 0
    assert len(names_in(here / "plots")) == 3


def test_a_github_step_gets_the_markdown(ecbench, here, saved, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary.md"))
    assert ecbench("report", saved).exit_code == 0
    assert (here / "summary.md").read_text().startswith("# ecbench roundtrip")


def test_a_narrow_terminal_folds_and_does_not_fail(ecbench, saved, monkeypatch):
    monkeypatch.setattr("ecbench.cli.common.PIPE_COLUMNS", 20)
    result = ecbench("report", saved)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 20


def test_the_schema_is_published(ecbench):
    result = ecbench("report", "--schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_nothing_to_show_is_exit_code_two(ecbench):
    result = ecbench("report")
    assert result.exit_code == 2
    assert "ecbench: no result given" in result.stderr


def test_an_unknown_format_is_exit_code_two_and_lists_the_choices(ecbench, saved):
    result = ecbench("report", saved, "--format", "pdf")
    assert result.exit_code == 2
    assert "junit" in result.stderr


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"kind": "roundtrip", "schema_version": 99}', '{"kind": "x", "schema_version": 1}']
)
def test_a_file_that_is_no_result_is_exit_code_four(ecbench, here, saved, content):
    (here / "bad.json").write_text(content)
    result = ecbench("report", saved, "bad.json", "--format", "html", "--out", "page.html")
    assert result.exit_code == 4
    assert result.stderr.count("\n") == 1
    assert "bad.json" in result.stderr
    assert names_in(here) == ["bad.json", saved]


@pytest.mark.parametrize("out", ["taken", "taken/inside", "/proc/nowhere"])
def test_a_folder_that_cannot_be_written_is_exit_code_two(ecbench, here, saved, out):
    (here / "taken").touch()
    result = ecbench("report", saved, "--format", "csv", "--out", out)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "cannot be written" in result.stderr
    assert names_in(here) == [saved, "taken"]


@pytest.mark.parametrize("wanted", ["svg", "png"])
def test_a_result_without_plots_is_refused_and_leaves_no_folder(ecbench, here, wanted):
    assert ecbench("list", "targets", "--json", "list.json").exit_code == 0
    shown = ecbench("report", "list.json", "--format", wanted, "--out", "drawn")
    assert shown.exit_code == 2
    assert "a result of list has no plot: use --format markdown" in shown.stderr
    assert not (here / "drawn").exists()
