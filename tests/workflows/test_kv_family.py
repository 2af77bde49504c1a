from __future__ import annotations

import re

import pytest

from ecbench.core.errors import DoesNotFitError, EcbenchError, UnavailableError
from ecbench.core.records import LegStatus
from ecbench.kv_offload import load_model, look_up, plan_store
from ecbench.kv_offload.layout import OffloadSettings
from ecbench.measure.stages import StageClock
from ecbench.report.kv_figures import plan_rows
from ecbench.stats.sweep_model import predict_s
from ecbench.workflows import kv_session
from ecbench.workflows.sweep import reopen_journal, run_sweep, start_journal
from ecbench.workflows.sweep_grid import describe_cells
from tests.faults import FaultyEngine
from tests.workflows.sweeps import prepare, run

KV_SWEEP = """\
workload = "sweep"
cells = "kv"
title = "Small KV cells"
rounds = 2

[axes]
tokens = 512
engine = "memmove"
"""
FITTED_AXES = {"block_size": "64,128,256,512", "layout": "packed,per-layer", "tokens": "1024", "engine": "memmove"}


def _figures(case, *names):
    return tuple(case.params[name] for name in names)


def test_store_and_load_of_every_cell_are_copied_and_right(tmp_path):
    result = run(tmp_path, KV_SWEEP, axes={"layout": "packed,per-layer", "block_order": "shuffled,in-order"})
    assert [case.case_id for case in result.cases] == [
        "tiny/512tok,block=256,memmove",
        "tiny/512tok,block=256,in-order,memmove",
        "tiny/512tok,block=256,per-layer,memmove",
        "tiny/512tok,block=256,per-layer,in-order,memmove",
    ]
    for case in result.cases:
        assert case.workload == "kv"
        assert [(leg.direction, leg.status) for leg in case.legs] == [
            ("store", LegStatus.PASSED),
            ("load", LegStatus.PASSED),
        ]
        assert all(leg.verify.ok and len(leg.samples) == 2 for leg in case.legs)
        assert not any(note.startswith("sample") for leg in case.legs for note in leg.notes)


@pytest.mark.parametrize("alignment", [256, 512])
@pytest.mark.parametrize("retention", [None, 0])
def test_the_figures_of_a_cell_are_those_of_the_planner(tmp_path, alignment, retention):
    axes = {"tokens": "1300", "alignment_tokens": str(alignment), "retention_interval": str(retention).lower()}
    (cell,) = prepare(tmp_path, KV_SWEEP, axes=axes).cells
    settings = OffloadSettings(alignment_tokens=alignment, retention_interval=retention)
    plan = plan_store(load_model("deepseek-v4-flash"), 1300, settings)
    params = cell.params
    assert params["stored_chunks"] == plan.totals.all_stored_chunks
    assert params["stored_chunks_by_group"] == [group.stored_chunks for group in plan.groups]
    assert params["stored_blocks"] == sum(group.stored_blocks for group in plan.groups)
    assert params["hits_end_on_tokens"] == alignment
    assert params["replay_hit_tokens"] == look_up(plan, 1301).tokens
    assert cell.copied_bytes == params["stored_blocks"] * params["block_stride_bytes"]


def test_a_coarser_alignment_stores_less_and_without_retention_hits_less(tmp_path):
    axes = {"tokens": "1280", "alignment_tokens": "256,512,1024", "retention_interval": "none,0"}
    cells = prepare(tmp_path, KV_SWEEP, axes=axes).cells
    kept, dropped = cells[::2], cells[1::2]
    stored = [cell.params["stored_chunks"] for cell in kept]
    assert stored == sorted(stored, reverse=True)
    assert len(set(stored)) == 3
    assert [cell.params["replay_hit_tokens"] for cell in kept] == [1280, 1280, 1280]
    assert [cell.params["replay_hit_tokens"] for cell in dropped] == [1024, 1024, 1024]


def test_a_plan_that_exceeds_the_memory_is_sampled_and_the_cell_says_so(tmp_path):
    result = run(tmp_path, KV_SWEEP, axes={"memory": "20MiB,512MiB", "retention_interval": "none"})
    sampled, whole = result.cases
    exact = ("stored_chunks", "stored_blocks", "loaded_blocks", "replay_hit_tokens")
    assert _figures(sampled, *exact) == _figures(whole, *exact)
    assert _figures(whole, "stored_share_copied", "loaded_share_copied") == (1.0, 1.0)
    assert 0 < sampled.params["stored_share_copied"] < 1
    assert "memory=20MiB" in sampled.case_id
    for leg, of_all in zip(sampled.legs, whole.legs, strict=True):
        assert leg.status is LegStatus.PASSED
        assert any(re.match(r"sample: \d+ of \d+ stored chunks", note) for note in leg.notes)
        assert 0 < leg.copied_bytes <= of_all.copied_bytes
    assert sampled.legs[0].copied_bytes < whole.legs[0].copied_bytes


SKIPPED = {
    "alignment within a chunk": ({"alignment_tokens": "256", "blocks_per_chunk": "2"}, "no multiple of the chunk"),
    "retention within a chunk": ({"retention_interval": "32"}, "retention interval of 32 tokens is no multiple"),
    "nothing to hit": ({"tokens": "100"}, "a replay of 100 tokens.*loads nothing"),
    "no whole states": ({"block_size": "100"}, "block size of 100 tokens"),
    "no chunk fits": ({"memory": "1MiB"}, "one chunk of every group takes"),
    "no driver": ({"host_memory": "pinned"}, "no driver that pins host memory"),
}


