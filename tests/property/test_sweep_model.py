"""The cost model for any law and any grid."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ecbench.stats.cost_model import Observation, UnfitError, fit_model
from tests.stats.synthetic_cells import KIB, observations

LAWS = st.tuples(st.floats(1e-6, 1e-3), st.floats(1e-8, 5e-5), st.floats(1e8, 1e11))


@given(LAWS)
@settings(max_examples=50)
def test_any_lawful_engine_is_predicted(law):
    cells = observations(*law)
    model = fit_model(cells)
    predicted = model.predict(
        np.array([float(cell.descriptors) for cell in cells]), np.array([float(cell.copied_bytes) for cell in cells])
    )
    assert np.allclose(predicted, [cell.seconds for cell in cells], rtol=0.01)


@given(LAWS, st.floats(1e-3, 1e3))
@settings(max_examples=30)
def test_a_clock_that_runs_faster_scales_every_constant(law, factor):
    slow = fit_model(observations(*law, noise=0.02))
    fixed_s, descriptor_s, bandwidth = law
    fast = fit_model(observations(fixed_s * factor, descriptor_s * factor, bandwidth / factor, noise=0.02))
    assert np.allclose(fast.constants, factor * slow.constants, rtol=0.02, atol=0)


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 64), st.floats(1e-9, 1e3)), max_size=25),
)
@settings(max_examples=100)
def test_any_times_are_fitted_or_refused(cells):
    measured = [Observation("cell", count, count * size * KIB, seconds) for count, size, seconds in cells]
    try:
        model = fit_model(measured)
    except UnfitError:
        return
    assert (model.constants >= 0).all()
    assert np.isfinite(model.constants).all()
    assert np.isfinite(model.errors).all()
