"""Findings that count no more: comments in the source, and baselines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.errors import DataError, EcbenchError
from ecbench.pointers.scanner.baseline import read_baseline, write_baseline
from ecbench.pointers.scanner.sources import SourceFile, scan_content

UNSAFE_LINE = "    return torch.tensor([x.data_ptr()])"
FILE = SourceFile(Path("module.py"), "src/module.py", "module.py")


def scan(*lines: str):
    return scan_content("\n".join(("import torch", "def table(x):", *lines, "")).encode(), FILE)


def identities(text: str) -> list[str]:
    return [finding.identity for finding in scan_content(text.encode(), FILE).findings]


def test_a_comment_on_the_line_accepts_a_finding():
    scanned = scan(f"{UNSAFE_LINE}  # ecbench: ignore[R1] host memory only")
    assert (scanned.findings, scanned.suppressed, scanned.suppressed_without_reason) == ((), 1, 0)


def test_a_comment_alone_on_the_line_above_accepts_a_finding():
    assert scan("    # ecbench: ignore[R1] host memory only", UNSAFE_LINE).suppressed == 1


def test_a_comment_within_a_long_expression_accepts_it():
    lines = ("    return torch.tensor(", "        [x.data_ptr()],  # ecbench: ignore[R1] checked", "    )")
    assert scan(*lines).suppressed == 1


@pytest.mark.parametrize("rules", ["R1, R4", "R4,R1", " R1 "])
def test_a_comment_can_name_several_rules(rules):
    assert scan(f"{UNSAFE_LINE}  # ecbench: ignore[{rules}] checked").suppressed == 1


def test_a_comment_without_a_reason_counts_and_is_counted():
    assert scan(f"{UNSAFE_LINE}  # ecbench: ignore[R1]").suppressed_without_reason == 1


@pytest.mark.parametrize(
    "line",
    [
        f"{UNSAFE_LINE}  # ecbench: ignore[R2] another rule",
        f"{UNSAFE_LINE}  # ecbench: ignore",
        f"{UNSAFE_LINE}  # ecbench: ignore[] no rule",
        "    text = '# ecbench: ignore[R1] in a string'; return torch.tensor([x.data_ptr()])",
    ],
)
def test_other_comments_and_strings_accept_nothing(line):
    scanned = scan(line)
    assert (len(scanned.findings), scanned.suppressed) == (1, 0)


def test_a_trailing_comment_does_not_reach_the_next_line():
    assert len(scan("    y = 1  # ecbench: ignore[R1] about y", UNSAFE_LINE).findings) == 1


def test_identities_stay_when_lines_move_and_spaces_change():
    moved = "import torch\n\n# a comment\n\n\ndef table(x):\n    y = 1\n    return torch.tensor( [ x.data_ptr() ] )\n"
    assert identities(moved) == identities("import torch\ndef table(x):\n    return torch.tensor([x.data_ptr()])\n")


def test_identities_tell_functions_expressions_and_occurrences_apart():
    text = "import torch\n" + "".join(
        f"def f{number}(x, y):\n    torch.tensor([x.data_ptr()])\n    torch.tensor([x.data_ptr()])\n"
        "    torch.tensor([y.data_ptr()])\n"
        for number in range(2)
    )
    assert len(set(identities(text))) == 6


def test_the_path_is_part_of_the_identity():
    content = b"import torch\ntorch.tensor([x.data_ptr()])\n"
    other = SourceFile(Path("other.py"), "src/other.py", "other.py")
    shown_elsewhere = SourceFile(Path("module.py"), "/elsewhere/module.py", "module.py")
    identity = scan_content(content, FILE).findings[0].identity
    assert scan_content(content, other).findings[0].identity != identity
    assert scan_content(content, shown_elsewhere).findings[0].identity == identity


@given(
    st.lists(
        st.sampled_from(["", "# comment", "x = 1", "def other(a):\n    return a", "class C:\n    y = 2"]), max_size=6
    )
)
def test_code_put_before_a_function_keeps_its_identities(lines):
    function = "def table(x):\n    base = x.data_ptr()\n    torch.tensor([base])\n    return torch.tensor([base])\n"
    assert identities("\n".join(["import torch", *lines, function])) == identities("import torch\n" + function)


def test_a_baseline_comes_back_as_it_was_written(tmp_path):
    findings = scan(UNSAFE_LINE).findings
    write_baseline(findings, tmp_path / "baseline.json")
    assert read_baseline(tmp_path / "baseline.json") == {findings[0].identity}


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"not json", b"[]", b'{"kind": "other", "schema_version": 1, "findings": []}', b"\xff"],
)
def test_what_is_no_baseline_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "baseline.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="write") as caught:
        read_baseline(path)
    assert "\n" not in str(caught.value)


def test_a_newer_baseline_is_refused(tmp_path):
    path = tmp_path / "baseline.json"
    path.write_bytes(b'{"kind": "scan-ptrs-baseline", "schema_version": 2, "findings": []}')
    with pytest.raises(DataError, match="version 2"):
        read_baseline(path)


def test_a_baseline_that_is_missing_or_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_baseline(tmp_path / "missing.json")
    with pytest.raises(EcbenchError, match="cannot be written"):
        write_baseline([], tmp_path / "no folder" / "baseline.json")
