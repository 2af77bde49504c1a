"""Which scenarios a stored baseline is of, so that a gate need not be told again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ecbench.core.errors import ScenarioError
from ecbench.targets.registry import BOTH, REFERENCE
from ecbench.workflows.scenarios import read_scenario, shipped_names

if TYPE_CHECKING:
    from ecbench.core.records import RoundTripResult
    from ecbench.workflows.round_trip import RoundTripOptions


class _Origin(NamedTuple):
    """What the name of a case tells: ``SCENARIO/MODEL``, and ``@TARGET`` where it is not the reference."""

    scenario: str
    model: str
    target: str


def options_for(baseline: RoundTripResult, where: str, asked: RoundTripOptions) -> RoundTripOptions:
    """Asks for the baseline's own scenarios, with the model and the target they were run with.

    Args:
        baseline: The stored result.
        where: Its file, for messages.
        asked: What the user asks for. Named scenarios, another model or another target are not touched.

    Raises:
        ScenarioError: A case comes from a file that is not shipped, or not from its scenario's own model.
    """
    if asked.scenarios:
        return asked
    origins = [_origin_of(case.case_id, where) for case in baseline.cases]
    return replace(
        asked,
        scenarios=tuple(dict.fromkeys(origin.scenario for origin in origins)),
        model=asked.model or _common_override(origins, where),
        target=_target_of(origins) if asked.target == REFERENCE else asked.target,
    )


def _origin_of(case_id: str, where: str) -> _Origin:
    scenario, _, rest = case_id.partition("/")
    if scenario not in shipped_names():
        raise ScenarioError(f"{where}: case {case_id} is of no shipped scenario: name the scenarios of the baseline")
    model, _, target = rest.partition("@")
    return _Origin(scenario, model, target or REFERENCE)


def _target_of(origins: list[_Origin]) -> str:
    targets = {origin.target for origin in origins}
    return BOTH if len(targets) > 1 else min(targets, default=REFERENCE)


def _common_override(origins: list[_Origin], where: str) -> str | None:
    """The model that replaced those of the scenarios; None where every scenario has its own."""
    replaced = [origin for origin in origins if read_scenario(origin.scenario).table.get("model") != origin.model]
    if not replaced:
        return None
    models = {origin.model for origin in origins}
    if len(models) > 1:
        case = f"{replaced[0].scenario}/{replaced[0].model}"
        raise ScenarioError(f"{where}: case {case} has not its scenario's model: name the scenarios and --model")
    return models.pop()
