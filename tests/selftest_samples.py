"""Self-tests made up for tests: process rounds with as much noise and as little effect as is asked for."""

from __future__ import annotations

import numpy as np

from ecbench.core.records import Fault, RunResult
from ecbench.core.selftest_records import InjectedFault, ProcessRound, SelftestCase
from ecbench.stats.alpha_spending import LookSchedule
from ecbench.stats.error_rates import DELAYS, PROMISES, with_rates
from tests.comparison_samples import ENVIRONMENT

DIRECTIONS = ("save", "load")


def process_rounds(*, turns=24, noise=0.02, effect=1.0, delays=DELAYS, rounds=5, seed=0):
    """Process rounds that differ by `noise` (sd of the logarithm); delays act with a factor of `effect`."""
    draw = np.random.default_rng(seed)
    made = []
    for turn in range(turns):
        for place, delay in enumerate((0.0, 0.0, *delays)):
            level = np.log1p(effect * delay) + draw.normal(0, noise)
            totals = {name: (1e-3 * np.exp(level + draw.normal(0, 0.01, rounds))).tolist() for name in DIRECTIONS}
            made.append(ProcessRound(turn=turn, place=place, delay=delay, totals_s=totals))
    return made


def injected_fault(fault=Fault.SWAPPED, direction="save", **changes):
    fields = {"injected": True, "found": True, "named": fault, "counts": {fault.value: 2}}
    return InjectedFault(fault=fault, direction=direction, **{**fields, **changes})


def selftest_case(*, rounds=None, faults=None, pairs=10, repeats=200):
    return with_rates(
        SelftestCase(
            case_id="tiny/example",
            workload="ec",
            params={"model": "example"},
            pairs=pairs,
            looks=list(LookSchedule.up_to(pairs).rounds),
            repeats=repeats,
            seed=0,
            promises=PROMISES,
            process_rounds=process_rounds() if rounds is None else rounds,
            faults=[injected_fault()] if faults is None else faults,
        )
    )


def selftest_result(*cases, **changes):
    fields = {
        "schema_version": 1,
        "kind": "selftest",
        "started_at": "2026-01-02T03:04:05+00:00",
        "environment": ENVIRONMENT,
        "settings": {"seed": 0},
        "cases": list(cases),
    }
    return RunResult(**{**fields, **changes})
