"""Which case of one result is which of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ecbench.core.errors import DataError
from ecbench.workflows.comparability import workload_difference, workload_params

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.workflows.comparable import ComparableCase, ComparableLeg


class CasePair(NamedTuple):
    """A case in both results; None where one has none."""

    base: ComparableCase | None
    new: ComparableCase | None


class LegPair(NamedTuple):
    """A direction in both cases; None where one has none."""

    base: ComparableLeg | None
    new: ComparableLeg | None


def match_cases(base: Sequence[ComparableCase], new: Sequence[ComparableCase]) -> list[CasePair]:
    """Matches by name; what is left, by workload and parameters: such a case was renamed.

    Returns:
        Cases in the order of the new result, then those that are missing from it.

    Raises:
        DataError: Cases of one name have different workloads, or no case is in both results.
    """
    by_name = {case.case_id: case for case in base}
    names = {case.case_id for case in new}
    gone = [case for case in base if case.case_id not in names]
    pairs = []
    for case in new:
        old = by_name.get(case.case_id) or _take_renamed(gone, case)
        if old is not None:
            _refuse_other_workload(old, case)
        pairs.append(CasePair(old, case))
    if not any(pair.base for pair in pairs):
        raise DataError(
            f"no case is in both results (base has {_names(base)}; new has {_names(new)}): compare runs of the same "
            "scenarios"
        )
    return pairs + [CasePair(case, None) for case in gone]


def _take_renamed(gone: list[ComparableCase], case: ComparableCase) -> ComparableCase | None:
    """Removes a case of the same workload from those that are gone, where there is exactly one."""
    if not case.identity:
        return None
    wanted = workload_params(case.identity)
    alike = [old for old in gone if workload_params(old.identity) == wanted]
    if len(alike) != 1:
        return None
    gone.remove(alike[0])
    return alike[0]


def _refuse_other_workload(base: ComparableCase, new: ComparableCase) -> None:
    difference = workload_difference(base.identity, new.identity)
    if difference is not None:
        raise DataError(
            f"case {new.case_id}: the workloads differ ({difference}): nothing can be compared; measure both with the "
            "same scenario and options"
        )


def match_legs(base: ComparableCase, new: ComparableCase) -> list[LegPair]:
    """Matches directions by name, in the order of the new case, then those that are missing from it."""
    old = {leg.name: leg for leg in base.legs}
    young = {leg.name: leg for leg in new.legs}
    return [LegPair(old.get(name), young.get(name)) for name in {**young, **old}]


def _names(cases: Sequence[ComparableCase]) -> str:
    return ", ".join(case.case_id for case in cases) or "none"
