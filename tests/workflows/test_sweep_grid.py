from __future__ import annotations

import re

import pytest

from ecbench.core.errors import DoesNotFitError, EcbenchError, ScenarioError, UnavailableError
from ecbench.transfer.shared_region import shm_free_bytes
from ecbench.workflows.scenarios import SWEEP, read_scenario, shipped_workload
from ecbench.workflows.sweep import SweepOptions, prepare_sweep
from ecbench.workflows.sweep_axes import axes_of_options
from ecbench.workflows.sweep_grid import describe_cells, describe_totals, refuse_unconfirmed
from tests.workflows.sweeps import TINY_SWEEP, prepare, write_sweep


def test_the_grid_is_every_combination_and_the_last_axis_varies_fastest(tmp_path):
    sweep = prepare(tmp_path)
    assert [cell.case_id for cell in sweep.cells] == [
        "tiny/4KiBx1,run=3,memmove",
        "tiny/4KiBx12,run=3,memmove",
        "tiny/7KiBx1,run=3,memmove",
        "tiny/7KiBx12,run=3,memmove",
        "tiny/1000Bx1,run=3,memmove",
        "tiny/1000Bx12,run=3,memmove",
    ]
    assert {cell.directions for cell in sweep.cells} == {("save", "load")}
    assert [cell.descriptors for cell in sweep.cells if cell.skipped is None] == [4, 4, 4]


def test_a_run_longer_than_the_batch_is_skipped_with_the_reason(tmp_path):
    skipped = [cell for cell in prepare(tmp_path).cells if cell.skipped]
    assert len(skipped) == 3
    assert {cell.skipped for cell in skipped} == {"runs of 3 blocks are longer than a batch of 1"}


def test_pinned_cells_are_skipped_where_no_driver_pins(tmp_path):
    sweep = prepare(tmp_path, TINY_SWEEP + 'host_memory = ["pinned", "pageable"]\n', axes={"run_length": "1"})
    skipped = [cell for cell in sweep.cells if cell.skipped]
    assert len(sweep.cells) == 12
    assert len(skipped) == 6
    assert {cell.skipped for cell in skipped} == {"device cpu has no driver that pins host memory"}
    assert all("pinned" in cell.case_id for cell in skipped)


def test_an_engine_that_does_not_run_here_is_skipped_with_the_reason(tmp_path):
    sweep = prepare(tmp_path, axes={"engine": "staged,memmove"})
    assert {cell.params["engine"] for cell in sweep.cells if cell.skipped is None} == {"memmove"}
    assert any("engine staged is not available: runs on" in str(cell.skipped) for cell in sweep.cells)


def test_where_nothing_can_run_it_is_an_error_that_says_why(tmp_path):
    with pytest.raises(UnavailableError, match=r"no cell of sweep tiny can run here.*engine staged is not available"):
        prepare(tmp_path, axes={"engine": "staged"})


def test_all_stands_for_every_engine_that_runs_here(tmp_path):
    sweep = prepare(tmp_path, axes={"engine": "all,auto"})
    assert sweep.axes["engine"] == ("memmove", "gather", "per-copy", "auto")


def test_batches_above_the_largest_are_no_cells(tmp_path):
    text = TINY_SWEEP.replace("rounds = 3", 'rounds = 3\nmax_batch = "20KiB"')
    assert len(prepare(tmp_path, text).cells) == 4
    assert len(prepare(tmp_path, text, max_batch_bytes=1 << 20).cells) == 6
    with pytest.raises(EcbenchError, match="has no cell: every batch is above max_batch, 10 B"):
        prepare(tmp_path, text, max_batch_bytes=10)


def test_the_command_line_replaces_the_axes_of_the_file(tmp_path):
    axes = axes_of_options(["coalesce=true,false"], block_size="8KiB", count="2,3", run_length="2", engine=None)
    sweep = prepare(tmp_path, axes=axes)
    assert sweep.axes["block_size"] == (8192,)
    assert sweep.axes["coalesce"] == (True, False)
    assert [cell.descriptors for cell in sweep.cells] == [1, 2, 2, 3]


