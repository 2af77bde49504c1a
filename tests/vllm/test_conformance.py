"""What the real vLLM passes and what it does not, found by the suite without being told."""

from __future__ import annotations

import os

import pytest

from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.encoder_cache.conformance.registry import CHECKS
from ecbench.measure.stages import StageClock
from ecbench.workflows.conformance import ConformanceOptions, prepare_conformance, run_conformance
from tests.conftest import ROOT

pytestmark = pytest.mark.vllm

MISBEHAVIOURS = {
    "edge.zero-length-save": "reported as saved: []",
    "edge.save-after-zero-length": "AssertionError",
    "edge.zero-length-load": "IndexError",
    "edge.zero-length-load-with-others": "IndexError",
    "edge.larger-than-region": "AssertionError: EmbeddingCache: 2 blocks requested but capacity is 1",
    "edge.save-never-runs": "its blocks are still held",
    "edge.capacity-below-one-block": "cannot mmap an empty file",
    "edge.capacity-negative": "[Errno 22]",
    "edge.capacity-with-unit": "ValueError: invalid literal for int()",
    "edge.non-contiguous": "RuntimeError",
    "edge.wider-encoder-dtype": "AssertionError: EC: encoder output exceeds allocated blocks",
    "edge.other-encoder-dtype": "values come back wrong",
    "edge.small-shm": "OSError: [Errno 14]",
    "edge.small-shm-old-kernel": "SIGBUS",
    "edge.killed": "files after its process was killed",
    "edge.stale-descriptor-view": "sent the second save to another block",
    "worker.shutdown-after-device-loss": "files after the shutdown",
}
"""Of vLLM 0.32 and 0.33 on a CPU: a part of what happened, by check."""
DIFFERENCES = {"cycle.repeated-reports"}
SUITE_LIMIT_S = 180.0


@pytest.fixture(scope="module")
def result():
    return run_conformance(prepare_conformance(ConformanceOptions(target="vllm")), StageClock(), lambda *_: None)


def _names(result, outcome):
    return {case.check for case in result.cases if case.outcome is outcome}


def test_every_check_is_made(result):
    assert [case.check for case in result.cases] == list(CHECKS)
    assert _names(result, ConformanceOutcome.NOT_APPLICABLE) == set()


def test_the_known_misbehaviours_are_found_and_nothing_else(result):
    assert _names(result, ConformanceOutcome.FAILED) == set(MISBEHAVIOURS)
    assert _names(result, ConformanceOutcome.KNOWN_DIFFERENCE) == DIFFERENCES


@pytest.mark.parametrize("check", MISBEHAVIOURS)
def test_a_misbehaviour_is_told_as_it_happens(result, check):
    (case,) = [case for case in result.cases if case.check == check]
    assert MISBEHAVIOURS[check] in str(case.happened)


def test_all_behaviours_but_the_shutdown_of_a_lost_device_hold(result):
    failed = {case.check for case in result.cases if case.behaviour and case.outcome is ConformanceOutcome.FAILED}
    assert failed == {"worker.shutdown-after-device-loss"}


def test_the_suite_takes_at_most_three_minutes_with_the_import(result):
    assert sum(result.stages_s.values()) < SUITE_LIMIT_S


def test_stand_ins_and_version_are_named(result):
    assert str(result.settings["version"]).startswith("vLLM 0.3")
    assert any("swap_blocks_batch" in name for name in result.environment.stand_ins)
    assert any("held copies" in name for name in result.environment.stand_ins)


def test_files_that_were_left_are_removed(result):
    removed = {path for case in result.cases for path in case.removed_files}
    assert removed
    assert not removed & {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}


@pytest.mark.parametrize(
    ("target", "checks"),
    [
        ("ForgetsToRecord", ["worker.source-freed-early", "worker.load-buffer-survives"]),
        ("ReusesBuffers", ["worker.save-buffers-kept", "worker.load-buffers-kept"]),
    ],
)
def test_faults_put_into_the_real_vllm_are_found(monkeypatch, target, checks):
    monkeypatch.chdir(ROOT)
    options = ConformanceOptions(target=f"tests.vllm.faulty_vllm:{target}", patterns=tuple(checks))
    result = run_conformance(prepare_conformance(options), StageClock(), lambda *_: None)
    assert _names(result, ConformanceOutcome.FAILED) == set(checks)
