"""The labelled list of sites that benchmarks/scan_quality.py judges the scanner by."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from ecbench.core.scan_records import Severity
from ecbench.pointers.scanner.rules import RULES

with (Path(__file__).parent / "vllm_0.33.0_sites.csv").open(newline="") as file:
    SITES = list(csv.DictReader(file))


def verdicts(path_end: str) -> dict[int, str]:
    return {int(site["line"]): site["verdict"] for site in SITES if site["path"].endswith(path_end)}


def test_there_are_enough_true_and_false_sites():
    counts = Counter(site["verdict"] for site in SITES)
    assert set(counts) == {"true", "false"}
    assert sum(counts.values()) >= 60
    assert min(counts.values()) >= 25


def test_every_site_has_a_rule_and_a_reason_and_true_ones_a_severity():
    rules, severities = {rule.id for rule in RULES}, {severity.value for severity in Severity}
    for site in SITES:
        assert site["rule"] in rules
        assert site["reason"]
        assert (site["severity"] in severities) == (site["verdict"] == "true")


def test_no_site_is_listed_twice():
    assert len({(site["path"], site["line"], site["rule"]) for site in SITES}) == len(SITES)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("recoverssm.py", 835),
        ("hf3fs_connector.py", 568),
        ("cp_common.py", 119),
        ("lamport_workspace.py", 225),
        ("store/data.py", 317),
        ("hisparse/worker.py", 701),
    ],
)
def test_known_faults_are_true(path, line):
    assert verdicts(path)[line] == "true"


def test_known_safe_places_are_false():
    assert set(verdicts("descriptor_buffers.py").values()) == {"false"}
    assert verdicts("gpu/block_table.py")[101] == "false"
    assert verdicts("prompt_embeds.py")[58] == "false"
    assert verdicts("worker/mamba_utils.py")[1099] == "false"
