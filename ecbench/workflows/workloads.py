"""The workloads that a round trip can have. To add one: a scenario's ``workload`` name, and an entry in `WORKLOADS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ecbench.core.errors import unknown_name
from ecbench.encoder_cache.workloads.models import encoder_models
from ecbench.kv_offload.models.loading import model_names
from ecbench.workflows import encoder_cache_case, kv_case

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ecbench.core.protocols import Device
    from ecbench.core.records import Param
    from ecbench.measure.rounds import MeasuredCopy
    from ecbench.targets.protocol import Target
    from ecbench.workflows.memory import MemoryNeed
    from ecbench.workflows.round_trip import RoundTripOptions
    from ecbench.workflows.scenarios import ScenarioFile


class RoundTripScenario(Protocol):
    """What every scenario file says."""

    @property
    def workload(self) -> str:
        """A name in `WORKLOADS`."""

    @property
    def rounds(self) -> int:
        """Rounds that count."""

    @property
    def coalesce(self) -> bool:
        """Joins copies that continue each other."""


class RoundTripCase(Protocol):
    """One round trip, checked and ready to be opened."""

    @property
    def case_id(self) -> str:
        """Names it in a result."""

    @property
    def scenario(self) -> RoundTripScenario:
        """Where it comes from."""

    @property
    def seed(self) -> int:
        """Decides content and placement."""

    @property
    def params(self) -> dict[str, Param]:
        """What identifies it when results are compared."""


@dataclass(frozen=True)
class Workload:
    """What a round trip needs to know of a workload.

    Args:
        load_case: Checks a scenario file and applies the command line.
        memory_need: What a case will take on a target.
        open_case: Allocates a case and yields its directions.
        default_scenarios: What runs when no scenario is named.
        model_names: Models that have a name.
    """

    load_case: Callable[[ScenarioFile, RoundTripOptions], RoundTripCase]
    memory_need: Callable[[Any, Device, Target], MemoryNeed]
    open_case: Callable[[Any, Device, Target], AbstractContextManager[list[MeasuredCopy]]]
    default_scenarios: tuple[str, ...]
    model_names: Callable[[], tuple[str, ...]]


WORKLOADS: dict[str, Workload] = {
    "ec": Workload(
        load_case=encoder_cache_case.load_case,
        memory_need=encoder_cache_case.memory_need,
        open_case=encoder_cache_case.open_case,
        default_scenarios=("ec-image-set", "ec-churned", "ec-deepstack"),
        model_names=lambda: tuple(encoder_models()),
    ),
    "dsv4": Workload(
        load_case=kv_case.load_case,
        memory_need=kv_case.memory_need,
        open_case=kv_case.open_case,
        default_scenarios=("kv-dsv4-flash", "kv-dsv4-per-layer"),
        model_names=model_names,
    ),
}
ALL_WORKLOADS = "all"
WORKLOAD_NAMES: tuple[str, ...] = (*WORKLOADS, ALL_WORKLOADS)


def workload_of(case: RoundTripCase) -> Workload:
    """The workload that a case belongs to."""
    return WORKLOADS[case.scenario.workload]


def default_scenarios(workload: str, model: str | None) -> tuple[str, ...]:
    """What runs when no scenario is named.

    Args:
        workload: One of `WORKLOAD_NAMES`; of all of them, those take part that know the model.
        model: What the scenarios' models are to be replaced with.

    Raises:
        EcbenchError: An unknown workload, or a model that no workload knows; the message lists the choices.
    """
    if workload not in WORKLOAD_NAMES:
        raise unknown_name("workload", workload, WORKLOAD_NAMES)
    if workload != ALL_WORKLOADS:
        return WORKLOADS[workload].default_scenarios
    chosen = [entry for entry in WORKLOADS.values() if model is None or model in entry.model_names()]
    if not chosen:
        known = [name for entry in WORKLOADS.values() for name in entry.model_names()]
        raise unknown_name("model", str(model), known)
    return tuple(name for entry in chosen for name in entry.default_scenarios)
