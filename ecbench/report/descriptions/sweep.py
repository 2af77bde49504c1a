"""A sweep as a document: what its times say, and one line per cell and direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.core.units import format_bandwidth, format_bytes, format_seconds
from ecbench.report.answers import answers
from ecbench.report.descriptions.round_trip import LEG_TONES
from ecbench.report.documents import Answer, Document, FactGroup, Row, Section, Table, fact_groups, shown, title_of
from ecbench.report.figures import environment_line, stage_line, summary, warnings
from ecbench.report.kv_figures import PLAN_COLUMNS, PLAN_EXPLAINED, plan_rows
from ecbench.report.sweep_figures import (
    CELL_COLUMNS,
    COALESCING_COLUMNS,
    FIT_COLUMNS,
    MODEL_EXPLAINED,
    cell_row,
    coalescing_row,
    crossover_lines,
    fit_remarks,
    fit_row,
    sweep_notes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.sweep_records import CostFit, SweepResult

_EXPLAINING = "What does the cost model say?"
_TEXT_COLUMNS = frozenset({"cell", "leg", "bytes", "engine", "blocks", "plan"})


def describe_sweep(result: SweepResult) -> Document:
    """Answers, the cost model with its limits, and every cell."""
    return Document(
        title=title_of(result),
        subtitle=environment_line(result),
        warnings=tuple(warnings(result)),
        answers=(*answers(result), *_explanation(result.fits)),
        sections=(*_model(result), _coalescing(result), _plans(result), _cells(result)),
        facts=(*fact_groups(result), _grid(result)),
        footer=f"{summary(result)}; {stage_line(result)}",
    )


def _explanation(fits: Sequence[CostFit]) -> list[Answer]:
    """The group whose descriptors cost most: where joining blocks, or another engine, gives most."""
    if not fits:
        return []
    fit = max(fits, key=lambda fit: fit.descriptor_s.value)
    text = (
        f"{fit.group.engine} {fit.group.direction} ({fit.group.writer}, {fit.group.host_memory}) pays "
        f"{format_seconds(fit.fixed_s.value)} per batch and {format_seconds(fit.descriptor_s.value)} per descriptor, "
        f"and tends to {format_bandwidth(fit.bandwidth_bytes_per_s.value)}, half of which it reaches with descriptors "
        f"of {format_bytes(fit.half_bandwidth_bytes)}. The model is off by {fit.median_error:.0%} (median)."
    )
    return [Answer(_EXPLAINING, text)]


def _model(result: SweepResult) -> tuple[Section, ...]:
    rows = tuple(Row(fit_row(fit)) for fit in result.fits)
    return (
        Section("Cost model", MODEL_EXPLAINED if rows else "", _table(FIT_COLUMNS, rows)),
        Section("Where the model does not hold", notes=tuple(fit_remarks(result))),
        Section("Which engine where", notes=tuple(crossover_lines(result))),
    )


def _coalescing(result: SweepResult) -> Section:
    rows = tuple(Row(coalescing_row(gain)) for gain in result.coalescing)
    lead = "Time of blocks apart over time of runs joined." if rows else ""
    return Section("What coalescing gives", lead, _table(COALESCING_COLUMNS, rows))


def _plans(result: SweepResult) -> Section:
    rows = tuple(map(Row, plan_rows(result)))
    return Section("Plans", PLAN_EXPLAINED if rows else "", _table(PLAN_COLUMNS, rows))


def _cells(result: SweepResult) -> Section:
    rows = tuple(Row(cell_row(case, leg), LEG_TONES[leg.status]) for case in result.cases for leg in case.legs)
    return Section("Cells", table=_table(CELL_COLUMNS, rows), notes=tuple(sweep_notes(result)))


def _table(columns: tuple[str, ...], rows: tuple[Row, ...]) -> Table:
    return Table(columns, rows, frozenset(columns) - _TEXT_COLUMNS)


def _grid(result: SweepResult) -> FactGroup:
    return FactGroup("Axes", tuple((axis, shown(values)) for axis, values in result.axes.items()))
