from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench import EcbenchError
from ecbench.core.conformance_protocols import NotApplicableError
from ecbench.core.conformance_records import ConformanceOutcome
from ecbench.core.units import format_bytes
from ecbench.encoder_cache.conformance.definitions import (
    Check,
    CheckFailedError,
    NoInput,
    describe_error,
    describe_input,
    require_bytes,
)
from ecbench.encoder_cache.conformance.refusals import names_bytes, names_number, names_text, refusal_of, require_named
from ecbench.encoder_cache.conformance.registry import CHECKS, select_checks
from ecbench.encoder_cache.conformance.running import run_check
from ecbench.targets.reference_conformance import ReferenceConformance


class Size(NamedTuple):
    size: int


def _check(run, sizes=(1, 2, 3)):
    return Check("x.y", None, "a check", "something", run, tuple(map(Size, sizes)))


def _run(check):
    tried = []
    return run_check(check, ReferenceConformance(), "unused", 0, tried.append), tried


def test_the_checks_cover_every_behaviour_and_have_unique_names():
    assert {check.behaviour for check in CHECKS.values()} == {None, *range(1, 37)}
    assert all(name == check.name for name, check in CHECKS.items())
    assert all(check.description and check.expected for check in CHECKS.values())


def test_edge_cases_and_only_they_have_no_number():
    assert all((check.behaviour is None) == name.startswith("edge.") for name, check in CHECKS.items())


def test_patterns_select_checks_in_the_order_of_the_table():
    names = [check.name for check in select_checks(["region.*", "worker.exact-fit"])]
    assert names[0] == "worker.exact-fit"
    assert len(names) == 8
    assert [check.name for check in select_checks([])] == list(CHECKS)


def test_a_pattern_that_fits_nothing_is_refused_with_the_groups():
    with pytest.raises(EcbenchError, match=r"'worker.nothing'.*worker\.\*, edge\.\*, allocator\.\*"):
        select_checks(["worker.*", "worker.nothing"])


def test_the_first_input_that_fails_is_the_smallest():
    def run(bench, given):
        if given.size >= 2:
            raise CheckFailedError("too large")

    verdict, tried = _run(_check(run))
    assert (verdict.outcome, verdict.happened) == (ConformanceOutcome.FAILED, "too large")
    assert (verdict.smallest_input, verdict.inputs) == ("size=2", 2)
    assert tried == ["size=1", "size=2"]


def test_any_exception_of_the_target_is_a_failure_with_its_text():
    def run(bench, given):
        raise KeyError("lost")

    verdict, _ = _run(_check(run))
    assert (verdict.outcome, verdict.happened) == (ConformanceOutcome.FAILED, "KeyError: 'lost'")


def test_a_check_that_does_not_apply_says_why():
    def run(bench, given):
        raise NotApplicableError("no such device")

    verdict, _ = _run(_check(run))
    assert (verdict.outcome, verdict.reason) == (ConformanceOutcome.NOT_APPLICABLE, "no such device")
    assert verdict.inputs == 0


def test_a_check_that_holds_passes_with_all_inputs():
    verdict, tried = _run(_check(lambda bench, given: None))
    assert (verdict.outcome, verdict.inputs, len(tried)) == (ConformanceOutcome.PASSED, 3, 3)


def test_inputs_are_told_by_name():
    assert describe_input(Size(7)) == "size=7"
    assert describe_input(NoInput()) == ""


def test_errors_are_one_line_of_bounded_length():
    assert describe_error(ValueError("two\nlines")) == "ValueError: two lines"
    assert describe_error(AssertionError()) == "AssertionError"
    assert len(describe_error(ValueError("x" * 10_000))) < 700
    assert describe_error(ValueError("\udcff")) == "ValueError: ?"


def test_wrong_bytes_are_told_with_the_first_and_their_number():
    with pytest.raises(CheckFailedError, match="block: 2 of 3 bytes are wrong, first byte 1: 0x05 instead of 0x02"):
        require_bytes(b"\x01\x05\x06", b"\x01\x02\x03", "block")
    with pytest.raises(CheckFailedError, match="bytes of block: 1 instead of 3"):
        require_bytes(b"\x01", b"\x01\x02\x03", "block")


def test_what_must_be_refused_and_is_not_fails():
    with pytest.raises(CheckFailedError, match=r"the key was not refused: it gave \[1\]"):
        refusal_of(lambda: [1], "the key")
    assert isinstance(refusal_of(lambda: 1 // 0, "the key"), ZeroDivisionError)


def test_a_refusal_is_told_with_what_it_does_not_name():
    with pytest.raises(CheckFailedError, match=r"ValueError: no \(does not name the entry and the size\)"):
        require_named(ValueError("no"), {"the entry": False, "the size": False, "the key": True})


@given(st.integers(1, 2**55))
def test_a_size_is_recognised_plain_and_with_a_unit(size):
    for text in (f"needs {size} bytes", f"needs {size}", f"needs {format_bytes(size)}, has 3"):
        assert names_bytes(ValueError(text), size)


@pytest.mark.parametrize("text", ["", "needs 1200 bytes", "file99.1000x", "1000.5.3", "1 MiB", "v1000"])
def test_other_numbers_are_not_taken_for_the_size(text):
    assert not names_bytes(ValueError(text), 1000)


def test_a_number_is_not_found_in_a_longer_one():
    assert names_number(ValueError("capacity of 1 bytes"), 1)
    assert names_number(ValueError("capacity of -1"), -1)
    assert not names_number(OSError("[Errno 14] file1 of 21"), 1)
    assert not names_number(ValueError("capacity of 1"), -1)


def test_texts_are_recognised_in_any_case():
    assert names_text(ValueError("EC_CPU_BYTES is bad"), "ec_cpu_bytes")
