"""One command for a machine with a GPU: ``python -m tests.device`` (``make test-device``).

Needs torch >= 2.9, NumPy and what ecbench itself needs; no test framework. Exit codes: 0 all right, 1 a check failed or
a byte was wrong, 3 no accelerator.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from ecbench.core.errors import EcbenchError, ExitCode, UnavailableError
from ecbench.core.records import SCHEMA_VERSION, LegStatus, RunResult, to_json
from ecbench.engine.copy_engines.auto_accelerator import AutoAcceleratorEngine
from ecbench.engine.machine import describe_environment
from ecbench.engine.registry import ENGINES, kind_of, open_device, open_engine, why_unavailable
from ecbench.report.files import write_result_files
from tests.device.checks import CHECKS, pageable_outcomes, run_check, second_device_outcomes
from tests.device.grid import cells, measure_cell
from tests.device.report import render

GRID_DEADLINE_S = 200.0
"""From the start; later cells are skipped, so that checks and grid together stay below four minutes."""


def run(device, engine_names, say):
    """Runs every check and every cell.

    Args:
        device: The GPU.
        engine_names: Those that run here.
        say: Takes one line of progress.

    Returns:
        The grid as a RunResult, and the outcomes of the checks.
    """
    began = time.perf_counter()
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    engines = {name: open_engine(name, device) for name in engine_names}
    outcomes = []
    for engine in (*engines.values(), AutoAcceleratorEngine(kind_of(device), engines.get)):
        for check in CHECKS:
            outcomes.append(run_check(check, device, engine))
            say(f"{outcomes[-1].name}: {outcomes[-1].problem or 'ok'}")
    outcomes += pageable_outcomes(device, engine_names) + second_device_outcomes(device, engine_names)
    cases = []
    for cell in cells(engine_names):
        cases.append(measure_cell(cell, device, engines[cell.engine], began + GRID_DEADLINE_S))
        say(f"{cell.case_id}: {', '.join(leg.status.value for leg in cases[-1].legs)}")
    result = RunResult(
        schema_version=SCHEMA_VERSION,
        kind="device-run",
        started_at=started_at,
        environment=describe_environment(device),
        settings={"engines": list(engine_names)},
        cases=cases,
        stages_s={"total": time.perf_counter() - began},
    )
    return result, outcomes


def exit_code(result, outcomes):
    """1 where anything went wrong."""
    bad = {LegStatus.FAILED, LegStatus.ERROR}
    wrong = any(leg.status in bad for case in result.cases for leg in case.legs)
    return ExitCode.CHECK_FAILED if wrong or any(outcome.problem for outcome in outcomes) else ExitCode.OK


def _say(line):
    sys.stderr.write(f"{line}\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.device", description="Checks and measures the GPU here.")
    parser.add_argument("--device", default="auto", help="auto, cuda[:N] or xpu[:N]")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="folder for the JSON and the Markdown")
    options = parser.parse_args(arguments)
    try:
        device = open_device(options.device)
        if kind_of(device) in {"cpu", "xpu-sim"}:
            raise UnavailableError("torch sees no accelerator: run this on a machine with a GPU")
    except EcbenchError as error:
        _say(f"device tests: {error}")
        return int(error.exit_code)
    names = [name for name in ENGINES if why_unavailable(name, device) is None]
    for name in ENGINES:
        _say(f"engine {name}: {why_unavailable(name, device) or 'runs here'}")
    result, outcomes = run(device, names, _say)
    text = render(result, outcomes, kind_of(device))
    sys.stdout.write(text)
    stem = f"device-run-{result.started_at.replace(':', '').replace('+0000', 'Z')}"
    paths = write_result_files(options.out, stem, {".json": to_json(result), ".md": text.encode()})
    _say(f"written: {', '.join(map(str, paths))}; {result.stages_s['total']:.0f} s")
    return int(exit_code(result, outcomes))


if __name__ == "__main__":
    sys.exit(main())
