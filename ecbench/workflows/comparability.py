"""When two results may be compared: the rules as a table, and what they say of two environments, cases and legs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ecbench.core.comparison_records import DifferenceEffect, EnvironmentDifference
from ecbench.core.errors import unknown_name
from ecbench.engine.diagnostics.device_runs import UNVERIFIED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ecbench.core.records import Environment, Param
    from ecbench.workflows.comparable import ComparableLeg

MEMORY_STEP_BYTES = 2 << 30
"""Machines of one class report memory that differs by what their kernels and firmware keep."""


_VLLM = "vllm"


class _Rule(NamedTuple):
    """One attribute of an environment.

    Args:
        name: How a user reads it, and names it as the thing under test.
        read: Takes it from an environment.
        refuses_times: Times depend on it.
        may_be_tested: A user may say that it is the thing under test.
    """

    name: str
    read: Callable[[Environment], Param]
    refuses_times: bool
    may_be_tested: bool


RULES: tuple[_Rule, ...] = (
    # The machine's class.
    _Rule("device", lambda env: env.device.partition(":")[0], refuses_times=True, may_be_tested=False),
    _Rule("device name", lambda env: env.device_name, refuses_times=True, may_be_tested=False),
    _Rule("host CPU", lambda env: env.host_cpu, refuses_times=True, may_be_tested=False),
    _Rule("host cores", lambda env: env.host_cpus, refuses_times=True, may_be_tested=False),
    _Rule(
        "host memory",
        lambda env: f"about {round(env.host_memory_bytes / MEMORY_STEP_BYTES) * MEMORY_STEP_BYTES >> 30} GiB",
        refuses_times=True,
        may_be_tested=False,
    ),
    _Rule("last-level cache", lambda env: env.last_level_cache_bytes, refuses_times=True, may_be_tested=False),
    # How the memory is reached, and by what.
    _Rule("driver", lambda env: env.driver, refuses_times=True, may_be_tested=True),
    _Rule("pinning", lambda env: env.pinning, refuses_times=True, may_be_tested=False),
    _Rule("emulation", lambda env: env.emulation, refuses_times=True, may_be_tested=False),
    _Rule("stand-ins", lambda env: ", ".join(env.stand_ins) or None, refuses_times=True, may_be_tested=False),
    # Software: vLLM's connectors and torch move the bytes; the others only stand around them.
    _Rule(_VLLM, lambda env: env.vllm, refuses_times=True, may_be_tested=True),
    _Rule("torch", lambda env: env.torch, refuses_times=True, may_be_tested=True),
    _Rule("ecbench", lambda env: env.ecbench, refuses_times=False, may_be_tested=True),
    _Rule("numpy", lambda env: env.numpy, refuses_times=False, may_be_tested=True),
    _Rule("python", lambda env: env.python, refuses_times=False, may_be_tested=True),
    _Rule("kernel", lambda env: env.kernel, refuses_times=False, may_be_tested=True),
)
UNDER_TEST_NAMES: tuple[str, ...] = tuple(rule.name for rule in RULES if rule.may_be_tested)

PATH_PARAMS = frozenset({"engine", "writer"})
"""Parameters of a case that name a path: other ones move the same bytes, in another time."""
MEASURING_PARAMS = frozenset({"rounds"})
"""Parameters of a case that say how long to measure: results of any may be compared."""


def environment_differences(
    base: Environment, new: Environment, under_test: Collection[str] = ()
) -> list[EnvironmentDifference]:
    """All that differs, and what it does to the comparison.

    Args:
        base: Of the old result.
        new: Of the new one.
        under_test: Names of `UNDER_TEST_NAMES` that are meant to differ.

    Raises:
        EcbenchError: A name that cannot be under test.
    """
    for name in under_test:
        if name not in UNDER_TEST_NAMES:
            raise unknown_name("thing under test", name, UNDER_TEST_NAMES)
    return [
        EnvironmentDifference(
            name=rule.name,
            base=rule.read(base),
            new=rule.read(new),
            effect=_effect(rule, base, new, under_test),
        )
        for rule in RULES
        if rule.read(base) != rule.read(new)
    ]


def _effect(rule: _Rule, base: Environment, new: Environment, under_test: Collection[str]) -> DifferenceEffect:
    if rule.name in under_test:
        return DifferenceEffect.UNDER_TEST
    if rule.name == _VLLM and None in {rule.read(base), rule.read(new)}:
        # Its cases are missing from the other result; what both have did not depend on it.
        return DifferenceEffect.SAID
    return DifferenceEffect.TIMES_REFUSED if rule.refuses_times else DifferenceEffect.SAID


def times_refusal(differences: Collection[EnvironmentDifference]) -> str | None:
    """Why no times are compared, in words; None where they are."""
    refusing = [entry for entry in differences if entry.effect is DifferenceEffect.TIMES_REFUSED]
    if not refusing:
        return None
    return "not comparable: " + "; ".join(f"{entry.name} {entry.base} and {entry.new}" for entry in refusing)


def workload_params(params: Mapping[str, Param]) -> dict[str, Param]:
    """The parameters that decide which bytes go where."""
    return {name: value for name, value in params.items() if name not in PATH_PARAMS | MEASURING_PARAMS}


def workload_difference(base: Mapping[str, Param], new: Mapping[str, Param]) -> str | None:
    """The first difference between the workloads of two cases, in words; None where they are the same."""
    old, young = workload_params(base), workload_params(new)
    name = next((name for name in {**old, **young} if old.get(name) != young.get(name)), None)
    return None if name is None else f"{name} is {old.get(name)} and {young.get(name)}"


def path_difference(base: ComparableLeg, new: ComparableLeg) -> str | None:
    """How the paths of two legs differ, in words; None where they are the same.

    Notes tell fallbacks and detours, so they are a part of the path; those about evidence are none.
    """
    for name, old, young in (("engine", base.engine, new.engine), ("writer", base.writer, new.writer)):
        if old != young:
            return f"{name} {old} and {young}"
    for side, notes in (("base", _path_notes(base) - _path_notes(new)), ("new", _path_notes(new) - _path_notes(base))):
        if notes:
            return f"only {side} has the note {min(notes)!r}"
    return None


def _path_notes(leg: ComparableLeg) -> set[str]:
    return {note for note in leg.notes if not note.startswith(UNVERIFIED)}
