"""The result of a sweep: its cells, and the cost model that explains their times.

A cell is a `CaseResult`: `CaseResult.params` holds a value per axis, each leg is a direction. Everything else here
follows from the samples and is computed anew by `ecbench.stats.sweep_model`, also after loading.
"""

from __future__ import annotations

from ecbench.core.records import CaseResult, Record, RunResult


class CellGroup(Record, frozen=True, kw_only=True):
    """Cells that one model describes: everything that is a kind and no number is the same."""

    engine: str
    """The engine that ran."""
    direction: str
    """``save`` or ``load``; of KV cells ``store`` or ``load``."""
    writer: str
    host_memory: str
    """How the host's side was held."""


class Estimate(Record, frozen=True, kw_only=True):
    """A fitted constant with its 95% interval."""

    value: float
    low: float
    high: float


class Step(Record, frozen=True, kw_only=True):
    """A size at which the bandwidth changes: one bandwidth does not describe the cells on both sides."""

    axis: str
    """``copied_bytes`` (bytes of the whole batch) or ``descriptor_bytes`` (bytes of one descriptor)."""
    below_bytes: int
    """Largest measured size before the step."""
    above_bytes: int
    """Smallest measured size after it."""
    bandwidth_below_bytes_per_s: float
    """Bandwidth before the step; the fit's own holds after it."""
    likely_cause: str | None
    """A cache whose size lies there; null where none does."""


class Departure(Record, frozen=True, kw_only=True):
    """A cell that the model does not describe."""

    case_id: str
    measured_s: float
    predicted_s: float

    @property
    def ratio(self) -> float:
        """Measured over predicted time."""
        return self.measured_s / self.predicted_s


class CostFit(Record, frozen=True, kw_only=True):
    """``seconds = fixed_s + descriptors * descriptor_s + bytes / bandwidth`` for one group of cells."""

    group: CellGroup
    cells: int
    """Cells it was fitted to."""
    fixed_s: Estimate
    """Cost of a batch however small."""
    descriptor_s: Estimate
    """Cost of one more descriptor."""
    bandwidth_bytes_per_s: Estimate
    """Bandwidth of endless descriptors; after the step where there is one."""
    step: Step | None
    half_bandwidth_bytes: float
    """Size of a descriptor, among many, that reaches half the bandwidth."""
    median_error: float
    """Median over the fitted cells of the relative error."""
    held_out_error: float | None
    """Median relative error of cells that took no part in the fit that predicted them; null for too few cells."""
    departures: list[Departure]
    """Cells that are off by more than a quarter, farthest first."""


class Coalescing(Record, frozen=True, kw_only=True):
    """What joining neighbouring blocks gives in one cell."""

    group: CellGroup
    block_size_bytes: int
    blocks: int
    run_length: int
    byte_offset: int
    descriptors_apart: int
    descriptors_joined: int
    predicted_speedup: float
    """Time apart over time joined, by the model."""
    measured_speedup: float | None
    """The same, where both were measured."""


class CrossPoint(Record, frozen=True, kw_only=True):
    """Where two engines take as long as each other, along one axis while the other stays."""

    descriptors: float
    descriptor_bytes: float
    faster_below: str
    """Engine that is faster before this point on the axis that varies."""
    faster_above: str


class Crossover(Record, frozen=True, kw_only=True):
    """Two engines on the same cells, by their models, inside the range that was measured.

    A crossing that the models' own errors could move out of that range is left out.
    """

    direction: str
    writer: str
    host_memory: str
    engines: tuple[str, str]
    never_slower: str | None
    """Engine that is behind in no measured cell, and ahead in some, by more than the models' errors; null where the two
    cross or cannot be told apart."""
    by_size: list[CrossPoint]
    """For each measured number of descriptors, the descriptor size at which they cross, where they do."""
    by_count: list[CrossPoint]
    """For each measured descriptor size, the number of descriptors at which they cross, where they do."""
    cells: int
    """Cells that both engines ran."""
    agreeing: int
    """Cells among them whose measured winner is the predicted one."""


class SweepResult(RunResult[CaseResult], frozen=True, kw_only=True):
    """What ``ecbench sweep`` found."""

    axes: dict[str, list[str | int | bool]]
    """The grid: every axis with its values."""
    fits: list[CostFit]
    coalescing: list[Coalescing]
    crossovers: list[Crossover]
    model_notes: list[str]
    """Groups that could not be fitted, and why."""
