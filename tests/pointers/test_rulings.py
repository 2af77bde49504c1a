from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ecbench.core.errors import DataError
from ecbench.core.probe_records import Outcome, ProbeFinding, Ruling, safe_everywhere
from ecbench.pointers.conventions import (
    BEHAVIOURS,
    CONVENTIONS,
    GENERATIONS,
    PREFERENCE,
    RECOMMENDED,
    Evidence,
    Expected,
    expected_for,
    generation_index,
)
from ecbench.pointers.probe import METHODS, PROBE_VERSION, TIMERS, probe
from ecbench.pointers.rulings import FailOn, judge_document, must_fail, read_document, rule_findings
from tests.conftest import GOLDEN
from tests.pointers.faulty_torch import SILENT_FAULTS, FaultyTorch

GOLDEN_RULINGS = json.loads((GOLDEN / "probe_rulings.json").read_text())
NAMES = [
    "numpy-view-uint64",
    "numpy-uint64-copy",
    "struct-bytes",
    "int64-view-twos",
    "uint64-setitem-raw",
    "uint64-setitem-twos",
    "uint64-setitem-numpy-scalar",
    "int64-setitem-raw",
    "int64-setitem-twos",
    "uint64-tensor-raw",
    "uint64-tensor-twos",
    "int64-tensor-raw",
    "np-array-no-dtype-mixed",
    "int-plus-int64-array",
    "np-uint64-plus-int64-array",
    "uint64-array-times-np-int64",
    "custom-op-int-raw",
    "gloo-uint64",
    "pickle-uint64",
    "data-ptr-signedness",
]


@pytest.fixture(scope="module")
def document():
    return read_document(probe(torch, np))


@pytest.fixture(scope="module")
def case(document):
    return judge_document(document)


def finding(outcome: Outcome, value_class: str = "high-unaligned", **details: str) -> ProbeFinding:
    return ProbeFinding(
        group="write",
        method="m",
        dtype="uint64",
        encoding="raw",
        value_class=value_class,
        read_back="bytes",
        outcome=outcome,
        **details,
    )


def golden_of_this_machine() -> dict[str, str]:
    wanted = (generation_index("torch", torch.__version__), generation_index("numpy", np.__version__))
    for name, rulings in GOLDEN_RULINGS.items():
        versions = dict(part.split() for part in name.split(", "))
        if (generation_index("torch", versions["torch"]), generation_index("numpy", versions["numpy"])) == wanted:
            return rulings
    pytest.skip(f"no golden rulings for torch {torch.__version__} and NumPy {np.__version__}")


def test_the_installed_torch_rules_as_the_golden_table_says(case):
    golden = golden_of_this_machine()
    found = {
        convention.name: f"{convention.ruling} {convention.exception.partition(':')[0]}"
        if convention.ruling is Ruling.FAILS
        else str(convention.ruling)
        for convention in case.conventions
    }
    assert found == golden


def test_the_installed_torch_does_nothing_unexpected(case):
    assert case.unexpected == []
    assert case.recommended == RECOMMENDED


def test_all_conventions_are_ruled_in_their_published_order(case):
    assert [convention.name for convention in case.conventions] == NAMES


def test_conventions_that_work_have_a_cost_and_those_that_fail_have_none(case):
    for convention in case.conventions:
        assert (convention.ns_per_element is None) == (convention.ruling is Ruling.FAILS), convention.name


def test_the_expected_table_agrees_with_the_golden_rulings():
    for name, golden in GOLDEN_RULINGS.items():
        versions = dict(part.split() for part in name.split(", "))
        for convention in CONVENTIONS:
            assert expected_for(convention.library, convention.expected, versions) == Expected.parse(
                golden[convention.name]
            )


def test_every_row_of_the_tables_names_known_methods_and_one_result_per_generation():
    methods = {
        (method.name, dtype, encoding) for method in METHODS for dtype in method.dtypes for encoding in method.encodings
    }
    for convention in CONVENTIONS:
        assert len(convention.expected) == len(GENERATIONS[convention.library])
        assert {Expected.parse(text).result for text in convention.expected} <= set(Ruling)
        assert methods >= {*convention.evidence, *convention.caveats}
    for behaviour in BEHAVIOURS:
        assert len(behaviour.expected) == len(GENERATIONS[behaviour.library])
        assert {Expected.parse(text).result for text in behaviour.expected} <= {*Outcome, "?"}
        assert behaviour.evidence in methods


def test_every_convention_has_a_timing_unless_it_never_works():
    timed = {Evidence(timer.method, timer.dtype, timer.encoding) for timer in TIMERS}
    never = {
        convention.name for convention in CONVENTIONS if all(text.startswith("fails") for text in convention.expected)
    }
    assert {convention.name for convention in CONVENTIONS if convention.cost not in timed} <= never
    assert set(PREFERENCE) <= set(NAMES)


@pytest.mark.parametrize(
    ("version", "label"),
    [
        ("2.3.1", "2.4 to 2.5"),
        ("2.5.1+cu124", "2.4 to 2.5"),
        ("2.8.0", "2.6 to 2.8"),
        ("2.13.0+cpu", "2.9 to 2.13"),
        ("2.14.0a0+git123", "2.14 and later"),
        ("2.19.0", "2.14 and later"),
        ("3.0.0", "2.14 and later"),
    ],
)
def test_a_version_outside_the_table_counts_as_the_nearest_generation(version, label):
    assert GENERATIONS["torch"][generation_index("torch", version)].label == label


