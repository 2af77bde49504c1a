"""Holds the reference's KV offload worker against the installed vLLM's, side by side in one run.

    make .venv-vllm/.installed && .venv-vllm/bin/python benchmarks/vllm_kv_offload.py

Writing and handing over the descriptors of the shipped KV scenarios, per job and per descriptor. Both targets get the
same blocks and slots, and their jobs take turns. Copies run, and are left out of what is shown; ``roundtrip --target
both`` checks their bytes. The reference's batches are shown as they are merged and as vLLM has them, one per page.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from ecbench.engine.registry import open_device
from ecbench.kv_offload.placement import place_transfers
from ecbench.kv_offload.sampling import sample_chunks
from ecbench.targets.registry import open_target
from ecbench.workflows.kv_case import load_case
from ecbench.workflows.round_trip import RoundTripOptions
from ecbench.workflows.scenarios import read_scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.descriptors import CopyTimes
    from ecbench.core.protocols import Device

SCENARIOS = ("kv-dsv4-flash", "kv-dsv4-per-rank", "kv-dsv4-per-layer")
ROUNDS = 100
WARM_UP_ROUNDS = 3
MICROSECONDS = 1e6


@dataclass
class Side:
    """One way to run a job, and how it went.

    Args:
        name: As the table has it.
        job: Runs a store or a load.
    """

    name: str
    job: Callable[[], CopyTimes]
    times: list[CopyTimes] = field(default_factory=list)

    @property
    def descriptors(self) -> int:
        """Of one job."""
        return self.times[-1].descriptors

    def median_us(self, part: str) -> float:
        """Median of ``fill_s`` or ``submit_s`` over the rounds, in microseconds."""
        return median(getattr(times, part) for times in self.times) * MICROSECONDS


def open_sides(name: str, device: Device, stack: ExitStack) -> dict[str, list[Side]]:
    """Opens a scenario on both targets.

    Args:
        name: Of a shipped scenario.
        device: Holds the caches.
        stack: Closes what is opened.
    """
    case = load_case(read_scenario(name), RoundTripOptions())
    sample = sample_chunks(case.plan, case.loads, case.scenario.layout, None)
    placed = place_transfers(sample, case.scenario.block_order, seed=0)
    caches = device.empty(placed.memory.device.nbytes)
    sides: dict[str, list[Side]] = {"store": [], "load": []}
    for title, target, coalesce in (
        ("reference, merged", "reference", True),
        ("reference, per page", "reference", False),
        ("vllm", "vllm", True),
    ):
        session = open_target(target, device).open_kv_offload(placed, caches, device=device, coalesce=coalesce)
        stack.callback(session.close)
        sides["store"].append(Side(title, session.store))
        sides["load"].append(Side(title, session.load))
    return sides


def show(name: str, device: Device) -> None:
    """Measures a scenario and prints its rows."""
    with ExitStack() as stack:
        sides = open_sides(name, device, stack)
        for number in range(WARM_UP_ROUNDS + ROUNDS):
            for side in (*sides["store"], *sides["load"]):
                times = side.job()
                if number >= WARM_UP_ROUNDS:
                    side.times.append(times)
        for leg, rows in sides.items():
            for side in rows:
                fill, submit = side.median_us("fill_s"), side.median_us("submit_s")
                count = side.descriptors
                print(
                    f"{name:18} {leg:6} {side.name:20} {count:6} {fill:9.1f} {submit:9.1f} "
                    f"{fill / count:9.3f} {submit / count:9.3f}"
                )


def main() -> None:
    """Measures every scenario."""
    device = open_device("cpu")
    print("medians in microseconds, per job and per descriptor")
    print(
        f"{'scenario':18} {'leg':6} {'worker':20} {'descr.':>6} {'fill':>9} {'submit':>9} {'fill/d':>9} {'submit/d':>9}"
    )
    for name in SCENARIOS:
        show(name, device)


if __name__ == "__main__":
    sys.exit(main())
