"""Every check finds at least one fault: it fails a reference connector that has it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ecbench.encoder_cache.conformance.registry import CHECKS
from tests.conftest import ROOT
from tests.encoder_cache.conformance.mutant_runs import mutants

MUTANTS = mutants()


@pytest.fixture(scope="module")
def found():
    """What the checks said of all mutants, which a process of its own forks one by one."""
    command = [sys.executable, "-m", "tests.encoder_cache.conformance.mutant_runs"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def test_every_check_has_a_mutant():
    assert {check for check, _, _ in MUTANTS.values()} == set(CHECKS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_faulty_connector_fails_its_check(found, name):
    said = found[name]
    assert said["outcome"] == "failed", said
    assert said["happened"] not in {"", "None"}


@pytest.mark.parametrize(
    ("name", "smallest"),
    [
        ("MixesBlocksUp fails worker.exact-fit", "blocks=(2, 3, 7), output_bytes=48"),
        ("CountsNoPins fails allocator.pins-nest", "pins=2"),
        ("WaitsForOne fails cycle.pin-until-all-reported", "participants=2"),
        ("LosesTheTopBit fails worker.high-addresses", f"address={2**63}"),
        ("NamedFiles fails edge.small-shm-old-kernel", "region_bytes=2097152, shm_bytes=1048576"),
    ],
)
def test_a_failure_names_the_smallest_input_that_shows_it(found, name, smallest):
    assert found[name]["input"] == smallest


def test_a_crash_is_told_by_its_signal(found):
    assert found["NamedFiles fails edge.small-shm-old-kernel"]["happened"].endswith("ended by SIGBUS")
