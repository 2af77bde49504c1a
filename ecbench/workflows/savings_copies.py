"""The store and the load of a planned prompt as measured copies, with the skip and without it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import DoesNotFitError, EcbenchError, UnavailableError
from ecbench.core.records import LegResult, LegStatus
from ecbench.core.savings_records import MeasuredSample
from ecbench.engine.registry import open_device
from ecbench.kv_offload import plan_load
from ecbench.kv_offload.device_blocks import KvLayout
from ecbench.kv_offload.sampling import sample_chunks
from ecbench.measure.rounds import WARM_UP_ROUNDS, measure_rounds
from ecbench.targets.registry import REFERENCE, open_target
from ecbench.transfer.shared_region import shm_free_bytes
from ecbench.transfer.writers import DEFAULT_WRITER
from ecbench.workflows.kv_case import open_kv_copies
from ecbench.workflows.leg_notes import with_notes
from ecbench.workflows.savings_case import without_skip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ecbench.core.protocols import Device
    from ecbench.core.records import Environment, Param
    from ecbench.core.savings_records import SavingsCase
    from ecbench.kv_offload import GroupLoad, OffloadPlan
    from ecbench.measure.stages import StageClock
    from ecbench.targets.protocol import Target
    from ecbench.workflows.kv_case import KvCopies

STORE = "store"
DIRECTIONS = (STORE, "load")
MAX_ROUNDS = 30
"""More tell nothing new about a copy; what is left of the budget is given back."""
LEAST_ROUNDS = 3
"""Rounds that count, however short the budget."""
_PLANNED_ROUNDS = 10
"""The budget has room for so many: seven that count, a warm-up, and two for setting up; samples are sized by it."""
_ROUND_BYTES_PER_S = 1.7e9
"""Memory filled, copied and verified in a second by one round, on two cores of an AMD EPYC (Zen 3)."""
_LEAST_BYTES = 64 << 20


@dataclass(frozen=True)
class CopyMeasurement:
    """How copies are measured.

    Args:
        engine: Registered name.
        writer: Registered name.
        layout: How caches lie on the device.
        budget_s: Seconds for all cases together.
        memory_limit_bytes: Memory for the buffers of a case, with the skip and without.
        seed: Decides content and where blocks lie.
    """

    engine: str = "auto"
    writer: str = DEFAULT_WRITER
    layout: KvLayout = KvLayout.PACKED
    budget_s: float = 20.0
    memory_limit_bytes: int = 1 << 30
    seed: int = 0

    def as_settings(self) -> dict[str, Param]:
        """As the result keeps it."""
        return {
            "engine": self.engine,
            "writer": self.writer,
            "layout": self.layout.value,
            "budget_s": self.budget_s,
            "memory_limit_bytes": self.memory_limit_bytes,
            "seed": self.seed,
        }


@dataclass(frozen=True, eq=False)
class CopyBench:
    """A device and an engine, ready to measure planned prompts.

    Args:
        how: What was asked for.
        device: Opened.
        target: The reference, with its engine and its writer.
    """

    how: CopyMeasurement
    device: Device
    target: Target

    @classmethod
    def open(cls, how: CopyMeasurement, device_name: str) -> CopyBench:
        """Opens what measuring needs.

        Raises:
            EcbenchError: An unknown name (exit 2) or something that is not here (exit 3).
        """
        device = open_device(device_name)
        return cls(how, device, open_target(REFERENCE, device, engine=how.engine, writer=how.writer))

    def refuse_too_little_memory(self, plan: OffloadPlan) -> None:
        """Finds out before anything runs whether the memory limit has room for a chunk of every group.

        Raises:
            DoesNotFitError: It has not.
        """
        sample_chunks(plan, plan_load(plan, 0), self.how.layout, self.how.memory_limit_bytes // 2)

    def measure(
        self, case: SavingsCase, plan: OffloadPlan, budget_s: float, environment: Environment, clock: StageClock
    ) -> SavingsCase:
        """Copies a sample of a prompt's chunks, round by round in turn with one of all its chunks.

        Args:
            case: What was planned.
            plan: Likewise.
            budget_s: Seconds to spend; at least `LEAST_ROUNDS` are run.
            environment: Where it runs.
            clock: Takes the time of each stage.

        Returns:
            The case with its legs; those that cannot be measured are skipped, with the reason.
        """
        deadline_s = time.monotonic() + budget_s
        try:
            loads = plan_load(plan, case.replay_hit_tokens)
            max_bytes = self._side_bytes(plan, loads, budget_s)
            with (
                self._opened(plan, loads, max_bytes) as stored,
                self._opened(without_skip(plan), loads, max_bytes) as full,
            ):
                legs = self._rounds(case, stored, full, deadline_s, clock)
        except UnavailableError:
            raise
        except EcbenchError as error:
            return msgspec.structs.replace(case, legs=[_skipped(direction, str(error)) for direction in DIRECTIONS])
        noted = [with_notes(leg, environment, self.device) for leg in legs]
        return _with_legs(case, noted, stored, full)

    def _side_bytes(self, plan: OffloadPlan, loads: tuple[GroupLoad, ...], budget_s: float) -> int:
        """Memory of either side, with the skip and without: what the budget has time for, within the limit."""
        limit = min(self.how.memory_limit_bytes, shm_free_bytes())
        affordable = int(budget_s / _PLANNED_ROUNDS * _ROUND_BYTES_PER_S)
        side = min(limit, max(affordable, _LEAST_BYTES)) // 2
        try:
            sample_chunks(plan, loads, self.how.layout, side)
        except DoesNotFitError:
            return limit // 2
        return side

    def _opened(
        self, plan: OffloadPlan, loads: tuple[GroupLoad, ...], max_bytes: int
    ) -> AbstractContextManager[KvCopies]:
        return open_kv_copies(
            plan,
            loads,
            device=self.device,
            target=self.target,
            layout=self.how.layout,
            seed=self.how.seed,
            max_bytes=max_bytes,
        )

    def _rounds(
        self, case: SavingsCase, stored: KvCopies, full: KvCopies, deadline_s: float, clock: StageClock
    ) -> list[LegResult]:
        copies = [*stored.copies, *(copy for copy in full.copies if copy.direction == STORE)]
        legs: list[LegResult] = []
        steps = measure_rounds(copies, rounds=MAX_ROUNDS, seed=self.how.seed, label=case.case_id, clock=clock)
        before_s = time.monotonic()
        for done, legs in enumerate(steps, 1 - WARM_UP_ROUNDS):  # noqa: B007 - the last one is the result
            now_s = time.monotonic()
            if done >= LEAST_ROUNDS and now_s + (now_s - before_s) > deadline_s:
                break
            before_s = now_s
        return legs


def _with_legs(case: SavingsCase, legs: list[LegResult], stored: KvCopies, full: KvCopies) -> SavingsCase:
    cut = len(stored.copies)
    by_direction = {leg.direction: leg for leg in legs[:cut]}
    notes = [f"{name}, {note}" for name, note in _named_notes(stored, full)]
    return msgspec.structs.replace(
        case,
        legs=[by_direction.get(direction) or _skipped(direction, "nothing to move") for direction in DIRECTIONS],
        legs_without_skip=legs[cut:],
        sample=MeasuredSample(
            store_fraction=stored.sampled_fraction,
            load_fraction=stored.loaded_fraction,
            store_fraction_without_skip=full.sampled_fraction,
            notes=notes,
        ),
    )


def _named_notes(stored: KvCopies, full: KvCopies) -> Iterator[tuple[str, str]]:
    for name, copies in (("with the skip", stored), ("without it", full)):
        if copies.sample_note is not None:
            yield name, copies.sample_note


def _skipped(direction: str, reason: str) -> LegResult:
    return LegResult(direction=direction, status=LegStatus.SKIPPED, reason=reason)
