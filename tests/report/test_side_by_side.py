"""Several results set against the first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ecbench.core.records import LegStatus
from ecbench.report.descriptions.side_by_side import describe_side_by_side
from ecbench.report.side_by_side import NamedResult, set_side_by_side
from ecbench.stats.summary import recompute
from tests.report.samples import sample_result


def slower(result, factor):
    def stretched(leg):
        return replace(leg, samples=[replace(sample, total_s=sample.total_s * factor) for sample in leg.samples])

    return recompute(replace(result, cases=[replace(case, legs=[*map(stretched, case.legs)]) for case in result.cases]))


def sides_of(*results):
    named = [NamedResult(label, result) for label, result in zip("abc", results, strict=False)]
    return set_side_by_side(named), named


def test_times_are_set_against_those_of_the_first_with_an_interval():
    sides, _ = sides_of(sample_result(), slower(sample_result(), 1.1), slower(sample_result(), 0.5))
    first = sides.legs[0]
    assert first.ratios[0] is None
    assert [ratio.value for ratio in first.ratios[1:]] == pytest.approx([1.1, 0.5])
    assert first.ratios[1].low < 1.1 < first.ratios[1].high


def test_wrong_bytes_have_no_speed():
    sides, _ = sides_of(sample_result(), sample_result())
    by_status = {leg.legs[0].status: leg.ratios[1] for leg in sides.legs}
    assert by_status[LegStatus.PASSED] is not None
    assert by_status[LegStatus.FAILED] is by_status[LegStatus.ERROR] is by_status[LegStatus.SKIPPED] is None


def test_different_work_has_no_ratio_and_says_so():
    other = sample_result()
    leg = replace(other.cases[0].legs[0], copied_bytes=7168)
    other = replace(other, cases=[replace(other.cases[0], legs=[leg])])
    sides, _ = sides_of(sample_result(), other)
    assert sides.legs[0].ratios[1] is None
    assert "bytes moved: 78503936 / 7168" in sides.legs[0].remarks


def test_a_case_of_one_result_only_is_kept():
    sides, named = sides_of(sample_result(), sample_result(cases=sample_result().cases[:1]))
    assert len(sides.legs) == 4
    assert sides.legs[-1].legs[1] is None
    rows = describe_side_by_side(sides, named).sections[0].table.rows
    assert "not in it" in rows[-1].cells


def test_what_differs_is_named_machines_first():
    environment = replace(sample_result().environment, torch="2.14.0", driver="580.1")
    sides, named = sides_of(sample_result(), sample_result(environment=environment, settings={"seed": 1}))
    assert [row.name for row in sides.differences] == ["torch", "driver", "setting seed"]
    document = describe_side_by_side(sides, named)
    assert document.warnings[0] == "NOT ONE MACHINE: times also differ by driver."
    assert document.answers[-1].text == "torch, driver, setting seed"


def test_the_path_taken_is_named_where_it_differs():
    other = sample_result()
    case = other.cases[0]
    other = replace(other, cases=[replace(case, legs=[replace(leg, engine="per-copy") for leg in case.legs])])
    sides, _ = sides_of(sample_result(), other)
    assert "engine: memmove / per-copy" in sides.legs[0].remarks


def test_equal_results_differ_in_nothing_and_share_their_warnings():
    sides, named = sides_of(sample_result(), sample_result())
    document = describe_side_by_side(sides, named)
    assert document.answers[-1].text == "Nothing in environments or settings."
    assert sum("EMULATED" in warning for warning in document.warnings) == 1


def test_a_warning_about_one_result_names_it():
    sides, named = sides_of(sample_result(), sample_result(complete=True))
    warnings = describe_side_by_side(sides, named).warnings
    assert "a: INTERRUPTED: only the cases that were finished are here." in warnings
