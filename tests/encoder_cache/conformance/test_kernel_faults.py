"""Faults of the machine are made in forked processes: nothing of them reaches this one."""

from __future__ import annotations

import errno
import mmap
import os

import pytest

from ecbench.core.conformance_protocols import NotApplicableError
from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.encoder_cache.conformance import kernel_faults
from ecbench.encoder_cache.conformance.forks import run_forked
from ecbench.encoder_cache.conformance.registry import CHECKS
from ecbench.encoder_cache.conformance.running import run_check
from ecbench.targets.reference_conformance import ReferenceConformance

SMALL_BYTES = 1 << 20


def in_a_fork(work):
    """Runs something in a forked process; what it asserts is asserted here."""
    ended = run_forked(work)
    assert (ended.error, ended.signal) == ("", None)


def populate():
    with mmap.mmap(-1, mmap.PAGESIZE) as mapping:
        mapping.madvise(kernel_faults.MADV_POPULATE_WRITE)


def test_an_old_kernel_refuses_the_advice_and_nothing_else():
    def work():
        kernel_faults.refuse_populate()
        with pytest.raises(OSError, match="Invalid argument") as caught:
            populate()
        assert caught.value.errno == errno.EINVAL
        with mmap.mmap(-1, mmap.PAGESIZE) as mapping:
            mapping.madvise(mmap.MADV_WILLNEED)

    in_a_fork(work)
    populate()


def test_a_small_shm_is_seen_by_its_process_alone():
    before = os.statvfs("/dev/shm").f_blocks

    def work():
        try:
            kernel_faults.shrink_shm(SMALL_BYTES)
        except NotApplicableError:
            # A machine that allows no mounts: the check falls back, which the next test looks at.
            return
        usage = os.statvfs("/dev/shm")
        assert usage.f_blocks * usage.f_frsize == SMALL_BYTES

    in_a_fork(work)
    assert os.statvfs("/dev/shm").f_blocks == before


@pytest.mark.parametrize(
    ("check", "outcome", "reason"),
    [
        ("edge.small-shm", ConformanceOutcome.PASSED, None),
        ("edge.small-shm-old-kernel", ConformanceOutcome.NOT_APPLICABLE, "may not have mounts of its own"),
    ],
)
def test_without_mounts_the_size_of_files_is_limited_or_the_check_does_not_apply(monkeypatch, check, outcome, reason):
    monkeypatch.setattr(kernel_faults, "_unshare", lambda flags: False)

    def work():
        verdict = run_check(CHECKS[check], ReferenceConformance(), "unused", 0, lambda given: None)
        assert verdict.outcome is outcome, verdict
        assert reason is None or reason in verdict.reason

    in_a_fork(work)


def test_a_machine_whose_calls_are_not_known_does_not_apply(monkeypatch):
    monkeypatch.setattr(kernel_faults.platform, "machine", lambda: "vax")
    with pytest.raises(NotApplicableError, match="cannot be imitated on vax"):
        kernel_faults.refuse_populate()


def test_a_killed_process_is_told_by_its_signal():
    assert run_forked(kernel_faults.kill_self).signal == "SIGKILL"
