"""Holds the sweep and its cost model against their targets, on the CPU device.

    python benchmarks/sweep_model.py            everything, about five minutes
    python benchmarks/sweep_model.py recovery   one section: recovery, held-out, own-time or scenarios

Times depend on what else the machine does; run it alone. Exit code 1 where a target is missed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ecbench.measure.stages import StageClock
from ecbench.report.sweep_figures import crossover_lines, fit_remarks, fit_row
from ecbench.stats.cost_model import Observation, fit_model
from ecbench.workflows.scenarios import SWEEP, shipped_workload
from ecbench.workflows.sweep import SweepOptions, prepare_sweep, run_sweep, start_journal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecbench.core.sweep_records import SweepResult

Row = tuple[str, float, str, float]
"""What, measured, '>=' or '<=', target."""

SCENARIO = "ec-block-size"
KIB = 1024
MEASURING = ("content", "ceiling", "poison", "fill", "submit", "copy", "verify")
"""What a round is made of. All other time of the rounds is the sweep's own: waiting for the journal to be on disk,
plans, choosing cells, adding up. Where the disk is busy with others, most of it is the disk."""
OUTSIDE_ROUNDS = ("imports", "open", "model")
_results: dict[str, tuple[SweepResult, float]] = {}


def _run(scenario: str) -> tuple[SweepResult, float]:
    """Runs a scenario once; sections share the result."""
    if scenario not in _results:
        began = time.perf_counter()
        sweep = prepare_sweep(SweepOptions(scenario=scenario, device="cpu"))
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, start_journal(sweep, Path(folder)) as journal:
            result = run_sweep(sweep, journal, StageClock(), lambda _: None)
        _results[scenario] = result, time.perf_counter() - began
    return _results[scenario]


def recovery() -> Iterator[Row]:
    """A synthetic engine with known constants and 2% of noise."""
    draw, worst = np.random.default_rng(0), 0.0
    for fixed_s, descriptor_s, bandwidth in ((20e-6, 2e-6, 25e9), (60e-6, 50e-9, 12e9), (120e-6, 1e-6, 9e9)):
        cells = []
        for size in (KIB << power for power in range(9)):
            for count in (1 << power for power in range(13)):
                seconds = fixed_s + count * descriptor_s + count * size / bandwidth
                noisy = seconds * float(np.exp(0.02 * draw.standard_normal()))
                cells.append(Observation("cell", count, count * size, noisy))
        found = fit_model(cells).constants
        truth = np.array([fixed_s, descriptor_s, 1 / bandwidth])
        worst = max(worst, float(np.abs(found / truth - 1).max()))
    yield "known constants, largest error of any", worst, "<=", 0.05


def held_out() -> Iterator[Row]:
    """Cells that took no part in the fit that predicts them."""
    result, _ = _run(SCENARIO)
    for fit in result.fits:
        print("   ", "  ".join(fit_row(fit)))
    for line in (*fit_remarks(result), *crossover_lines(result)):
        print(f"    - {line}")
    errors = [fit.held_out_error for fit in result.fits if fit.held_out_error is not None]
    yield f"{SCENARIO}: median error of held-out cells, median over {len(errors)} fits", median(errors), "<=", 0.2


def own_time() -> Iterator[Row]:
    """Journal, plans and bookkeeping against the rounds themselves."""
    for scenario in (SCENARIO, "ec-fragmentation"):
        result, _ = _run(scenario)
        rounds = {name: seconds for name, seconds in result.stages_s.items() if name not in OUTSIDE_ROUNDS}
        own = sum(seconds for name, seconds in rounds.items() if name not in MEASURING) - _timed_rest_s(result)
        print("   ", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in rounds.items()))
        yield (
            f"{scenario}: share of the rounds' time that is the sweep's own",
            own / sum(rounds.values()),
            "<=",
            0.05,
        )


def _timed_rest_s(result: SweepResult) -> float:
    """Time of the timed copies that is neither fill nor submit nor copy: giving buffers back. Warm-ups count too."""
    rest_s = 0.0
    for leg in (leg for case in result.cases for leg in case.legs if leg.samples):
        counted = sum(one.total_s - one.fill_s - one.submit_s - one.copy_s for one in leg.samples)
        rest_s += counted * (len(leg.samples) + 1) / len(leg.samples)
    return rest_s


def scenarios() -> Iterator[Row]:
    """Every shipped sweep as it is."""
    for name in shipped_workload(SWEEP):
        result, seconds = _run(name)
        yield f"{name}: {len(result.cases)} cells, s", seconds, "<=", 120


SECTIONS = {"recovery": recovery, "held-out": held_out, "own-time": own_time, "scenarios": scenarios}


def main() -> int:
    """Prints every row and counts what was missed."""
    missed = 0
    for name in sys.argv[1:] or list(SECTIONS):
        print(name)
        for what, value, relation, target in SECTIONS[name]():
            met = value >= target if relation == ">=" else value <= target
            missed += not met
            print(f"  {'ok    ' if met else 'MISSED'} {value:8.3g} {relation} {target:<5g} {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
