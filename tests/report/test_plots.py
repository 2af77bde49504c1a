"""Plots of little, of much, and of nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from ecbench.core.records import LegStatus, RoundTripResult
from ecbench.report.plain_text import printable_record
from ecbench.report.plots.catalogue import draw
from ecbench.report.plots.heat_map import draw_heat_map
from ecbench.report.plots.legs import MAX_ROWS, draw_legs
from ecbench.report.plots.ratios import draw_ratios
from ecbench.report.plots.rendering import render_inline_svg, render_png, render_svg
from ecbench.report.plots.size_curve import draw_size_curve
from ecbench.report.plots.style import MAX_DOTS, bandwidth_scale, shortened, size_label, thinned
from ecbench.report.plots.time_split import draw_time_split, time_parts
from ecbench.report.side_by_side import NamedResult, set_side_by_side
from tests.report.hostile import hostile_result
from tests.report.samples import sample_result
from tests.report.sweeps import sweep_result

ALL = [draw_legs, draw_time_split, draw_size_curve, draw_heat_map]
PNG = b"\x89PNG\r\n"


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("cases", [[], sample_result().cases[1:]], ids=["no cases", "no samples"])
def test_nothing_to_plot_is_said_in_words(make, cases):
    drawing = make(sample_result(cases=cases))
    assert drawing.figure is None
    assert drawing.caption.startswith("Not drawn: ")
    assert drawing.caption.removeprefix("Not drawn: ").encode()[:20] in render_svg(drawing)
    assert render_png(drawing).startswith(PNG)


@pytest.mark.parametrize("rounds", [1, 2])
def test_one_point_is_drawn_or_said_in_words(rounds):
    result = sweep_result(sizes=[4096], counts=[64], engines=["memmove"], rounds=rounds, damaged=False)
    drawings = {drawing.name: drawing for drawing in draw(result)}
    assert "only one block size was measured (4096 bytes)" in drawings["bandwidth-over-block-size"].caption
    assert "two axes" in drawings["heat-map"].caption
    assert drawings["bandwidth-by-leg"].figure is not None
    for drawing in drawings.values():
        assert render_png(drawing).startswith(PNG)


def test_a_single_sample_says_that_its_spread_is_unknown():
    leg = sample_result().cases[0].legs[1]
    result = sample_result(cases=[replace(sample_result().cases[0], legs=[leg])])
    assert "only one sample" in draw_legs(result).caption


def test_sizes_stand_on_a_doubling_axis_with_labels_and_units():
    figure = draw_size_curve(sweep_result()).figure
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
        assert axes.get_xlabel() == "block size"
        assert axes.get_ylabel() == "bandwidth (GB/s)"
        assert [label.get_text() for label in axes.get_xticklabels()] == [
            "4 KiB",
            "8 KiB",
            "16 KiB",
            "64 KiB",
            "256 KiB",
        ]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["save", "load"]


def test_the_fitted_curve_goes_through_what_the_model_predicts():
    result = sweep_result(counts=[512, 4096], engines=["memmove"], damaged=False)
    figure = draw_size_curve(result).figure
    curves = [line for line in figure.axes[0].lines if line.get_marker() == "None" and len(line.get_xdata()) > 10]
    medians = [case.legs[0].bandwidth_bytes_per_s / 1e9 for case in result.cases if case.params["count"] == 4096]
    assert len(curves) == 2
    assert curves[0].get_ydata()[-1] == pytest.approx(medians[-1], rel=0.05)


def test_a_sweep_without_a_model_joins_its_medians():
    result = replace(sweep_result(), fits=[])
    assert "cost model" not in draw_size_curve(result).caption


def test_too_many_series_are_counted():
    result = sweep_result(sizes=[4096, 8192], counts=[1, 2, 4, 8, 16], damaged=False)
    assert "6 of 10 combinations" in draw_size_curve(result).caption


def test_wide_ranges_get_a_logarithmic_bandwidth():
    result = sweep_result(sizes=[64, 4096, 1 << 22], counts=[64], damaged=False)
    figure = draw_size_curve(result).figure
    assert {axes.get_yscale() for axes in figure.axes} == {"log"}
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert {"1", "10"} & set(labels)
    assert "$" not in "".join(labels)


def test_a_heat_map_shows_each_cell_and_what_went_wrong():
    result = sweep_result(engines=["gather"])
    figure = draw_heat_map(result).figure
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert len(texts) == len(result.cases)
    assert {"FAILED", "ERROR", "SKIPPED"} <= set(texts)
    assert f"{result.cases[0].legs[0].ceiling_ratio:.2f}" in texts


def test_a_time_split_adds_up_to_the_round():
    leg = sample_result().cases[0].legs[0]
    assert sum(time_parts(leg).values()) == pytest.approx(leg.median_s)
    figure = draw_time_split(sample_result()).figure
    assert sum(patch.get_width() for patch in figure.axes[0].patches) == pytest.approx(100)


def test_overlapping_stages_still_fill_the_bar():
    case = sample_result().cases[0]
    leg = case.legs[0]
    samples = [replace(sample, submit_s=sample.total_s, copy_s=sample.total_s) for sample in leg.samples]
    result = sample_result(cases=[replace(case, legs=[replace(leg, samples=samples)])])
    figure = draw_time_split(result).figure
    assert sum(patch.get_width() for patch in figure.axes[0].patches) == pytest.approx(100)


def test_the_split_of_a_grid_follows_one_line_of_it_and_says_which():
    drawing = draw_time_split(sweep_result())
    assert "engine memmove" in drawing.caption
    assert "blocks 4096" in drawing.caption


def test_many_legs_are_cut_and_counted():
    case = sample_result().cases[0]
    result = sample_result(cases=[replace(case, case_id=f"case-{number}") for number in range(30)])
    assert f"The first {MAX_ROWS} of 60 legs" in draw_legs(result).caption
    assert "The first 24 of 30 legs" in draw_time_split(result).caption


def test_many_samples_are_thinned():
    case = sample_result().cases[0]
    leg = replace(case.legs[0], samples=case.legs[0].samples * 1000)
    drawing = draw_legs(sample_result(cases=[replace(case, legs=[leg])]))
    assert f"Of 7,000 rounds, {MAX_DOTS:,} at most are drawn" in drawing.caption
    assert max(len(line.get_xdata()) for line in drawing.figure.axes[0].lines) <= MAX_DOTS


def test_ratios_have_one_in_the_middle_and_the_farthest_legs():
    sides = set_side_by_side([NamedResult("a", sweep_result()), NamedResult("b", sweep_result(damaged=False))])
    drawing = draw_ratios(sides)
    low, high = drawing.figure.axes[0].get_xlim()
    assert low * high == pytest.approx(1)
    assert "with ratios farthest from 1" in drawing.caption


def test_no_common_work_has_no_ratio():
    other = replace(sample_result(), cases=[replace(case, case_id="x") for case in sample_result().cases])
    sides = set_side_by_side([NamedResult("a", sample_result()), NamedResult("b", other)])
    assert draw_ratios(sides).figure is None


@pytest.mark.parametrize("make", [draw_legs, draw_time_split])
def test_hostile_names_stay_text(make):
    svg = render_inline_svg(make(printable_record(hostile_result(), RoundTripResult)), "p0-")
    assert "<script" not in svg
    texts = [element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("=cmd|' /C calc") for text in texts)
    assert svg.count("</svg>") == 1


def test_an_inline_plot_takes_its_colours_from_the_page_and_keeps_its_names_apart():
    svg = render_inline_svg(draw_legs(sample_result()), "first-")
    assert "var(--ink)" in svg
    assert "#1f2328" not in svg
    assert 'id="figure_1"' not in svg
    assert 'id="first-figure_1"' in svg
    assert "url(#first-" in svg


def test_a_wrong_leg_is_marked_by_more_than_colour():
    figure = draw_legs(sample_result()).figure
    assert "X" in {line.get_marker() for line in figure.axes[0].lines}


def test_statuses_other_than_passed_take_no_part_in_the_split():
    result = sample_result()
    failed = [replace(leg, status=LegStatus.FAILED) for leg in result.cases[0].legs]
    drawing = draw_time_split(sample_result(cases=[replace(result.cases[0], legs=failed)]))
    assert drawing.figure is None


@pytest.mark.parametrize(
    ("most", "unit"), [(5.0, "B/s"), (5e3, "kB/s"), (999e6, "MB/s"), (7e9, "GB/s"), (3e15, "TB/s"), (0.0, "B/s")]
)
def test_bandwidths_get_a_fitting_unit(most, unit):
    assert bandwidth_scale(most).unit == unit


def test_labels_are_short():
    assert size_label(4096) == "4 KiB"
    assert size_label(7168 * 3 / 2) == "10.5 KiB"
    assert shortened("a" * 100, 13) == "aaaaa...aaaaa"
    assert len(range(10_000)[thinned(10_000, 100)]) == 100
    assert len(range(3)[thinned(3, 0)]) == 1
