"""Sweeps small enough for tests."""

from __future__ import annotations

from ecbench.measure.stages import StageClock
from ecbench.workflows.sweep import SweepOptions, prepare_sweep, run_sweep, start_journal

TINY_SWEEP = """\
workload = "sweep"
title = "Six small cells"
rounds = 3

[axes]
block_size = ["4KiB", 7168, 1000]
count = [1, 12]
run_length = 3
engine = "memmove"
"""


def write_sweep(folder, text=TINY_SWEEP, name="tiny.toml"):
    (folder / name).write_text(text)
    return str(folder / name)


def prepare(folder, text=TINY_SWEEP, **options):
    return prepare_sweep(SweepOptions(scenario=write_sweep(folder, text), **{"device": "cpu", **options}))


def run(folder, text=TINY_SWEEP, report=lambda _: None, **options):
    sweep = prepare(folder, text, **options)
    with start_journal(sweep, folder) as journal:
        return run_sweep(sweep, journal, StageClock(), report)
