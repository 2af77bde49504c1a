from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ecbench.stats.cost_model import Observation, UnfitError, fit_model, held_out_error, relative_errors
from tests.stats.synthetic_cells import COUNTS, KIB, SIZES, observations

ENGINES = {
    "DMA": (20e-6, 2e-6, 25e9),
    "kernel": (60e-6, 50e-9, 12e9),
    "host": (120e-6, 1e-6, 9e9),
    "slow descriptors": (5e-6, 40e-6, 50e9),
}


@pytest.mark.parametrize("constants", ENGINES.values(), ids=ENGINES)
def test_an_engine_with_known_constants_is_recovered(constants):
    fixed_s, descriptor_s, bandwidth = constants
    model = fit_model(observations(*constants))
    assert model.constants == pytest.approx([fixed_s, descriptor_s, 1 / bandwidth], rel=1e-3)
    assert model.cut is None


@pytest.mark.parametrize("constants", ENGINES.values(), ids=ENGINES)
def test_a_noisy_engine_is_recovered_within_five_percent(constants):
    fixed_s, descriptor_s, bandwidth = constants
    sizes, counts = [KIB << power for power in range(8)], [1 << power for power in range(13)]
    model = fit_model(observations(*constants, noise=0.02, sizes=sizes, counts=counts))
    assert model.constants == pytest.approx([fixed_s, descriptor_s, 1 / bandwidth], rel=0.05)


def test_cells_far_off_do_not_pull_the_fit():
    cells = observations(20e-6, 1e-6, 10e9, noise=0.01)
    cells[3] = dataclasses.replace(cells[3], seconds=30 * cells[3].seconds)
    cells[9] = dataclasses.replace(cells[9], seconds=30 * cells[9].seconds)
    assert fit_model(cells).constants == pytest.approx([20e-6, 1e-6, 1e-10], rel=0.1)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    truth = np.array([20e-6, 1e-6, 1e-10])
    held = np.zeros(3)
    for seed in range(100):
        model = fit_model(observations(*truth[:2], 1 / truth[2], noise=0.05, seed=seed))
        held += np.abs(model.constants - truth) <= model.half_width * model.errors
    assert (held >= 85).all(), held


def test_a_cost_of_zero_is_found_and_never_negative():
    model = fit_model(observations(0.0, 1e-6, 10e9, noise=0.02, seed=1))
    assert (model.constants >= 0).all()
    assert model.constants[1:] == pytest.approx([1e-6, 1e-10], rel=0.1)


def _stepped(axis, at_bytes, below, above):
    def slowed(cell):
        return dataclasses.replace(cell, seconds=cell.seconds + cell.copied_bytes * (1 / above - 1 / below))

    cells = observations(20e-6, 0.5e-6, below, noise=0.02, sizes=[KIB << power for power in range(8)])
    return [slowed(cell) if getattr(cell, axis) > at_bytes else cell for cell in cells]


@pytest.mark.parametrize(("axis", "at_bytes"), [("copied_bytes", 1 << 20), ("descriptor_bytes", 8 * KIB)])
def test_a_step_is_found_where_it_is_with_both_bandwidths(axis, at_bytes):
    model = fit_model(_stepped(axis, at_bytes, 40e9, 8e9))
    assert model.cut.axis == axis
    assert model.cut.below_bytes <= at_bytes < model.cut.above_bytes
    assert 1 / model.constants[2:] == pytest.approx([8e9, 40e9], rel=0.2)


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_step(seed):
    assert fit_model(observations(20e-6, 1e-6, 10e9, noise=0.1, seed=seed)).cut is None


def test_held_out_cells_of_a_lawful_engine_are_predicted():
    assert held_out_error(observations(20e-6, 1e-6, 10e9, noise=0.05)) < 0.1


def test_held_out_cells_of_a_lawless_engine_are_not():
    draw = np.random.default_rng(0)
    cells = [dataclasses.replace(cell, seconds=10 ** draw.uniform(-5, -1)) for cell in observations(1e-6, 1e-6, 1e9)]
    assert held_out_error(cells) > 0.3


def test_few_cells_have_no_held_out_error():
    assert held_out_error(observations(20e-6, 1e-6, 10e9, counts=[1, 64])) is None


UNDETERMINED = {
    "no cells": ([], "0 measured cells are too few"),
    "few cells": (observations(1e-6, 1e-6, 1e9)[:5], "5 measured cells are too few"),
    "one block size": (
        observations(1e-6, 1e-6, 1e9, sizes=[KIB], counts=range(1, 9)),
        "1 descriptor sizes do not tell",
    ),
    "one count": (observations(1e-6, 1e-6, 1e9, sizes=range(1, 9), counts=[7]), "1 descriptor counts"),
}


@pytest.mark.parametrize(("cells", "message"), UNDETERMINED.values(), ids=UNDETERMINED)
def test_cells_that_do_not_determine_the_model_are_refused_with_what_is_missing(cells, message):
    with pytest.raises(UnfitError, match=message):
        fit_model(cells)


def test_a_relative_error_is_a_share_of_what_was_measured():
    model = fit_model(observations(20e-6, 1e-6, 10e9))
    doubled = Observation("slow", 16, 16 * KIB, 2 * (20e-6 + 16e-6 + 16 * KIB / 10e9))
    assert relative_errors(model, [doubled]) == pytest.approx([0.5], rel=1e-2)


def test_the_grid_of_the_tests_varies_both_sizes():
    assert len(observations(1e-6, 1e-6, 1e9)) == len(SIZES) * len(COUNTS)
