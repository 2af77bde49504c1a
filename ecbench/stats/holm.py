"""Many cases at once: Holm's step-down, so that one unchanged case in twenty does not fail a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def step_down(p_values: NDArray[np.float64], levels: Sequence[float]) -> NDArray[np.bool_]:
    """Rejects hypotheses from the smallest p-value on until one is above its level.

    Args:
        p_values: Shape (..., cases).
        levels: Level of the smallest p-value first, shape (cases,); plain Holm has alpha / cases, alpha / (cases - 1),
            ..., alpha. With several looks they are the nominal levels for these shares (Maurer and Bretz, 2013).

    Returns:
        What is rejected, same shape.
    """
    order = np.argsort(p_values, axis=-1, kind="stable")
    below = np.take_along_axis(p_values, order, axis=-1) <= np.asarray(levels)
    rejected = np.empty_like(below)
    np.put_along_axis(rejected, order, np.logical_and.accumulate(below, axis=-1), axis=-1)
    return rejected
