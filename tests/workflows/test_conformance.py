"""The suite on whole targets, on faulty ones, and on some that end their process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from ecbench import EcbenchError
from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.core.errors import ExitCode, UnavailableError
from ecbench.encoder_cache.conformance.registry import CHECKS
from ecbench.measure.stages import StageClock
from ecbench.workflows import conformance_session
from ecbench.workflows.conformance import ConformanceOptions, exit_code_of, prepare_conformance, run_conformance
from ecbench.workflows.conformance_session import ConformanceSession
from tests.conftest import ROOT

FAULTY = "tests.workflows.conformance_targets"
SHORT_S = 1.5
SLEEP_S = str(100_000 + os.getpid())
"""By which processes that a target left are told from those of other test runs."""


def run(target, *patterns, report=lambda *_: None, **options):
    prepared = prepare_conformance(ConformanceOptions(target=target, patterns=patterns, **options))
    return run_conformance(prepared, StageClock(), report)


@pytest.fixture(scope="module", autouse=True)
def _importable():
    """The process that holds a target imports it from where ecbench was started."""
    before = Path.cwd()
    os.chdir(ROOT)
    os.environ["ECBENCH_TEST_SLEEP_S"] = SLEEP_S
    yield
    del os.environ["ECBENCH_TEST_SLEEP_S"]
    os.chdir(before)


@pytest.fixture(autouse=True)
def _leaves_nothing():
    children = set(psutil.Process().children(recursive=True))
    yield
    assert not [name for name in os.listdir("/dev/shm") if f"ecbench-{os.getpid()}-" in name]
    assert set(psutil.Process().children(recursive=True)) == children
    assert not any(process.status() == psutil.STATUS_ZOMBIE for process in psutil.Process().children())


TOLD = []
"""What the run of the reference reported on its way."""


@pytest.fixture(scope="module")
def reference():
    return run("reference", report=lambda *values: TOLD.append(values))


@pytest.fixture(scope="module")
def many_faults():
    return run(
        f"{FAULTY}:ManyFaults",
        "allocator.pins-nest",
        "cycle.only-touched-load",
        "region.second-opener-shares",
        "worker.no-loads",
        "worker.exact-fit",
        "worker.pinned-where-available",
        limit_s=SHORT_S,
    )


@pytest.fixture(scope="module")
def left_behind():
    return run(
        f"{FAULTY}:LeavesThingsBehind",
        "allocator.full-gives-none",
        "allocator.zero-blocks",
        "allocator.pins-nest",
        "region.second-opener-shares",
        limit_s=SHORT_S,
    )


def by_name(result):
    return {case.check: case for case in result.cases}


def test_the_reference_passes_every_check(reference):
    assert {
        case.check: case.happened for case in reference.cases if case.outcome is not ConformanceOutcome.PASSED
    } == {}
    assert [case.check for case in reference.cases] == list(CHECKS)
    assert exit_code_of(reference) is ExitCode.OK
    assert reference.complete


def test_what_a_target_does_not_have_is_neither_passed_nor_failed():
    result = run(f"{FAULTY}:AllocatorAlone")
    outcomes = {case.check: case.outcome for case in result.cases}
    has = {name for name in outcomes if name.startswith("allocator.")}
    assert {name for name, outcome in outcomes.items() if outcome is ConformanceOutcome.PASSED} == has
    assert {outcomes[name] for name in outcomes.keys() - has} == {ConformanceOutcome.NOT_APPLICABLE}
    assert exit_code_of(result) is ExitCode.OK


def test_progress_is_told_check_by_check(reference):
    assert [(name, number, len(CHECKS)) for number, name in enumerate(CHECKS, start=1)] == TOLD


def test_a_result_says_what_was_checked_and_how_long_it_took(reference):
    assert reference.settings["target"] == "reference"
    assert str(reference.settings["version"]).startswith("ecbench ")
    assert {"target", "checks"} <= set(reference.stages_s)
    assert all(0 < case.seconds < 20 for case in reference.cases)
    assert all(case.inputs >= 1 for case in reference.cases)
    assert reference.environment.device == "cpu"


@pytest.mark.parametrize(
    ("check", "happened", "given"),
    [
        ("allocator.pins-nest", "the target's process was ended by SIGSEGV", "pins=1"),
        ("cycle.only-touched-load", "did not end within 1.5 s and was killed", None),
        ("region.second-opener-shares", "the target's process was ended by SIGBUS", None),
        ("worker.no-loads", "the target ended its process with exit status 7", None),
        ("worker.exact-fit", "the target ended its process with exit status 1", "blocks=(3,), output_bytes=16"),
    ],
)
def test_whatever_ends_a_checks_process_is_a_result(many_faults, check, happened, given):
    case = by_name(many_faults)[check]
    assert (case.outcome, case.happened, case.smallest_input) == (ConformanceOutcome.FAILED, happened, given)


def test_the_checks_after_a_crash_run_as_ever(many_faults):
    assert by_name(many_faults)["worker.pinned-where-available"].outcome is ConformanceOutcome.PASSED
    assert many_faults.complete
    assert exit_code_of(many_faults) is ExitCode.CHECK_FAILED


def test_what_a_failed_check_printed_is_kept(many_faults):
    assert by_name(many_faults)["allocator.pins-nest"].output == "about to crash"
    assert "enough" in by_name(many_faults)["worker.exact-fit"].output
    assert by_name(many_faults)["worker.pinned-where-available"].output == ""


def test_a_known_difference_is_no_failure_and_keeps_its_reason(left_behind):
    case = by_name(left_behind)["allocator.full-gives-none"]
    assert (case.outcome, case.reason) == (ConformanceOutcome.KNOWN_DIFFERENCE, "by design")
    assert case.happened == "MemoryError: full"
    assert case.output == "printed by a check"


def test_a_check_that_passes_has_no_difference(left_behind):
    case = by_name(left_behind)["allocator.zero-blocks"]
    assert (case.outcome, case.reason) == (ConformanceOutcome.PASSED, None)


def test_files_of_a_target_that_was_killed_are_removed_by_name_and_told(left_behind):
    case = by_name(left_behind)["region.second-opener-shares"]
    assert case.happened == "did not end within 1.5 s and was killed"
    (path,) = case.removed_files
    assert path.startswith("/dev/shm/ecbench-")
    assert not Path(path).exists()


def test_processes_that_a_target_leaves_are_ended(left_behind):
    assert by_name(left_behind)["allocator.zero-blocks"].outcome is ConformanceOutcome.PASSED
    assert not [
        process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", SLEEP_S]
    ]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (f"{FAULTY}:RaisesAtOnce", r"RaisesAtOnce\(\) raises ValueError: no licence for this machine"),
        (
            "tests.workflows.conformance_broken_import:Target",
            "RuntimeError: libtarget.so.12: cannot open shared object",
        ),
        ("no_such_module:Target", "the import of no_such_module fails with ModuleNotFoundError"),
        (f"{FAULTY}:ExitsAtOnce", "its process ended with exit status 5 during its import; it printed: .*cannot go on"),
    ],
)
def test_a_target_that_is_not_there_is_not_available(target, message):
    with pytest.raises(UnavailableError, match=message) as caught:
        run(target, "allocator.zero-blocks")
    assert "\n" not in str(caught.value)


def test_an_import_that_does_not_end_is_ended():
    with pytest.raises(UnavailableError, match="its import did not end within 5 s"):
        run(f"{FAULTY}:HangsAtOnce", "allocator.zero-blocks", open_limit_s=5.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("PartWithoutMethod", "allocator object has no 'alloc'"),
        ("UnknownDifference", "known_differences has allocator.nothing, which no check is called"),
        ("UnknownDevice", "unknown device 'abacus'"),
    ],
)
def test_what_is_wrong_with_a_class_is_told_before_any_check(name, message):
    with pytest.raises(EcbenchError, match=message) as caught:
        run(f"{FAULTY}:{name}", "worker.no-loads")
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("name", ["", "vlm", "module:", ":Class", "a b:Class", "module:Class:more"])
def test_an_unknown_target_is_told_the_choices_before_anything_starts(name):
    with pytest.raises(EcbenchError, match="choose one of reference, vllm, module:Class"):
        prepare_conformance(ConformanceOptions(target=name))


def test_a_check_needs_some_time():
    with pytest.raises(EcbenchError, match="limit of 0 s"):
        prepare_conformance(ConformanceOptions(limit_s=0))


def test_the_end_of_the_targets_process_keeps_what_was_finished():
    result = run(f"{FAULTY}:KillsItsHolder", "worker.no-loads", "allocator.full-gives-none", "region.*")
    assert [case.check for case in result.cases] == ["worker.no-loads"]
    assert not result.complete
    assert "its process ended with SIGKILL during allocator.full-gives-none" in str(result.ended_by)
    assert exit_code_of(result) is ExitCode.UNAVAILABLE


def test_ctrl_c_keeps_what_was_finished_and_ends_the_target():
    def interrupt(name, done, total):
        if done == 2:
            raise KeyboardInterrupt

    result = run("reference", "allocator.*", report=interrupt)
    assert len(result.cases) == 2
    assert exit_code_of(result) is ExitCode.INTERRUPTED


def test_ctrl_c_during_a_check_ends_it_and_removes_its_files():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with ConformanceSession(f"{FAULTY}:LeavesThingsBehind") as session:
            session.wait_until_open()
            signal.setitimer(signal.ITIMER_REAL, SHORT_S)
            with pytest.raises(KeyboardInterrupt):
                session.run_check("region.second-opener-shares", 0, limit_s=1000)
            files = [path for path in session._files if Path(path).exists()]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(files) == 1
    assert not Path(files[0]).exists()


def test_a_session_whose_process_must_be_killed_removes_the_files_itself(monkeypatch):
    with ConformanceSession(f"{FAULTY}:LeavesThingsBehind") as session:
        session.wait_until_open()
        monkeypatch.setattr(conformance_session, "_GRACE_S", SHORT_S - 1000)
        with pytest.raises(UnavailableError, match=r"region\.second-opener-shares did not end within 1\.5 s"):
            session.run_check("region.second-opener-shares", 0, limit_s=1000)
        files = session._files
    assert files
    assert not [path for path in files if Path(path).exists()]
    assert session._process.returncode == -signal.SIGKILL


def test_a_session_ends_its_process_when_it_is_told_to_twice():
    session = ConformanceSession("reference")
    session.close()
    session.close()
    assert session._process.returncode == -signal.SIGTERM