def test_rounds_on_the_command_line_replace_a_budget_in_the_file(tmp_path):
    text = TINY_SWEEP.replace("rounds = 3", 'rounds = 3\nbudget = "2m"')
    assert prepare(tmp_path, text).plan.budget_s == 120
    assert prepare(tmp_path, text, budget="500ms").plan.budget_s == 0.5
    counted = prepare(tmp_path, text, rounds=5).plan
    assert (counted.rounds, counted.budget_s) == (5, None)


BAD_AXES = {
    "unknown axis": ({"colour": "1"}, "unknown axis 'colour': choose one of block_size, count, run_length"),
    "no size": ({"block_size": "big"}, "axis block_size: size 'big' is not a number"),
    "unknown unit": ({"block_size": "4KiB,3apples"}, "axis block_size: .*unknown unit 'apples'"),
    "zero blocks": ({"count": "0"}, "axis count: '0' is no whole number from 1"),
    "negative offset": ({"byte_offset": "-8"}, "axis byte_offset: '-8' is no whole number from 0"),
    "half a block": ({"count": "1.5"}, "axis count"),
    "huge count": ({"count": "9" * 400}, "axis count"),
    "twice": ({"count": "4,4"}, "axis count: 4 is given twice"),
    "twice in other words": ({"block_size": "4KiB,4096"}, "axis block_size: 4096 is given twice"),
    "nothing": ({"count": ","}, "axis count has 0 values"),
    "unknown engine": ({"engine": "warp"}, "axis engine: unknown engine 'warp': choose one of auto, memmove"),
    "unknown writer": ({"writer": "pen"}, "axis writer: unknown writer 'pen'"),
    "unknown direction": ({"direction": "up"}, "axis direction: unknown direction 'up': choose one of save, load"),
    "neither true nor false": ({"coalesce": "maybe"}, "axis coalesce: 'maybe' is neither true nor false"),
    "a truth as a number": ({"count": True}, "axis count: True is no number"),
    "a table": ({"count": {}}, "is no value"),
}


@pytest.mark.parametrize(("axes", "message"), BAD_AXES.values(), ids=BAD_AXES)
def test_a_bad_axis_is_one_line_that_names_axis_and_value(tmp_path, axes, message):
    with pytest.raises(EcbenchError, match=message) as error:
        prepare(tmp_path, axes=axes)
    assert "\n" not in str(error.value)


BAD_OPTIONS = {
    "no equals sign": (["coalesce"], "write it like"),
    "no name": (["=1"], "write it like"),
    "twice": (["count=1", "count=2"], "axis count is given twice"),
    "an option's axis": (["block-size=1"], "axis block_size is given twice"),
}


