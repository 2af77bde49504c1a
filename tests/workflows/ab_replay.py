"""Two installations that are replayed: process rounds with made-up times, and whatever else a test wants of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec

from ecbench.core.errors import DataError
from ecbench.stats.pairing import Side
from ecbench.stats.summary import recompute
from ecbench.workflows import ab_pairs
from tests.comparison_samples import case, leg, result

COMMANDS = {"old": Side.BASE, "fresh": Side.NEW}
"""Command lines of either side."""
PROCESS_SD = 0.01
DRIFT_SD = 0.03


@dataclass
class Replay:
    """Stands for both installations.

    Args:
        slowdown: Of the new side's save.
        slowdown_of_load: Of its load.
        environments: What differs from the usual environment, by side.
        seed: Of the noise.
        still: No noise at all between process rounds.
        spoil: By number of the process, from 0 and warm-ups included: what happens instead, or to its result.
        asked: Options of every process, with its side.
    """

    slowdown: float = 0.0
    slowdown_of_load: float = 0.0
    environments: dict = field(default_factory=dict)
    seed: int = 0
    still: bool = False
    spoil: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)

    def __post_init__(self):
        self.draw = random.Random(self.seed)

    def install(self, monkeypatch):
        monkeypatch.setattr(ab_pairs, "run_in_fresh_process", self.run)
        monkeypatch.setattr(ab_pairs, "ask_version", lambda command: COMMANDS[command[0]] and "0.1.0")
        return self

    def run(self, options, command):
        side = COMMANDS[command[0]]
        number = len(self.asked)
        self.asked.append((side, options))
        spoil = self.spoil.get(number)
        if isinstance(spoil, BaseException):
            raise spoil
        made = self._result(side, number, options)
        return spoil(made) if spoil else made

    def _result(self, side, number, options):
        drift = 0.0 if self.still else DRIFT_SD * (number // 2 % 7 - 3) / 3
        factor = 1 + drift + (0.0 if self.still else self.draw.gauss(0, PROCESS_SD))
        slower = {Side.BASE: (0.0, 0.0), Side.NEW: (self.slowdown, self.slowdown_of_load)}[side]
        legs = [
            _scaled(leg(name), factor * (1 + slowdown)) for name, slowdown in zip(("save", "load"), slower, strict=True)
        ]
        cases = [case(*legs, case_id=f"{name}/example") for name in options.scenarios]
        return result(*cases, environment=self.environments.get(side), settings={"seed": 0})


def _scaled(made, factor):
    samples = [msgspec.structs.replace(sample, total_s=sample.total_s * factor) for sample in made.samples]
    return msgspec.structs.replace(made, samples=samples)


def with_leg(change):
    """Changes the first leg of a result's first case."""

    def spoil(made):
        first = made.cases[0]
        legs = [change(first.legs[0]), *first.legs[1:]]
        cases = [msgspec.structs.replace(first, legs=legs), *made.cases[1:]]
        return recompute(msgspec.structs.replace(made, cases=cases))

    return spoil


UNREADABLE = DataError("result.json: schema_version 2 is above 1: read it with a newer ecbench")
