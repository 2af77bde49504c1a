from __future__ import annotations

import numpy as np
import pytest

from ecbench.core.copy_plan import CopyPlan
from ecbench.core.descriptors import CopyTimes
from ecbench.core.errors import CopyRefusedError
from ecbench.core.records import Fault, LegStatus
from ecbench.measure.memory import HostMemory
from ecbench.measure.rounds import REMEMBERED_ROUNDS, WARM_UP_ROUNDS, MeasuredCopy, measure_rounds
from ecbench.measure.stages import StageClock

PLAN = CopyPlan([0, 32], [64, 8], [32, 24], 64, 128)


class Wire:
    """A copy over two small arrays that misbehaves when told to."""

    def __init__(self, direction="save", misbehave=lambda wire: None):
        self.source, self.destination = np.zeros(64, dtype=np.uint8), np.zeros(128, dtype=np.uint8)
        self.misbehave = misbehave
        self.runs = 0
        self.ceiling_threads = []
        self.earlier = []
        self.direction = direction

    def copy(self):
        self.runs += 1
        for source, destination, size in zip(
            *(a.tolist() for a in (PLAN.source_offsets, PLAN.destination_offsets, PLAN.sizes)), strict=True
        ):
            self.destination[destination : destination + size] = self.source[source : source + size]
        self.misbehave(self)
        self.earlier.append(self.destination.copy())
        return CopyTimes(total_s=4.0, fill_s=1.0, submit_s=0.5, copy_s=2.0, descriptors=2, engine="wire", threads=3)

    def ceiling(self, threads):
        self.ceiling_threads.append(threads)
        self.destination[:64] = self.source
        return 1.0

    def measured(self):
        return MeasuredCopy(
            direction=self.direction,
            plan=PLAN,
            source=HostMemory(self.source),
            destination=HostMemory(self.destination),
            run=self.copy,
            ceiling=self.ceiling,
            notes=("a note",),
            writer="pencil",
        )


def _measure(*wires, rounds=3, clock=None):
    steps = measure_rounds(
        [wire.measured() for wire in wires], rounds=rounds, seed=0, label="case", clock=clock or StageClock(), process=2
    )
    return list(steps)


def test_rounds_are_counted_after_the_warm_up_and_every_one_is_verified():
    wire = Wire()
    *_, (leg,) = _measure(wire)
    assert wire.runs == 3 + WARM_UP_ROUNDS
    assert [(sample.process, sample.round) for sample in leg.samples] == [(2, 0), (2, 1), (2, 2)]
    assert leg.status is LegStatus.PASSED
    assert leg.verify.checked_bytes == wire.runs * (64 + 128)
    assert (leg.blocks, leg.descriptors, leg.copied_bytes) == (2, 2, 56)
    assert (leg.engine, leg.writer, leg.notes) == ("wire", "pencil", ["a note"])
    assert (leg.median_s, leg.ceiling_ratio) == (4.0, 0.25)


def test_the_ceiling_uses_as_many_threads_as_the_copy_did():
    wire = Wire()
    _measure(wire)
    assert wire.ceiling_threads == [1, 3, 3, 3]


def test_content_is_fresh_in_every_round_and_direction():
    save, load = Wire("save"), Wire("load")
    _measure(save, load)
    seen = [memory.tobytes() for wire in (save, load) for memory in wire.earlier]
    assert len(set(seen)) == len(seen)


def test_the_ceilings_bytes_are_gone_before_the_copy():
    def forget_to_copy(wire):
        wire.destination[64:96] = 0xA5

    *_, (leg,) = _measure(Wire(misbehave=forget_to_copy))
    assert leg.verify.fault is Fault.MISSING


def test_bytes_of_an_earlier_round_are_called_stale():
    def replay(wire):
        if wire.earlier:
            wire.destination[64:96] = wire.earlier[-1][64:96]

    *_, (leg,) = _measure(Wire(misbehave=replay))
    assert leg.verify.fault is Fault.STALE
    assert leg.status is LegStatus.FAILED
    assert "stale, first at byte 64" in leg.reason


def test_a_direction_ends_with_its_first_wrong_round_and_the_other_goes_on():
    def corrupt_the_second(wire):
        if wire.runs == 2:
            wire.destination[8] ^= 1

    bad, good = Wire("save", corrupt_the_second), Wire("load")
    *_, (save, load) = _measure(bad, good)
    assert (save.status, load.status) == (LegStatus.FAILED, LegStatus.PASSED)
    assert (bad.runs, good.runs) == (2, 4)
    assert len(load.samples) == 3


def test_a_refused_copy_is_an_error_with_its_reason_and_the_other_goes_on():
    def refuse(_):
        raise CopyRefusedError("engine wire: cannot: use another")

    *_, (save, load) = _measure(Wire("save", refuse), Wire("load"))
    assert (save.status, save.reason) == (LegStatus.ERROR, "engine wire: cannot: use another")
    assert (save.samples, save.verify, save.median_s) == ([], None, None)
    assert load.status is LegStatus.PASSED


def test_something_is_known_after_every_round():
    steps = _measure(Wire())
    assert [len(leg.samples) for (leg,) in steps] == [0, 1, 2, 3]


def test_the_memory_of_earlier_rounds_is_bounded():
    def replay_the_first(wire):
        if wire.runs == REMEMBERED_ROUNDS + 3:
            wire.destination[64:96] = wire.earlier[0][64:96]

    *_, (leg,) = _measure(Wire(misbehave=replay_the_first), rounds=REMEMBERED_ROUNDS + 5)
    assert leg.verify.fault is Fault.CORRUPT


def test_stages_get_their_time():
    clock = StageClock(imports_s=2.0)
    _measure(Wire(), clock=clock)
    seconds = clock.seconds_by_stage()
    assert set(seconds) == {"imports", "content", "ceiling", "poison", "fill", "submit", "copy", "verify", "other"}
    assert seconds["fill"] == pytest.approx(4.0)
    assert seconds["imports"] == 2.0
