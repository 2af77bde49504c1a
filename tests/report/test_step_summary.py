from __future__ import annotations

import pytest

from ecbench.core.errors import EcbenchError
from ecbench.report.formats.step_summary import MAX_BYTES, append_step_summary


def test_outside_a_github_step_nothing_is_rendered():
    assert append_step_summary(lambda: pytest.fail("rendered"), {}) is None


def test_a_summary_is_added_to_what_is_there(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    assert append_step_summary(lambda: "# after", {"GITHUB_STEP_SUMMARY": str(path)}) == path
    assert path.read_text() == "before\n# after\n"


def test_a_summary_that_github_would_refuse_is_cut_at_a_line(tmp_path):
    path = tmp_path / "summary.md"
    for _ in range(3):
        append_step_summary(lambda: "| a row |\n" * 100_000, {"GITHUB_STEP_SUMMARY": str(path)})
    content = path.read_text()
    assert len(content.encode()) <= MAX_BYTES
    assert "Cut here" in content
    assert "| a row\n" not in content


def test_a_summary_that_cannot_be_written_names_the_variable(tmp_path):
    with pytest.raises(EcbenchError, match=r"GITHUB_STEP_SUMMARY=.*cannot be written .Is a directory"):
        append_step_summary(lambda: "x", {"GITHUB_STEP_SUMMARY": str(tmp_path)})
