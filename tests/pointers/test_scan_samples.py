"""The scanner finds what the sample sources say it must find, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ecbench.pointers.scanner.rules import RULES
from ecbench.pointers.scanner.sources import python_files, scan_file

SAMPLES = Path(__file__).parent / "scan_samples"
EXPECTATION = re.compile(r"# expect: (?P<rule>R\d) (?P<severity>\w+)")
FILES = python_files(SAMPLES)


def expected_in(path: Path) -> set[tuple[int, str, str]]:
    lines = enumerate(path.read_text().splitlines(), start=1)
    return {(number, match["rule"], match["severity"]) for number, line in lines if (match := EXPECTATION.search(line))}


@pytest.mark.parametrize("file", FILES, ids=[file.relative for file in FILES])
def test_finds_exactly_the_marked_lines(file):
    scanned = scan_file(file)
    assert {(entry.line, entry.rule, entry.severity.value) for entry in scanned.findings} == expected_in(file.path)


def test_every_rule_has_a_line_to_find_and_a_reason_and_a_mend():
    marked = {rule for file in FILES for _, rule, _ in expected_in(file.path)}
    assert marked == {rule.id for rule in RULES} == {f"R{number}" for number in range(1, 10)}
    assert all(rule.title and rule.why and rule.mend for rule in RULES)


def test_a_finding_says_where_and_in_which_function_it_is():
    file = next(file for file in FILES if file.relative == "r3_array_constructor.py")
    finding = next(entry for entry in scan_file(file).findings if entry.qualified_name == "Layout.plan")
    assert finding.path == file.path.as_posix()
    assert finding.expression == "np.asarray(self.base, dtype=np.int64)"
    assert file.path.read_text().splitlines()[finding.line - 1].strip().startswith("return np.asarray(")


def test_a_latent_finding_says_why_it_is_latent():
    notes = {file.relative: {entry.note for entry in scan_file(file).findings} for file in FILES}
    assert notes["nvidia/platform_bound.py"] == {"in the platform-bound folder 'nvidia'"}
    assert "the address is of host memory" in notes["host_memory.py"]
