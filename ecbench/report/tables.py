"""Results as pandas tables, for notebooks and spreadsheets."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ecbench.core.errors import DataError
from ecbench.core.records import Sample
from ecbench.report.documents import shown
from ecbench.report.kinds import kind_of
from ecbench.report.loading import read_stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from ecbench.core.records import CaseResult, LegResult, Param, RunResult

SAMPLE_FIELDS = Sample.__struct_fields__
_COUNTS = frozenset({"process", "round"})


def load_samples(path: str | PathLike[str]) -> pd.DataFrame:
    """Loads the samples of a result file.

    Args:
        path: JSON of ``roundtrip`` or ``sweep``.

    Returns:
        A row per sample, as `samples_table` describes.

    Raises:
        DataError: No such file, no result, no kind with samples, or an impossible time.
    """
    where = Path(path)
    result = read_stored(where)
    if not kind_of(result).has_legs:
        raise DataError(f"{where}: a result of {result.kind!r} has no samples: give one of roundtrip or sweep")
    try:
        return samples_table(result)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def samples_table(result: RunResult[CaseResult]) -> pd.DataFrame:
    """Every sample of a result.

    Columns: ``kind``, ``started_at``, ``device``, ``emulation``, ``case_id``, ``workload``, ``direction``, ``status``,
    ``reason``, ``engine``, ``writer`` (categories); ``process``, ``round``; ``total_s``, ``fill_s``, ``submit_s``,
    ``copy_s``, ``ceiling_s`` (seconds); ``blocks``, ``descriptors``, ``copied_bytes``; ``bandwidth_bytes_per_s``,
    ``ceiling_bytes_per_s``, ``ceiling_ratio``; and a column ``param_NAME`` per parameter of the cases.

    Args:
        result: With cases that have legs; its stored figures are not used.

    Raises:
        DataError: A total or ceiling that is not a positive, finite time.
    """
    pairs = [(case, leg) for case in result.cases for leg in case.legs if leg.samples]
    lengths = np.array([len(leg.samples) for _, leg in pairs], np.int64)
    repeated = _leg_columns(result, pairs, lengths)
    times = _time_columns([leg for _, leg in pairs])
    copied, total, ceiling = repeated["copied_bytes"], times["total_s"], times["ceiling_s"]
    derived = {
        "bandwidth_bytes_per_s": copied / total,
        "ceiling_bytes_per_s": copied / ceiling,
        "ceiling_ratio": ceiling / total,
    }
    params = _param_columns([case for case, _ in pairs], lengths)
    return pd.DataFrame({**repeated, **times, **derived, **params}, copy=False)


def unmeasured_table(result: RunResult[CaseResult]) -> pd.DataFrame:
    """The legs without samples, in the columns of `samples_table` that they have."""
    pairs = [(case, leg) for case in result.cases for leg in case.legs if not leg.samples]
    once = np.ones(len(pairs), np.int64)
    columns = {**_leg_columns(result, pairs, once), **_param_columns([case for case, _ in pairs], once)}
    return pd.DataFrame(columns)


def _leg_columns(
    result: RunResult[CaseResult], pairs: Sequence[tuple[CaseResult, LegResult]], lengths: NDArray[np.int64]
) -> dict[str, Any]:
    environment = result.environment
    texts: dict[str, list[str | None]] = {
        "kind": [result.kind for _ in pairs],
        "started_at": [result.started_at for _ in pairs],
        "device": [environment.device for _ in pairs],
        "emulation": [environment.emulation for _ in pairs],
        "case_id": [case.case_id for case, _ in pairs],
        "workload": [case.workload for case, _ in pairs],
        "direction": [leg.direction for _, leg in pairs],
        "status": [leg.status.value for _, leg in pairs],
        "reason": [leg.reason for _, leg in pairs],
        "engine": [leg.engine for _, leg in pairs],
        "writer": [leg.writer for _, leg in pairs],
    }
    counts = {
        name: np.repeat(np.array([getattr(leg, name) for _, leg in pairs], np.int64), lengths)
        for name in ("blocks", "descriptors", "copied_bytes")
    }
    return {**{name: _repeated(values, lengths) for name, values in texts.items()}, **counts}


def _repeated(values: Sequence[str | None], lengths: NDArray[np.int64]) -> pd.Categorical:
    """One text per leg as a column of one text per sample, stored once."""
    short = pd.Categorical(list(values))
    return pd.Categorical.from_codes(np.repeat(short.codes, lengths), dtype=short.dtype)


def _time_columns(legs: Sequence[LegResult]) -> dict[str, NDArray[Any]]:
    columns = _columns(legs)
    for name in ("total_s", "ceiling_s"):
        values = columns[name]
        bad = ~(np.isfinite(values) & (values > 0))
        if bad.any():
            number = columns["round"][int(np.argmax(bad))]
            raise DataError(f"sample of round {number} has an impossible {name}: a time is positive and finite")
    return columns


def _columns(legs: Sequence[LegResult]) -> dict[str, NDArray[Any]]:
    """Leg by leg, so that a leg's samples are in the cache for all their fields."""
    parts: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, _dtype(name))] for name in SAMPLE_FIELDS}
    readers = {name: attrgetter(name) for name in SAMPLE_FIELDS}
    for leg in legs:
        for name, read in readers.items():
            parts[name].append(np.fromiter(map(read, leg.samples), _dtype(name), len(leg.samples)))
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def _dtype(field: str) -> type[np.int64] | type[np.float64]:
    return np.int64 if field in _COUNTS else np.float64


def _param_columns(cases: Sequence[CaseResult], lengths: NDArray[np.int64]) -> dict[str, object]:
    names = dict.fromkeys(name for case in cases for name in case.params)
    return {f"param_{name}": _param_column([case.params.get(name) for case in cases], lengths) for name in names}


def _param_column(values: Sequence[Param], lengths: NDArray[np.int64]) -> object:
    """Numbers stay numbers, so that they can be plotted; all else is text."""
    if values and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.repeat(np.array(values), lengths)
    return _repeated([None if value is None else shown(value) for value in values], lengths)