@pytest.mark.parametrize(("named", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_a_bad_axis_option_says_how_to_write_it(named, message):
    with pytest.raises(EcbenchError, match=message):
        axes_of_options(named, block_size="4KiB")


BAD_SCENARIOS = {
    "unknown key": (TINY_SWEEP.replace("rounds", "runden"), r"line 3, key 'runden'"),
    "unknown axis": (TINY_SWEEP + "colour = 1\n", r"line 10: unknown axis 'colour': choose one of block_size"),
    "bad value": (TINY_SWEEP.replace("7168", '"7 apples"'), r"line 6: axis block_size: .*'apples'"),
    "no list of values": (TINY_SWEEP.replace("7168", "1.5"), r"line 6: axis block_size: 1.5 is no value"),
    "unknown cells": (
        TINY_SWEEP.replace("rounds", 'cells = "video"\nrounds'),
        r"line 3: unknown cells 'video': .*copies",
    ),
    "bad budget": (TINY_SWEEP.replace("rounds", 'budget = "soon"\nrounds'), r"line 3: duration 'soon'"),
    "bad limit": (TINY_SWEEP.replace("rounds", 'max_batch = "much"\nrounds'), r"line 3: size 'much'"),
    "no axes": ('workload = "sweep"\ntitle = "None"\n', "missing required field 'axes'"),
    "a round trip": ('workload = "ec"\n', "workload 'ec' is no sweep: run it with ecbench roundtrip tiny"),
}


@pytest.mark.parametrize(("text", "message"), BAD_SCENARIOS.values(), ids=BAD_SCENARIOS)
def test_a_bad_scenario_names_the_file_and_the_line(tmp_path, text, message):
    with pytest.raises(ScenarioError, match=message) as error:
        prepare(tmp_path, text)
    assert "tiny.toml" in str(error.value)


def test_ten_thousand_cells_must_be_meant(tmp_path):
    many = ",".join(map(str, range(1, 101)))
    sweep = prepare(tmp_path, axes={"count": many, "byte_offset": many, "block_size": "8", "run_length": "1"})
    with pytest.raises(EcbenchError, match="the grid has 10000 cells: add --yes"):
        refuse_unconfirmed(sweep)
    refuse_unconfirmed(prepare(tmp_path))


def test_a_grid_without_end_is_refused_before_it_is_made(tmp_path):
    many = ",".join(map(str, range(1, 2001)))
    with pytest.raises(EcbenchError, match="has 12000000 cells: give fewer values, for at most 1000000"):
        prepare(tmp_path, axes={"count": many, "byte_offset": many})


def test_memory_is_that_of_the_largest_cell_and_all_plans_and_none_is_taken(tmp_path):
    free = shm_free_bytes()
    one = prepare(tmp_path, axes={"block_size": "1MiB", "count": "60", "run_length": "1"}).need
    both = prepare(tmp_path, axes={"block_size": "1MiB,4KiB", "count": "60,2", "run_length": "1"}).need
    assert one.host_region_bytes == both.host_region_bytes == (2 * 60 << 20) + 8192
    assert one.device_bytes == both.device_bytes == (60 << 20) + 8192
    assert abs(shm_free_bytes() - free) < 8 << 20


def test_what_does_not_fit_is_refused_with_both_numbers(tmp_path):
    with pytest.raises(DoesNotFitError, match=r"needs .* more than the memory limit, 1\.00 MiB"):
        prepare(tmp_path, memory_limit_bytes=1 << 20)
    with pytest.raises(DoesNotFitError, match="more than what /dev/shm has free"):
        prepare(tmp_path, axes={"block_size": "1TiB"})


def test_a_dry_run_tells_cells_bytes_and_time(tmp_path):
    sweep = prepare(tmp_path)
    rows = describe_cells(sweep)
    assert rows[1][:3] == ("tiny/4KiBx12,run=3,memmove", "4", "48.0 KiB")
    assert re.fullmatch(r"[\d.]+ (us|ms|s)", rows[1][3])
    assert rows[0][3].startswith("skipped: runs of 3")
    assert re.match(
        r"6 cells \(3 skipped\), 3 rounds and a warm-up, .* to copy, peak host memory .*about", describe_totals(sweep)
    )


@pytest.mark.parametrize("name", shipped_workload(SWEEP))
def test_every_shipped_sweep_is_valid_here_and_explained_in_its_file(name, tmp_path):
    sweep = prepare_sweep(SweepOptions(scenario=name, device="cpu"))
    assert any(cell.skipped is None for cell in sweep.cells)
    assert read_scenario(name).text.startswith("# ")


def test_names_with_odd_characters_are_only_names(tmp_path):
    path = write_sweep(tmp_path, name="it's <b> a sweep.toml")
    assert prepare_sweep(SweepOptions(scenario=path, device="cpu")).plan.name == "it's <b> a sweep"
