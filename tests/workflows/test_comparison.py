from __future__ import annotations

import msgspec
import pytest

from ecbench.core.comparison_records import Pairing, Reason, Verdict
from ecbench.core.errors import DataError
from ecbench.core.probe_records import ConventionRuling, ProbeCase, Ruling
from ecbench.core.records import LegStatus, RunResult
from ecbench.core.scan_records import Finding, ScanCase, Severity
from ecbench.stats.pairing import PAIRING_SETTING
from ecbench.workflows.comparable import ExactFigure, comparable
from ecbench.workflows.comparison import compare_results, exact_differences
from ecbench.workflows.timing_rules import TimingRule
from tests.comparison_samples import ENVIRONMENT, base_result, case, failed_leg, leg, result, slower_result

ALL_TIMES = (TimingRule(),)


def _compare(base, new, *, rules=ALL_TIMES, under_test=()):
    return compare_results(
        comparable(base), comparable(new), kind="compare", rules=rules, under_test=under_test, settings={}
    )


def _only_leg(base, new, **options):
    (compared,) = _compare(base, new, **options).cases
    (only,) = compared.legs
    assert (compared.verdict, compared.reason) == (only.verdict, only.reason)
    return only


@pytest.mark.parametrize(
    ("slowdown", "verdict"), [(0.3, Verdict.REGRESSED), (0.0, Verdict.PASSED), (-0.3, Verdict.IMPROVED)]
)
def test_two_runs_of_several_processes_are_judged_unpaired(slowdown, verdict):
    only = _only_leg(base_result(), slower_result(slowdown))
    assert only.verdict is verdict
    assert only.times.pairing is Pairing.UNPAIRED
    assert only.times.threshold == pytest.approx(0.10)
    assert only.times.ratio == pytest.approx(1 + slowdown, rel=0.02)
    assert (only.times.base_rounds, only.times.new_rounds) == (8, 8)
    assert only.exact_figures == 4


def test_two_files_of_one_process_are_compared_within_it():
    only = _only_leg(base_result(processes=1), slower_result(0.3, processes=1))
    assert (only.times.pairing, only.verdict) == (Pairing.WITHIN_PROCESS, Verdict.REGRESSED)
    assert (only.times.base_rounds, only.times.threshold) == (7, pytest.approx(0.15))


def test_results_that_were_run_in_turn_are_paired():
    settings = {PAIRING_SETTING: "2026-01-02 a"}
    only = _only_leg(base_result(settings=settings), slower_result(0.08, settings=settings))
    assert (only.times.pairing, only.times.threshold) == (Pairing.PAIRED, pytest.approx(0.05))
    assert only.verdict is Verdict.REGRESSED


def test_few_processes_are_inconclusive():
    only = _only_leg(base_result(processes=3), slower_result(0.5, processes=3))
    assert (only.verdict, only.reason) == (Verdict.INCONCLUSIVE, Reason.TOO_FEW_ROUNDS)
    assert only.detail == "3 and 3 rounds (unpaired): a verdict needs 5 on either side"


def test_a_stage_that_takes_no_time_is_named_with_the_mend():
    still = leg(processes=8)
    still = msgspec.structs.replace(still, samples=[msgspec.structs.replace(s, submit_s=0.0) for s in still.samples])
    only = _only_leg(base_result(), result(case(still)), rules=[TimingRule(metric="submit_s")])
    assert (only.verdict, only.reason) == (Verdict.INCONCLUSIVE, Reason.NOT_POSITIVE)
    assert "choose a metric that this path has" in only.detail


@pytest.mark.parametrize("figure", ["blocks", "descriptors", "copied_bytes"])
def test_an_exact_figure_that_differs_is_a_regression_however_fast(figure):
    changed = msgspec.structs.replace(leg(processes=8, slowdown=-0.5), **{figure: 1})
    only = _only_leg(base_result(), result(case(changed)))
    assert (only.verdict, only.reason) == (Verdict.REGRESSED, Reason.EXACT_FIGURES_DIFFER)
    assert [entry.figure for entry in only.differences] == [figure]


