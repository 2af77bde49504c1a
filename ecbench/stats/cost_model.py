"""The cost model: ``seconds = a + n * d + bytes / B``, fitted to the cells of one group.

Residuals are those of the logarithm, so that a cell of 100 us counts as much as one of 100 ms and 20% too fast as much
as 20% too slow. Cells far off lose weight instead of pulling the fit (soft L1 loss). A second bandwidth is fitted where
one does not do, and reported as a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares, nnls
from scipy.special import fdtrc, stdtrit

from ecbench.core.errors import EcbenchError
from ecbench.stats.summary import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MIN_CELLS = 6
"""Twice the number of constants: below, the error of a fit says nothing."""
MIN_HELD_OUT_CELLS = 10
"""Each of five folds then holds two cells, and eight remain to fit."""
FOLDS = 5
ROBUST_SCALE = 0.1
"""Relative residual from which a cell loses weight: what a shared machine does to a median of seven rounds."""
STEP_AXES = ("copied_bytes", "descriptor_bytes")
MIN_SIDE_CELLS = 3
MIN_SIDE_SIZES = 2
"""What must lie on each side of a step: fewer could be one odd cell."""
MIN_STEP_RATIO = 1.25
"""Bandwidths closer than this are one bandwidth with noise."""
STEP_SIGNIFICANCE = 0.001
"""Chance, over all places for a step, that noise alone looks like one."""
RANK_TOLERANCE = 1e-4
"""Singular values below this share of the largest: columns that differ by less than any timer's noise."""
MAX_RELATIVE_ERROR = 0.5
"""Standard error of a bandwidth, as a share of it, beyond which it is not resolved."""
_CONSTANTS = 3
_STEP_CONSTANTS = 5
"""A second bandwidth, and the place of the step."""


@dataclass(frozen=True)
class Observation:
    """One cell as the model sees it.

    Args:
        case_id: Names the cell.
        descriptors: Copies in the batch, at least 1.
        copied_bytes: Bytes of the whole batch, at least 1.
        seconds: Median time.
    """

    case_id: str
    descriptors: int
    copied_bytes: int
    seconds: float

    @property
    def descriptor_bytes(self) -> float:
        """Mean bytes of a descriptor."""
        return self.copied_bytes / self.descriptors


@dataclass(frozen=True)
class Cut:
    """Divides cells by a size.

    Args:
        axis: One of `STEP_AXES`.
        below_bytes: Largest measured size before the cut.
        above_bytes: Smallest measured size after it.
    """

    axis: str
    below_bytes: float
    above_bytes: float

    def is_above(self, descriptors: Floats, copied_bytes: Floats) -> NDArray[np.bool_]:
        """Tells which cells lie after the cut; between the measured sizes, the geometric mean divides."""
        sizes = copied_bytes if self.axis == "copied_bytes" else copied_bytes / descriptors
        return sizes > math.sqrt(self.below_bytes * self.above_bytes)


@dataclass(frozen=True, eq=False)
class Model:
    """Fitted constants.

    Args:
        constants: Fixed seconds, seconds per descriptor, seconds per byte, and with a cut seconds per byte before it:
            float64, shape ``(3,)`` or ``(4,)``.
        errors: Standard errors, same shape.
        freedom: Cells minus constants.
        cut: Where the bandwidth changes; None where one bandwidth does.
        cost: Sum of the robust loss.
    """

    constants: Floats
    errors: Floats
    freedom: int
    cut: Cut | None
    cost: float

    def predict(self, descriptors: Floats, copied_bytes: Floats) -> Floats:
        """Seconds that batches take.

        Args:
            descriptors: Copies per batch, shape ``(n,)``.
            copied_bytes: Bytes per batch, shape ``(n,)``.
        """
        seconds: Floats = _columns(descriptors, copied_bytes, self.cut) @ self.constants
        return seconds

    @property
    def half_width(self) -> float:
        """Standard errors between an estimate and the end of its interval."""
        return float(stdtrit(self.freedom, (1 + CONFIDENCE) / 2))


class UnfitError(EcbenchError):
    """Cells that do not determine the model; the message says what is missing."""


def fit_model(cells: Sequence[Observation]) -> Model:
    """Fits the constants, with a step where noise can hardly be one.

    Args:
        cells: Cells of one group.

    Raises:
        UnfitError: Too few cells, or cells that vary in too little.
    """
    _refuse_undetermined(cells)
    plain = _fit(cells, None)
    cut = _best_cut(cells)
    if cut is not None:
        stepped = _fit(cells, cut)
        if _explains_more(stepped, plain, cells):
            return stepped
    return plain


def _refuse_undetermined(cells: Sequence[Observation]) -> None:
    counts = {cell.descriptors for cell in cells}
    sizes = {cell.descriptor_bytes for cell in cells}
    if len(cells) < MIN_CELLS:
        raise UnfitError(f"{len(cells)} measured cells are too few for a fit: give at least {MIN_CELLS}")
    relative = _relative_columns(cells, None)
    singular = np.linalg.svd(relative / np.linalg.norm(relative, axis=0), compute_uv=False)
    if singular[-1] < RANK_TOLERANCE * singular[0]:
        raise UnfitError(
            f"{len(counts)} descriptor counts and {len(sizes)} descriptor sizes do not tell the costs apart: "
            "vary both count and block size"
        )


