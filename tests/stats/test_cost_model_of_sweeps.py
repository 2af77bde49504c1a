"""From the cells of a sweep to fits, coalescing and crossovers."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ecbench.core.records import LegStatus
from ecbench.core.sweep_records import SweepResult
from ecbench.stats.sweep_model import predict_s, with_model
from tests.report.samples import sample_result
from tests.stats.synthetic_cells import COUNTS, KIB, SIZES, cell, seconds_of

KERNEL = (60e-6, 0.05e-6, 12e9)
DMA = (20e-6, 2e-6, 25e9)


def sweep_of(*cases, cache=None):
    environment = msgspec.structs.replace(sample_result().environment, last_level_cache_bytes=cache)
    return SweepResult(
        schema_version=1,
        kind="sweep",
        started_at="2026-01-02T03:04:05+00:00",
        environment=environment,
        settings={},
        cases=list(cases),
        axes={},
        fits=[],
        coalescing=[],
        crossovers=[],
        model_notes=[],
    )


def grid(engine, constants, **options):
    return [
        cell(engine, size, count, seconds_of(count, size * count, *constants), **options)
        for size in SIZES
        for count in COUNTS
    ]


def test_every_engine_and_direction_gets_a_fit_of_its_own():
    loads = grid("dma", (10e-6, 1e-6, 20e9), direction="load")
    result = with_model(sweep_of(*grid("kernel", KERNEL), *grid("dma", DMA), *loads))
    found = {(fit.group.engine, fit.group.direction): fit for fit in result.fits}
    assert set(found) == {("kernel", "save"), ("dma", "save"), ("dma", "load")}
    fit = found["dma", "save"]
    assert fit.cells == 16
    assert fit.fixed_s.value == pytest.approx(20e-6, rel=0.01)
    assert fit.descriptor_s.value == pytest.approx(2e-6, rel=0.01)
    assert fit.bandwidth_bytes_per_s.value == pytest.approx(25e9, rel=0.01)
    assert fit.half_bandwidth_bytes == pytest.approx(2e-6 * 25e9, rel=0.01)
    assert fit.median_error < 0.01
    assert fit.held_out_error < 0.01
    assert fit.departures == []
    assert predict_s(fit, 100, 1 << 20) == pytest.approx(seconds_of(100, 1 << 20, *DMA), rel=0.01)


def test_stored_figures_are_never_trusted():
    first = with_model(sweep_of(*grid("dma", DMA)))
    tampered = msgspec.structs.replace(first, fits=[], model_notes=["nothing to see"])
    assert with_model(tampered) == first


def test_a_result_comes_back_from_json_as_it_was():
    result = with_model(sweep_of(*grid("kernel", KERNEL), *grid("dma", DMA)))
    assert msgspec.json.decode(msgspec.json.encode(result), type=SweepResult) == result


def test_wrong_bytes_and_unmeasured_cells_take_no_part():
    wrong = cell("dma", KIB, 16, 100.0, status=LegStatus.FAILED)
    skipped = msgspec.structs.replace(
        wrong, legs=[msgspec.structs.replace(wrong.legs[0], status=LegStatus.SKIPPED, samples=[])]
    )
    (fit,) = with_model(sweep_of(*grid("dma", DMA), wrong, skipped)).fits
    assert fit.cells == 16
    assert fit.fixed_s.value == pytest.approx(20e-6, rel=0.01)


def test_a_cell_that_the_model_does_not_describe_is_listed_and_not_hidden():
    cases = grid("dma", DMA)
    cases[5] = cell("dma", SIZES[1], COUNTS[1], 3 * seconds_of(COUNTS[1], SIZES[1] * COUNTS[1], *DMA))
    (fit,) = with_model(sweep_of(*cases)).fits
    (departure,) = fit.departures
    assert departure.case_id == cases[5].case_id
    assert departure.ratio == pytest.approx(3, rel=0.1)


def test_a_step_near_the_cache_is_named_after_it():
    def seconds(size, count):
        bandwidth = 60e9 if size * count <= 1 << 20 else 6e9
        return seconds_of(count, size * count, 5e-6, 20e-9, bandwidth)

    cases = [cell("host", KIB << power, count, seconds(KIB << power, count)) for power in range(7) for count in COUNTS]
    (fit,) = with_model(sweep_of(*cases, cache=2 << 20)).fits
    assert fit.step.axis == "copied_bytes"
    assert fit.step.below_bytes <= 1 << 20 < fit.step.above_bytes
    assert fit.step.likely_cause == "the last-level cache of 2.00 MiB"
    assert fit.step.bandwidth_below_bytes_per_s == pytest.approx(60e9, rel=0.05)
    assert fit.bandwidth_bytes_per_s.value == pytest.approx(6e9, rel=0.05)
    assert predict_s(fit, 16, 16 * KIB) == pytest.approx(seconds(KIB, 16), rel=0.02)
    assert predict_s(fit, 1024, 1 << 26) == pytest.approx(seconds(64 * KIB, 1024), rel=0.02)
    (elsewhere,) = with_model(sweep_of(*cases, cache=1 << 30)).fits
    assert elsewhere.step.likely_cause is None


def test_a_group_without_a_model_says_why():
    result = with_model(sweep_of(*grid("dma", DMA)[:3]))
    assert result.fits == []
    assert result.model_notes == [
        "dma save (numpy-batch, pageable): no model: 3 measured cells are too few for a fit: give at least 6"
    ]


def test_cells_too_small_for_a_bandwidth_say_so():
    draw = np.random.default_rng(0)
    cases = [
        cell("dma", 1 + size, count, (1e-3 + count * 1e-6) * draw.uniform(0.95, 1.05))
        for size in range(4)
        for count in COUNTS
    ]
    result = with_model(sweep_of(*cases))
    assert result.fits == []
    assert "bandwidth" in result.model_notes[0]


def test_coalescing_is_predicted_and_held_against_what_was_measured():
    joined = [cell("dma", size, 256, seconds_of(16, size * 256, *DMA), run_length=16) for size in SIZES]
    apart = [cell("dma", size, 256, seconds_of(256, size * 256, *DMA), run_length=16, apart=True) for size in SIZES]
    result = with_model(sweep_of(*grid("dma", DMA), *joined, *apart[:1]))
    assert [gain.block_size_bytes for gain in result.coalescing] == SIZES
    first, *others = result.coalescing
    assert (first.descriptors_apart, first.descriptors_joined) == (256, 16)
    assert first.measured_speedup == pytest.approx(
        apart[0].legs[0].samples[0].total_s / joined[0].legs[0].samples[0].total_s
    )
    assert first.predicted_speedup == pytest.approx(first.measured_speedup, rel=0.02)
    assert {gain.measured_speedup for gain in others} == {None}


def test_engines_cross_where_their_laws_cross():
    result = with_model(sweep_of(*grid("kernel", KERNEL), *grid("dma", DMA)))
    (crossover,) = result.crossovers
    assert crossover.engines == ("kernel", "dma")
    assert crossover.never_slower is None
    assert (crossover.cells, crossover.agreeing) == (16, 16)
    for point in crossover.by_size:
        assert (point.faster_below, point.faster_above) == ("kernel", "dma")
        times = [
            seconds_of(point.descriptors, point.descriptors * point.descriptor_bytes, *constants)
            for constants in (KERNEL, DMA)
        ]
        assert times[0] == pytest.approx(times[1], rel=0.02)
    assert [point.descriptors for point in crossover.by_size] == [128, 1024]
    # 60 - 20 = 40 us of fixed cost against 1.95 us per descriptor, less what the bandwidths differ by.
    assert crossover.by_count[0].descriptor_bytes == KIB
    assert crossover.by_count[0].descriptors == pytest.approx(40 / (1.95 - 0.0444), rel=0.03)
    assert (crossover.by_count[0].faster_below, crossover.by_count[0].faster_above) == ("dma", "kernel")


def test_an_engine_that_is_ahead_everywhere_crosses_nowhere():
    slower = tuple(value * factor for value, factor in zip(DMA, (2, 2, 0.5), strict=True))
    (crossover,) = with_model(sweep_of(*grid("slow", slower), *grid("dma", DMA))).crossovers
    assert crossover.never_slower == "dma"
    assert crossover.by_size == crossover.by_count == []


def test_engines_that_are_alike_are_not_told_apart():
    cases = grid("one", DMA) + grid("other", DMA)
    cases[3] = cell("one", SIZES[0], COUNTS[3], 1.1 * seconds_of(COUNTS[3], SIZES[0] * COUNTS[3], *DMA))
    (crossover,) = with_model(sweep_of(*cases)).crossovers
    assert crossover.by_size == crossover.by_count == []


def test_directions_and_writers_are_not_compared_with_each_other():
    cases = grid("kernel", KERNEL) + grid("dma", DMA, direction="load")
    assert with_model(sweep_of(*cases)).crossovers == []