def test_fewer_checked_bytes_are_a_regression_but_more_rounds_are_not():
    assert _only_leg(base_result(), result(case(leg(processes=8, rounds=9, seed=3)))).differences == []
    unchecked = leg(processes=8)
    verify = msgspec.structs.replace(unchecked.verify, checked_bytes=unchecked.verify.checked_bytes // 2)
    only = _only_leg(base_result(), result(case(msgspec.structs.replace(unchecked, verify=verify))))
    assert [entry.figure for entry in only.differences] == ["checked_bytes per round"]


@pytest.mark.parametrize("base", [leg(), failed_leg()])
def test_wrong_bytes_are_a_regression_also_where_they_were_wrong_before(base):
    only = _only_leg(result(case(base)), result(case(failed_leg())))
    assert (only.verdict, only.reason) == (Verdict.REGRESSED, Reason.BYTE_FAULT)
    assert "swapped" in only.detail


def test_a_base_with_wrong_bytes_has_no_time_to_compare_with():
    only = _only_leg(result(case(failed_leg())), result(case(leg())))
    assert (only.verdict, only.reason) == (Verdict.INCONCLUSIVE, Reason.BASE_UNUSABLE)


@pytest.mark.parametrize(
    ("before", "verdict", "reason"),
    [
        (LegStatus.PASSED, Verdict.REGRESSED, Reason.REFUSED_COPY),
        (LegStatus.ERROR, Verdict.INCONCLUSIVE, Reason.BASE_UNUSABLE),
    ],
)
def test_a_copy_that_is_refused_now_is_a_regression(before, verdict, reason):
    refused = leg(status=LegStatus.ERROR, reason="engine: refused", samples=[])
    base = refused if before is LegStatus.ERROR else leg()
    only = _only_leg(result(case(base)), result(case(refused)))
    assert (only.verdict, only.reason) == (verdict, reason)


def test_a_skipped_direction_is_inconclusive_with_its_reason():
    skipped = leg(status=LegStatus.SKIPPED, reason="not asked for", samples=[])
    only = _only_leg(base_result(), result(case(skipped)))
    assert (only.verdict, only.reason, only.detail) == (Verdict.INCONCLUSIVE, Reason.MISSING, "not asked for")


def test_missing_added_and_renamed_cases_are_named():
    base = result(
        case(leg(), case_id="kept"), case(leg(), case_id="old name", model="b"), case(leg(), case_id="gone", model="c")
    )
    new = result(
        case(leg(), case_id="kept"), case(leg(), case_id="new name", model="b"), case(leg(), case_id="more", model="d")
    )
    found = {compared.case_id: compared for compared in _compare(base, new).cases}
    assert list(found) == ["kept", "new name", "more", "gone"]
    assert found["new name"].base_case_id == "old name"
    assert found["new name"].legs[0].times is not None
    assert (found["more"].verdict, found["more"].reason) == (Verdict.PASSED, Reason.ADDED)
    assert (found["gone"].verdict, found["gone"].reason) == (Verdict.INCONCLUSIVE, Reason.MISSING)


def test_two_cases_that_could_be_the_renamed_one_are_not_guessed_at():
    base = result(case(leg(), case_id="kept", model="k"), case(leg(), case_id="a"), case(leg(), case_id="b"))
    new = result(case(leg(), case_id="kept", model="k"), case(leg(), case_id="c"))
    reasons = {compared.case_id: compared.reason for compared in _compare(base, new).cases}
    assert reasons["c"] is Reason.ADDED
    assert reasons["a"] is reasons["b"] is Reason.MISSING


def test_a_missing_direction_is_named():
    base = result(case(leg("save"), leg("load")))
    (compared,) = _compare(base, result(case(leg("save", seed=5)))).cases
    assert {entry.name: entry.reason for entry in compared.legs}["load"] is Reason.MISSING
    assert compared.verdict is Verdict.INCONCLUSIVE


def test_the_worst_leg_decides_a_case():
    base = result(case(leg("save", processes=8), leg("load", processes=8)))
    new = result(case(leg("save", processes=8, slowdown=-0.3), leg("load", processes=8, slowdown=0.3)))
    (compared,) = _compare(base, new).cases
    assert [entry.verdict for entry in compared.legs] == [Verdict.IMPROVED, Verdict.REGRESSED]
    assert compared.verdict is Verdict.REGRESSED


def test_another_workload_is_refused():
    with pytest.raises(
        DataError, match=r"case tiny/example: the workloads differ \(model is example and other\)"
    ) as caught:
        _compare(base_result(), result(case(leg(), model="other")))
    assert caught.value.exit_code == 4


def test_results_without_a_common_case_are_refused_with_their_names():
    with pytest.raises(DataError, match=r"no case is in both results \(base has a; new has b\)"):
        _compare(result(case(leg(), case_id="a", model="a")), result(case(leg(), case_id="b", model="b")))


def test_another_machine_leaves_exact_figures_and_says_so():
    environment = {"host_cpu": "another CPU"}
    compared = _compare(base_result(), slower_result(0.5, environment=environment))
    assert compared.notes == [
        "Times are not comparable: host CPU Example CPU and another CPU. Exact figures are compared."
    ]
    (only,) = compared.cases[0].legs
    assert (only.verdict, only.reason, only.times) == (Verdict.INCONCLUSIVE, Reason.TIMES_NOT_COMPARABLE, None)
    changed = result(case(leg(processes=8, blocks=1)), environment=environment)
    assert _only_leg(base_result(), changed).reason is Reason.EXACT_FIGURES_DIFFER


def test_another_torch_is_compared_where_it_is_the_thing_under_test():
    new = slower_result(0.3, environment={"torch": "2.12.0"})
    assert _only_leg(base_result(), new).reason is Reason.TIMES_NOT_COMPARABLE
    assert _only_leg(base_result(), new, under_test=("torch",)).verdict is Verdict.REGRESSED


def test_another_path_leaves_exact_figures():
    only = _only_leg(base_result(), result(case(leg(processes=8, engine="gather"), engine="gather")))
    assert (only.reason, only.detail) == (Reason.TIMES_NOT_COMPARABLE, "not comparable: engine memmove and gather")


def test_a_case_that_no_rule_names_has_exact_gates_only():
    only = _only_leg(base_result(), slower_result(0.5), rules=[TimingRule(cases=("other*",))])
    assert (only.verdict, only.reason, only.times) == (Verdict.PASSED, Reason.NOT_GATED, None)


def test_the_first_rule_that_names_a_case_counts():
    rules = [TimingRule(metric="fill_s", cases=("tiny/*",), threshold=0.5), TimingRule()]
    only = _only_leg(base_result(), slower_result(0.3), rules=rules)
    assert (only.times.metric, only.verdict) == ("fill_s", Verdict.PASSED)


def test_the_geometric_mean_is_there_and_decides_nothing():
    base = result(case(leg("save", processes=8), leg("load", processes=8)))
    new = result(case(leg("save", processes=8, slowdown=0.5), leg("load", processes=8, slowdown=-1 / 3)))
    compared = _compare(base, new)
    assert compared.geometric_mean_ratio == pytest.approx(1.0, rel=0.02)
    assert compared.cases[0].verdict is Verdict.REGRESSED


def test_an_interrupted_result_says_so():
    assert (
        "The base result was interrupted: cases or rounds are missing from it."
        in _compare(base_result(complete=False), slower_result(0.0)).notes
    )


def _run(kind, *cases):
    return RunResult(
        schema_version=1, kind=kind, started_at="", environment=ENVIRONMENT, settings={}, cases=list(cases)
    )


def _rulings(**rulings):
    conventions = [
        ConventionRuling(name=name, ruling=ruling, exception=None, ns_per_element=None, expected=Ruling.SAFE)
        for name, ruling in rulings.items()
    ]
    return _run("probe-ptr-overflow", ProbeCase(case_id="torch-2", params={}, conventions=conventions))


def test_a_worse_ruling_on_pointers_is_a_regression_and_a_better_one_an_improvement():
    before = _rulings(a=Ruling.SAFE, b=Ruling.FAILS, c=Ruling.SAFE)
    after = _rulings(a=Ruling.CORRUPTS, b=Ruling.SAFE, c=Ruling.SAFE, d=Ruling.SAFE)
    only = _only_leg(before, after)
    assert only.verdict is Verdict.REGRESSED
    assert [(entry.figure, entry.verdict) for entry in only.differences] == [
        ("ruling on a", Verdict.REGRESSED),
        ("ruling on b", Verdict.IMPROVED),
    ]
    assert _only_leg(before, before).reason is Reason.EXACT_FIGURES_EQUAL


def _scan(*expressions):
    findings = [
        Finding(
            rule="R1",
            severity=Severity.CRASH,
            path="a.py",
            line=line,
            column=1,
            end_line=line,
            expression=expression,
            why="",
            mend="",
            identity=expression,
        )
        for line, expression in enumerate(expressions, 1)
    ]
    return _run(
        "scan-ptrs", ScanCase(case_id="src", params={}, findings=findings, files_scanned=1, unparsable=[], rules=[])
    )


def test_a_new_finding_is_a_regression_one_less_an_improvement_and_a_moved_one_neither():
    assert _only_leg(_scan("x"), _scan("y", "x")).verdict is Verdict.REGRESSED
    assert _only_leg(_scan("y", "x"), _scan("x")).verdict is Verdict.IMPROVED
    assert _only_leg(_scan("y", "x"), _scan("x", "y")).verdict is Verdict.PASSED


def test_results_of_two_kinds_or_of_a_kind_without_figures_are_refused():
    with pytest.raises(DataError, match="a result of 'scan-ptrs' and one of 'roundtrip' cannot be compared"):
        _compare(_scan(), base_result())
    with pytest.raises(DataError, match="a result of 'doctor' cannot be compared: give one of roundtrip"):
        comparable(_run("doctor"))


@pytest.mark.parametrize(
    ("base", "new", "verdict"),
    [
        (ExactFigure(1), ExactFigure(2), Verdict.REGRESSED),
        (ExactFigure(2), ExactFigure(1), Verdict.REGRESSED),
        (ExactFigure(1, 1), ExactFigure(2, 2), Verdict.REGRESSED),
        (ExactFigure(2, 2), ExactFigure(1, 1), Verdict.IMPROVED),
    ],
)
def test_a_figure_without_a_better_side_is_worse_in_both_directions(base, new, verdict):
    (difference,) = exact_differences({"f": base}, {"f": new})
    assert difference.verdict is verdict


def test_a_figure_that_is_gone_is_a_difference():
    assert [entry.verdict for entry in exact_differences({"f": ExactFigure(3)}, {})] == [Verdict.REGRESSED]
