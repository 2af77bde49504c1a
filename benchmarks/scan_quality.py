"""Precision and recall of `ecbench scan-ptrs` on a labelled list of sites in vLLM 0.33.0.

    python benchmarks/scan_quality.py [WHEEL]

Without WHEEL the wheel is downloaded with pip; it is only unpacked, never installed. Every finding that is not labelled
as true counts against precision, also where no label mentions it. Exits 1 where precision or recall miss their aim,
and 3 where the wheel cannot be had; the time is printed beside its aim, since a busy machine decides it.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ecbench.core.units import format_seconds
from ecbench.workflows.scan import ScanOptions, run_scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.scan_records import Finding

REQUIREMENT = "vllm==0.33.0"
LABELS = Path(__file__).parents[1] / "tests" / "pointers" / "vllm_0.33.0_sites.csv"
EXIT_NO_WHEEL = 3
PRECISION_AIM = 0.9
RECALL_AIM = 0.9
TIME_AIM_S = 20.0
"""For two cores that have nothing else to do."""


@dataclass(frozen=True, slots=True)
class Site:
    """A line of the labelled list."""

    path: str
    line: int
    rule: str
    is_true: bool
    severity: str

    def matches(self, finding: Finding, root: Path) -> bool:
        """Whether a finding is about this site."""
        path = Path(finding.path).relative_to(root).as_posix()
        return path == self.path and finding.rule == self.rule and finding.line == self.line


def read_labels(path: Path) -> list[Site]:
    """Reads the labelled list."""
    with path.open(newline="") as file:
        return [
            Site(row["path"], int(row["line"]), row["rule"], row["verdict"] == "true", row["severity"])
            for row in csv.DictReader(file)
        ]


def unpack_sources(wheel: Path, folder: Path) -> None:
    """Unpacks the Python files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".py")])


def download_wheel(folder: Path) -> Path:
    """Downloads the wheel with pip."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), REQUIREMENT]
    if subprocess.run(command, check=False).returncode:
        print(f"not run: {REQUIREMENT} could not be downloaded; give the wheel's path", file=sys.stderr)
        sys.exit(EXIT_NO_WHEEL)
    return next(folder.glob("*.whl"))


def processor_s() -> float:
    """Processor time of this process and those it started: what the scan takes however busy the machine is."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def judge(
    findings: Sequence[Finding], labels: Sequence[Site], root: Path
) -> tuple[list[Site], list[Finding], list[Site]]:
    """Compares findings with labels.

    Returns:
        True sites that were found, findings that no true site stands for, and true sites that were missed.
    """
    true_sites = [site for site in labels if site.is_true]
    found = [site for site in true_sites if any(site.matches(finding, root) for finding in findings)]
    wrong = [finding for finding in findings if not any(site.matches(finding, root) for site in true_sites)]
    return found, wrong, [site for site in true_sites if site not in found]


def print_quality(findings: Sequence[Finding], labels: Sequence[Site], root: Path, scan_s: float) -> bool:
    """Prints what was right and wrong; returns whether both aims are met."""
    found, wrong, missed = judge(findings, labels, root)
    for finding in wrong:
        print(f"not a fault: {Path(finding.path).relative_to(root)}:{finding.line} {finding.rule}")
    for site in missed:
        print(f"missed: {site.path}:{site.line} {site.rule}")
    severities = sum(
        any(site.matches(finding, root) and finding.severity.value == site.severity for finding in findings)
        for site in found
    )
    precision = 1 - len(wrong) / len(findings) if findings else 0.0
    recall = len(found) / (len(found) + len(missed))
    true_count = len(found) + len(missed)
    print(f"labels: {len(labels)} sites, {true_count} true and {len(labels) - true_count} false")
    print(f"precision: {precision:.3f} ({len(findings) - len(wrong)} of {len(findings)} findings), aim {PRECISION_AIM}")
    print(f"recall: {recall:.3f} ({len(found)} of {true_count} true sites), aim {RECALL_AIM}")
    print(f"severity: {severities} of {len(found)} as labelled")
    print(f"time: {format_seconds(scan_s)}, aim {format_seconds(TIME_AIM_S)} on two idle cores")
    print(f"processor time of all processes: {format_seconds(processor_s())}")
    return precision >= PRECISION_AIM and recall >= RECALL_AIM


def main() -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description="Precision and recall of scan-ptrs on vLLM 0.33.0.")
    parser.add_argument("wheel", nargs="?", type=Path, help="the wheel; downloaded where it is not given")
    wheel = parser.parse_args().wheel
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources"
        unpack_sources(wheel or download_wheel(Path(folder)), sources)
        result = run_scan(ScanOptions(path=sources))
        case = result.cases[0]
        print(f"{case.files_scanned} files scanned, {len(case.unparsable)} not parsed")
        met = print_quality(case.findings, read_labels(LABELS), sources, sum(result.stages_s.values()))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
