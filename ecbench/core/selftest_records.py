"""Results of ``selftest`` as they are kept: what the gate and the verifier do on this machine."""

from __future__ import annotations

import msgspec

from ecbench.core.records import Fault, Param, Record, RunResult


class ProcessRound(Record, frozen=True, kw_only=True):
    """All that one process measured: the unit of the gate's statistics."""

    turn: int
    """Every turn runs the unchanged copy twice and each slowdown once; numbered from 0."""
    place: int
    """Position within its turn, from 0."""
    delay: float
    """Injected in the copy, as a share of a round's time; 0 where nothing was changed."""
    totals_s: dict[str, list[float]]
    """`Sample.total_s` of each round that counts, by direction."""


class ErrorRate(Record, frozen=True, kw_only=True):
    """How often something happened."""

    count: int
    of: int
    share: float
    low: float
    """Ends of the 95% interval (Clopper and Pearson), for trials that are independent."""
    high: float


class GateRates(Record, frozen=True, kw_only=True):
    """What the gate does at one threshold with one slowdown."""

    threshold: float
    delay: float
    """Injected; 0 gives false alarms."""
    failed: ErrorRate
    """Re-paired repeats in which the gate failed."""
    inconclusive: ErrorRate
    """Re-paired repeats in which it did not fail and could not tell."""
    failed_apart: ErrorRate
    """Gates among those that share no process round."""


class DelayEffect(Record, frozen=True, kw_only=True):
    """What an injected delay did to the times of one direction."""

    delay: float
    direction: str
    slowdown: float
    """Median over turns of the time with the delay over the time without it, minus 1."""


class InjectedFault(Record, frozen=True, kw_only=True):
    """A byte fault that was made on purpose."""

    fault: Fault
    """What was done to the memory."""
    direction: str
    injected: bool
    """False where the memory of this scenario has no room for it."""
    found: bool
    named: Fault | None
    """The class that verification gave it."""
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    """Descriptors per class."""


class Promises(Record, frozen=True, kw_only=True):
    """What the gate is held to."""

    threshold: float
    """The one that gates have unless told otherwise."""
    false_alarms: float
    """Most gates of unchanged copies that fail at any threshold, by design."""
    recommended_false_alarms: float
    """Most of them that fail at a threshold that is recommended."""
    recommended_power: float
    """Least share of gates that find a delay of twice such a threshold."""


class SelftestCase(Record, frozen=True, kw_only=True):
    """One scenario: its process rounds, its faults, and the error rates that follow."""

    case_id: str
    workload: str
    params: dict[str, Param]
    pairs: int
    """Pairs of process rounds in each gate that was tried out."""
    looks: list[int]
    """Pairs after which a gate looks at its data."""
    repeats: int
    """Re-paired gates for each figure."""
    seed: int
    """Decides the order of runs, the faults and the re-pairing."""
    promises: Promises
    process_rounds: list[ProcessRound]
    faults: list[InjectedFault]
    turns: int = 0
    """Complete turns."""
    effects: list[DelayEffect] = msgspec.field(default_factory=list)
    rates: list[GateRates] = msgspec.field(default_factory=list)
    cries_wolf: bool = False
    """More gates of unchanged copies failed at the usual threshold than was promised, beyond chance."""
    recommended_threshold: float | None = None
    """Null where no threshold of the ladder fits."""


SelftestResult = RunResult[SelftestCase]