def held_out_error(cells: Sequence[Observation]) -> float | None:
    """Median relative error of cells that took no part in the fit which predicted them.

    Args:
        cells: Cells of one group.

    Returns:
        The error over all folds; None where the cells are too few, or a fold's rest does not determine the model.
    """
    if len(cells) < MIN_HELD_OUT_CELLS:
        return None
    fold_of = np.random.default_rng(0).permutation(len(cells)) % FOLDS
    errors: list[float] = []
    for fold in range(FOLDS):
        try:
            model = fit_model([cell for cell, of in zip(cells, fold_of, strict=True) if of != fold])
        except UnfitError:
            return None
        errors += relative_errors(model, [cell for cell, of in zip(cells, fold_of, strict=True) if of == fold])
    return float(np.median(errors))


def relative_errors(model: Model, cells: Sequence[Observation]) -> list[float]:
    """Absolute error of each prediction as a share of what was measured."""
    measured = np.array([cell.seconds for cell in cells])
    errors: list[float] = np.abs(model.predict(*_sizes(cells)) / measured - 1).tolist()
    return errors


def _sizes(cells: Sequence[Observation]) -> tuple[Floats, Floats]:
    return (
        np.array([cell.descriptors for cell in cells], dtype=np.float64),
        np.array([cell.copied_bytes for cell in cells], dtype=np.float64),
    )


def _columns(descriptors: Floats, copied_bytes: Floats, cut: Cut | None) -> Floats:
    ones = np.ones_like(descriptors)
    if cut is None:
        return np.stack([ones, descriptors, copied_bytes], axis=1)
    above = cut.is_above(descriptors, copied_bytes)
    return np.stack([ones, descriptors, copied_bytes * above, copied_bytes * ~above], axis=1)


def _relative_columns(cells: Sequence[Observation], cut: Cut | None) -> Floats:
    """Columns divided by the measured times: a perfect model's rows sum to one."""
    seconds = np.array([cell.seconds for cell in cells])
    relative: Floats = _columns(*_sizes(cells), cut) / seconds[:, None]
    return relative


def _fit(cells: Sequence[Observation], cut: Cut | None) -> Model:
    relative = _relative_columns(cells, cut)
    scale = np.linalg.norm(relative, axis=0)
    columns = relative / scale
    start, _ = nnls(columns, np.ones(len(cells)))
    # A constant that starts at zero would have no way to grow: the logarithm's slope there is all the others'.
    start = np.maximum(start, 1e-3 * start.max())

    def residuals(constants: Floats) -> Floats:
        logs: Floats = np.log(columns @ constants)
        return logs

    def slopes(constants: Floats) -> Floats:
        slope: Floats = columns / (columns @ constants)[:, None]
        return slope

    found = least_squares(
        residuals, start, jac=slopes, bounds=(0, np.inf), loss="soft_l1", f_scale=ROBUST_SCALE, x_scale=start
    )
    errors = _standard_errors(residuals(found.x), slopes(found.x))
    freedom = len(cells) - len(start)
    return Model(found.x / scale, errors / scale, freedom, cut, float(found.cost))


def _standard_errors(residuals: Floats, slopes: Floats) -> Floats:
    """From the curvature at the solution, every cell weighted as the robust loss weights it."""
    weights = 1 / np.sqrt(1 + (residuals / ROBUST_SCALE) ** 2)
    freedom = len(residuals) - slopes.shape[1]
    variance = (weights * residuals**2).sum() / freedom
    covariance = np.linalg.pinv(slopes.T @ (weights[:, None] * slopes))
    errors: Floats = np.sqrt(variance * np.diag(covariance))
    return errors


def _best_cut(cells: Sequence[Observation]) -> Cut | None:
    """The most promising cut by plain linear fits, which cost microseconds; the robust fit decides about it."""
    cuts = [cut for axis in STEP_AXES for cut in _cuts(cells, axis)]
    return min(cuts, key=lambda cut: _linear_cost(_relative_columns(cells, cut)), default=None)


def _cuts(cells: Sequence[Observation], axis: str) -> list[Cut]:
    sizes = [float(getattr(cell, axis)) for cell in cells]
    distinct = sorted(set(sizes))
    cuts = []
    for index in range(MIN_SIDE_SIZES, len(distinct) - MIN_SIDE_SIZES + 1):
        below = sum(size < distinct[index] for size in sizes)
        if min(below, len(sizes) - below) >= MIN_SIDE_CELLS:
            cuts.append(Cut(axis, distinct[index - 1], distinct[index]))
    return cuts


def _linear_cost(relative: Floats) -> float:
    solution = np.linalg.lstsq(relative / np.linalg.norm(relative, axis=0), np.ones(len(relative)), rcond=None)[0]
    residuals = (relative / np.linalg.norm(relative, axis=0)) @ solution - 1
    return float((np.sqrt(1 + (residuals / ROBUST_SCALE) ** 2) - 1).sum())


def _explains_more(stepped: Model, plain: Model, cells: Sequence[Observation]) -> bool:
    """An F test of the two more constants, with every place for a cut counted as a test of its own."""
    above, below = stepped.constants[2], stepped.constants[3]
    if not min(above, below) > 0 or max(above, below) / min(above, below) < MIN_STEP_RATIO:
        return False
    freedom = len(cells) - _STEP_CONSTANTS
    if freedom < 1:
        return False
    ratio = (plain.cost - stepped.cost) / (_STEP_CONSTANTS - _CONSTANTS) / max(stepped.cost / freedom, 1e-300)
    tests = sum(len(_cuts(cells, axis)) for axis in STEP_AXES)
    return bool(tests * fdtrc(_STEP_CONSTANTS - _CONSTANTS, freedom, ratio) < STEP_SIGNIFICANCE)