def test_the_worst_finding_decides():
    exact, raises, corrupts = (finding(outcome) for outcome in (Outcome.EXACT, Outcome.RAISES, Outcome.CORRUPTS))
    assert rule_findings([exact]) is Ruling.SAFE
    assert rule_findings([exact, finding(Outcome.NEGATIVE)]) is Ruling.WARN
    assert rule_findings([exact, finding(Outcome.EXACT, warning="DeprecationWarning: soon")]) is Ruling.WARN
    assert rule_findings([exact], [corrupts]) is Ruling.WARN
    assert rule_findings([exact, raises]) is Ruling.FAILS
    assert rule_findings([exact, raises, corrupts]) is Ruling.CORRUPTS


def test_what_could_not_be_tried_is_not_ruled():
    assert rule_findings([]) is None
    assert rule_findings([finding(Outcome.UNAVAILABLE)]) is None
    assert rule_findings([finding(Outcome.UNAVAILABLE), finding(Outcome.EXACT)]) is Ruling.SAFE


def test_to_refuse_2_to_the_64_is_right_and_to_store_something_for_it_is_corruption():
    exact = finding(Outcome.EXACT)
    assert rule_findings([exact, finding(Outcome.RAISES, "overflow")]) is Ruling.SAFE
    assert rule_findings([exact, finding(Outcome.CORRUPTS, "overflow")]) is Ruling.CORRUPTS


@given(st.lists(st.sampled_from(list(Outcome)), min_size=1), st.sampled_from(list(Outcome)))
def test_another_finding_never_makes_a_ruling_better(outcomes, another):
    order = [None, *Ruling]
    before = rule_findings([finding(outcome) for outcome in outcomes])
    after = rule_findings([finding(outcome) for outcome in [*outcomes, another]])
    assert order.index(after) >= order.index(before)


@pytest.mark.parametrize("fault", SILENT_FAULTS)
def test_a_torch_whose_assignment_lies_is_silent_corruption_and_unexpected(fault):
    case = judge_document(read_document(probe(FaultyTorch(SILENT_FAULTS[fault]), np)))
    rulings = {convention.name: convention.ruling for convention in case.conventions}
    assert rulings["uint64-setitem-raw"] is Ruling.CORRUPTS
    assert rulings["int64-setitem-raw"] is Ruling.CORRUPTS
    assert {"uint64-setitem-raw", "int64-setitem-raw"} <= {difference.name for difference in case.unexpected}
    assert must_fail(case, FailOn.UNEXPECTED)


def test_a_changed_exception_is_unexpected_though_the_ruling_is_the_same(document):
    if not document.torch.startswith("2.13"):
        pytest.skip("the installed torch is not 2.13")
    older = judge_document(replace(document, torch="2.8.0"))
    assert {convention.ruling for convention in older.conventions if convention.name == "uint64-setitem-raw"} == {
        Ruling.FAILS
    }
    (difference,) = [difference for difference in older.unexpected if difference.name == "uint64-setitem-raw"]
    assert (difference.expected, difference.found.partition(":")[0]) == ("fails RuntimeError", "fails ValueError")


def test_where_the_recommended_convention_is_unsafe_the_next_safe_one_is_named(document):
    broken = [
        replace(f, outcome=Outcome.RAISES, exception="ValueError: no") if f.method == "numpy-view" else f
        for f in document.findings
    ]
    case = judge_document(replace(document, findings=broken))
    assert case.recommended == "numpy-uint64-copy"
    assert case.advice.startswith("numpy-view-uint64 fails here; use numpy-uint64-copy: ")
    assert must_fail(case, FailOn.UNEXPECTED)
    assert not must_fail(case, FailOn.NEVER)


def test_where_nothing_is_safe_the_advice_says_so(document):
    broken = [replace(f, outcome=Outcome.CORRUPTS) for f in document.findings]
    case = judge_document(replace(document, findings=broken))
    assert case.recommended is None
    assert case.advice.startswith("No convention stores addresses")


@pytest.mark.parametrize(
    ("fail_on", "fails"),
    [(FailOn.FAILS, True), (FailOn.CORRUPTION, True), (FailOn.UNEXPECTED, False), (FailOn.NEVER, False)],
)
def test_what_fails_a_check_is_the_users_choice(case, fail_on, fails):
    assert must_fail(case, fail_on) is fails


def test_safe_everywhere_needs_every_probed_case(case):
    alone = safe_everywhere([case])
    stricter = replace(
        case, conventions=[replace(c, ruling=Ruling.FAILS) if c.name == alone[0] else c for c in case.conventions]
    )
    assert safe_everywhere([case, stricter]) == alone[1:]
    assert safe_everywhere([case, replace(case, reason="not installed")]) == alone
    assert safe_everywhere([]) == []


@pytest.mark.parametrize("document", [[], {"probe_version": PROBE_VERSION}, {"probe_version": "x"}])
def test_what_is_no_document_is_refused(document):
    with pytest.raises(DataError, match="cannot be read"):
        read_document(document)


def test_a_document_of_another_probe_is_refused(document):
    with pytest.raises(DataError, match="has version 99"):
        read_document(msgspec.to_builtins(replace(document, probe_version=99)))