@pytest.mark.parametrize(("axes", "reason"), SKIPPED.values(), ids=SKIPPED)
def test_values_that_do_not_fit_together_skip_the_cell_with_the_reason(tmp_path, axes, reason):
    both = {name: f"{value},{usual}" for name, value in axes.items() for usual in [_USUAL[name]]}
    cells = prepare(tmp_path, KV_SWEEP, axes=both).cells
    assert any(re.search(reason, cell.skipped or "") for cell in cells)
    assert any(cell.skipped is None for cell in cells)
    with pytest.raises(UnavailableError, match=reason):
        prepare(tmp_path, KV_SWEEP, axes=axes)


_USUAL = {
    "alignment_tokens": "default",
    "blocks_per_chunk": "1",
    "retention_interval": "0",
    "tokens": "512",
    "block_size": "256",
    "memory": "512MiB",
    "host_memory": "pageable",
}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"model": "llama"}, "axis model: unknown model 'llama'.*deepseek-v4-flash"),
        ({"alignment_tokens": "0"}, "axis alignment_tokens: '0' is no whole number from 1 to .*, or default"),
        ({"retention_interval": "never"}, "axis retention_interval: 'never' is no whole number.*, or none"),
        ({"layout": "heap"}, "axis layout: unknown layout 'heap'.*packed"),
        ({"count": "3"}, "unknown axis 'count': choose one of model.*alignment_tokens.*engine"),
    ],
)
def test_bad_values_and_axes_are_errors_that_say_what_exists(tmp_path, axes, message):
    with pytest.raises(EcbenchError, match=message):
        prepare(tmp_path, KV_SWEEP, axes=axes)


def test_memory_is_that_of_the_largest_cell_and_is_refused_beforehand(tmp_path):
    alone = prepare(tmp_path, KV_SWEEP, axes={"tokens": "1024"}).need
    together = prepare(tmp_path, KV_SWEEP, axes={"tokens": "512,1024"}).need
    assert (together.host_region_bytes, together.device_bytes) == (alone.host_region_bytes, alone.device_bytes)
    with pytest.raises(DoesNotFitError, match="more than the memory limit"):
        prepare(tmp_path, KV_SWEEP, memory_limit_bytes=alone.new_host_bytes // 2)


def test_the_dry_run_says_descriptors_and_bytes_that_the_run_then_copies(tmp_path):
    axes = {"layout": "packed,per-layer", "coalesce": "true,false"}
    planned = [row[1] for row in describe_cells(prepare(tmp_path, KV_SWEEP, axes=axes))]
    measured = [f"{case.legs[0].descriptors}" for case in run(tmp_path, KV_SWEEP, axes=axes).cases]
    assert planned == measured


def test_cells_that_differ_in_what_copies_have_one_plan(tmp_path):
    axes = {"engine": "memmove,gather", "layout": "packed,per-layer", "block_size": "128,256"}
    cells = prepare(tmp_path, KV_SWEEP, axes=axes).cells
    rows = plan_rows(run(tmp_path, KV_SWEEP, axes=axes))
    assert [row[0] for row in rows] == ["block size (tokens) 128", "block size (tokens) 256"]
    assert [row[1] for row in rows] == [f"{cell.params['stored_chunks']}" for cell in (cells[0], cells[-1])]


def test_one_direction_alone_can_be_asked_for(tmp_path):
    (case,) = run(tmp_path, KV_SWEEP, axes={"direction": "load"}).cases
    assert [leg.direction for leg in case.legs] == ["load"]


def test_resuming_gives_the_cells_of_an_uninterrupted_run(tmp_path):
    axes = {"block_size": "128,256"}
    sweep = prepare(tmp_path, KV_SWEEP, axes=axes)
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with start_journal(sweep, tmp_path) as journal:
        assert not run_sweep(sweep, journal, StageClock(), interrupt).complete
    sweep = prepare(tmp_path, KV_SWEEP, axes=axes)
    with reopen_journal(sweep, tmp_path) as journal:
        resumed = run_sweep(sweep, journal, StageClock(), lambda _: None)
    whole = run(tmp_path, KV_SWEEP, axes=axes)
    assert resumed.complete
    assert [case.params for case in resumed.cases] == [case.params for case in whole.cases]
    assert [len(leg.samples) for case in resumed.cases for leg in case.legs] == [2, 2, 2, 2]


def test_the_cost_model_takes_the_descriptors_and_bytes_of_kv_cells(tmp_path):
    result = run(tmp_path, KV_SWEEP, axes=FITTED_AXES)
    assert {fit.group.direction for fit in result.fits} | {note.split()[1] for note in result.model_notes} == {
        "store",
        "load",
    }
    for fit in result.fits:
        assert fit.cells == len(result.cases)
        leg = result.cases[0].legs[0]
        assert predict_s(fit, leg.descriptors, leg.copied_bytes) > 0
    assert result.coalescing == []


def test_a_wrong_byte_fails_the_cell(tmp_path, monkeypatch):
    def flip(source, destination, sources, destinations, sizes):
        destination[destinations[0]] ^= 1

    monkeypatch.setattr(kv_session, "open_engine", lambda name, device: FaultyEngine(flip))
    (case,) = run(tmp_path, KV_SWEEP).cases
    assert {leg.status for leg in case.legs} == {LegStatus.FAILED}
