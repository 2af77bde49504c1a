"""Sweeps of KV round trips with ``--target``, through a worker that only looks like vLLM's."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ecbench.cli.app import app
from ecbench.core.host_memory import HostMemoryKind
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.targets.registry import open_target
from ecbench.workflows import sweep_grid, sweep_rounds
from ecbench.workflows.machine_axes import why_not_here
from ecbench.workflows.sweep_grid import SweepOptions, describe_cells, prepare_sweep
from tests.targets.fake_vllm_kv import FakeRegion

GRID = """\
workload = "sweep"
cells = "kv"
title = "Two layouts"
rounds = 2

[axes]
tokens = 512
layout = ["packed", "per-layer"]
"""
CPU_MODULES = "v1/kv_offload/cpu"
REFERENCE_CELLS = ["grid/512tok,block=256,auto", "grid/512tok,block=256,per-layer,auto"]
VLLM_CELLS = ["grid/512tok,block=256@vllm", "grid/512tok,block=256,per-layer@vllm"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


@pytest.fixture
def regions(monkeypatch):
    """All regions that workers were given."""
    made = []
    make = FakeRegion.__init__

    def noting(region, **options):
        make(region, **options)
        made.append(region)

    monkeypatch.setattr(FakeRegion, "__init__", noting)
    return made


def run(target, *options):
    command = ["sweep", "grid.toml", "--target", target, "--device", "cpu", *options]
    return CliRunner().invoke(app, [str(part) for part in command])


def result_of(target, *options):
    ran = run(target, *options, "--json", "-")
    assert ran.exit_code == 0, ran.stderr
    return json.loads(ran.stdout)


def prepared(target, **axes):
    return prepare_sweep(SweepOptions("grid.toml", axes, device="cpu", target=target))


def change(vllm_tree, module, body):
    """Puts a body in the place of a class's docstring."""
    path = vllm_tree / CPU_MODULES / f"{module}.py"
    path.write_text(path.read_text().replace('    """As it is."""\n', body))


def interrupt_after(patch, rounds):
    told = []

    def tell(*_):
        told.append(1)
        if len(told) == rounds:
            raise KeyboardInterrupt

    patch.setattr(sweep_rounds.SweepRounds, "_tell", tell)


def statuses(document):
    return {case["case_id"]: [leg["status"] for leg in case["legs"]] for case in document["cases"]}


def test_vllm_s_cells_stand_beside_the_reference_s(vllm_tree, here, regions):
    document = result_of("both")
    assert statuses(document) == dict.fromkeys(
        [REFERENCE_CELLS[0], VLLM_CELLS[0], REFERENCE_CELLS[1], VLLM_CELLS[1]], ["passed"] * 2
    )
    cases = {case["case_id"]: case for case in document["cases"]}
    for ours, theirs in zip(REFERENCE_CELLS, VLLM_CELLS, strict=True):
        reference, vllm = cases[ours], cases[theirs]
        assert "target" not in reference["params"]
        assert vllm["params"] == {**reference["params"], "engine": "vllm", "writer": "vllm", "target": "vllm"}
        assert [leg["copied_bytes"] for leg in vllm["legs"]] == [leg["copied_bytes"] for leg in reference["legs"]]
        assert any("no guard bytes" in note for leg in vllm["legs"] for note in leg["notes"])
    assert document["axes"]["engine"] == ["auto", "vllm"]
    assert len(regions) == 2


def test_what_a_kv_worker_needs_is_part_of_the_environment(vllm_tree, here):
    stand_ins = result_of("vllm")["environment"]["stand_ins"]
    assert "KV worker barrier (one rank)" in stand_ins
    assert "PIN_MEMORY of the KV worker (says no)" in stand_ins
    assert "config object" in stand_ins


def test_vllm_alone_has_its_cells_only(vllm_tree, here):
    assert list(statuses(result_of("vllm"))) == VLLM_CELLS


def test_the_dry_run_says_the_descriptors_that_a_target_then_writes(vllm_tree, here):
    axes = {"block_order": "in-order,shuffled"}
    planned = [row[1] for row in describe_cells(prepared("vllm", **axes))]
    document = result_of("vllm", "--axis", "block-order=in-order,shuffled")
    assert planned == [f"{case['legs'][0]['descriptors']}" for case in document["cases"]]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--writer", "setitem,numpy-batch"], "decides itself what axis writer varies"),
        (["--engine", "gather"], "decides itself what axis engine varies"),
        (["--axis", "coalesce=true,false"], "give coalesce=true"),
    ],
)
def test_a_grid_over_what_vllm_decides_is_refused(vllm_tree, here, option, said):
    ran = run("vllm", *option)
    assert ran.exit_code == 2
    assert said in ran.stderr


def test_with_both_a_grid_may_have_engines(vllm_tree, here):
    document = result_of("both", "--engine", "gather,memmove", "--axis", "layout=packed")
    assert document["axes"]["engine"] == ["gather", "memmove", "vllm"]


def test_every_cell_of_vllm_has_a_region_of_its_own(vllm_tree, here):
    axes = {"tokens": "512,1024"}
    vllm = open_target("vllm", CpuDevice())
    cells = prepared("vllm", **axes).cells
    own = sum(vllm.kv_region_bytes(cell.planned.sample.memory) for cell in cells)
    assert [cell.region_bytes > cell.planned.region_bytes for cell in cells] == [False, True] * 2
    alone, reference, both = (prepared(target, **axes).need for target in ("vllm", "reference", "both"))
    assert alone.host_region_bytes == own
    assert both.host_region_bytes == own + reference.host_region_bytes
    assert both.device_bytes == reference.device_bytes == alone.device_bytes


def test_regions_that_do_not_fit_together_are_refused_before_any_is_made(vllm_tree, here, regions, monkeypatch):
    need = prepared("both").need
    monkeypatch.setattr(sweep_grid, "shm_free_bytes", lambda: need.host_region_bytes - 1)
    ran = run("both")
    assert ran.exit_code == 2
    assert "more than what /dev/shm has free" in ran.stderr
    assert "use fewer cells, fewer tokens, a smaller --axis memory=, or remount it larger" in ran.stderr
    assert regions == []
    assert run("reference").exit_code == 0


def test_a_smaller_memory_makes_regions_smaller(vllm_tree, here):
    whole, sampled = (prepared("vllm", memory=memory).need.host_region_bytes for memory in ("512MiB", "20MiB"))
    assert sampled < whole


def test_room_that_went_away_ends_the_sweep_before_its_first_round(vllm_tree, here):
    change(
        vllm_tree,
        "shared_offload_region",
        "    def __init__(self, *, num_chunks, kv_bytes_per_chunk, **options):\n"
        "        raise OSError('No space left on device')\n",
    )
    ran = run("both")
    assert ran.exit_code == 2
    assert "vLLM cannot create its region of" in ran.stderr
    assert "No space left on device" in ran.stderr
    (journal,) = (here / "reports").glob("*.journal")
    assert len(journal.read_text().splitlines()) == 1


def test_a_vllm_without_a_kv_worker_measures_nothing(vllm_tree, here):
    (vllm_tree / CPU_MODULES / "gpu_worker.py").unlink()
    ran = run("both")
    assert ran.exit_code == 3
    assert "vllm.v1.kv_offload.cpu.gpu_worker" in ran.stderr
    assert ran.stdout == ""


REFUSAL = """\
    def __init__(self, *, kv_caches, **options):
        if len(kv_caches.tensors) > 1:
            raise ValueError("one tensor only")
        super().__init__(kv_caches=kv_caches, **options)
"""


def test_a_cell_that_vllm_refuses_is_an_error_of_its_own(vllm_tree, here, regions):
    change(vllm_tree, "gpu_worker", REFUSAL)
    ran = run("both", "--json", "-")
    assert ran.exit_code == 1
    document = json.loads(ran.stdout)
    *others, refused = [statuses(document)[name] for name in (*REFERENCE_CELLS, *VLLM_CELLS)]
    assert others == [["passed"] * 2] * 3
    assert refused == ["error"] * 2
    (case,) = [case for case in document["cases"] if case["case_id"] == VLLM_CELLS[1]]
    assert {leg["reason"].partition(" (")[0] for leg in case["legs"]} == {
        "vLLM 0.32.9 did not take the caches: ValueError: one tensor only"
    }
    assert not any(region.open for region in regions)


def test_wrong_bytes_of_vllm_leave_the_reference_alone(vllm_tree, here):
    change(
        vllm_tree,
        "gpu_worker",
        "    def _copies(self, blocks, slots):\n        return list(super()._copies(blocks, slots))[1:]\n",
    )
    ran = run("both", "--json", "-")
    assert ran.exit_code == 1
    found = statuses(json.loads(ran.stdout))
    assert [found[name] for name in REFERENCE_CELLS] == [["passed"] * 2] * 2
    assert [found[name] for name in VLLM_CELLS] == [["failed"] * 2] * 2


def test_values_that_do_not_fit_together_skip_the_cells_of_both(vllm_tree, here):
    document = result_of("both", "--axis", "layout=packed", "--axis", "tokens=100,512")
    skipped = {case["case_id"]: case["legs"][0]["reason"] for case in document["cases"] if "100tok" in case["case_id"]}
    assert list(skipped) == ["grid/100tok,block=256,auto", "grid/100tok,block=256@vllm"]
    assert all("loads nothing" in reason for reason in skipped.values())


def test_a_sweep_goes_on_where_it_was_interrupted(vllm_tree, here, regions, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, 6)
        ran = run("both", "--json", "-")
    assert ran.exit_code == 130
    assert not json.loads(ran.stdout)["complete"]
    assert not any(region.open for region in regions)
    resumed, whole = result_of("both", "--resume"), result_of("both")
    assert [case["params"] for case in resumed["cases"]] == [case["params"] for case in whole["cases"]]
    assert [len(leg["samples"]) for case in resumed["cases"] for leg in case["legs"]] == [2] * 8
    assert resumed["environment"]["stand_ins"] == whole["environment"]["stand_ins"]


def test_a_sweep_is_resumed_with_its_targets_only(vllm_tree, here, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        assert run("both").exit_code == 130
    ran = run("vllm", "--resume")
    assert ran.exit_code == 4
    assert "axis engine" in ran.stderr


def test_a_target_runs_in_the_host_memory_that_its_device_usually_has():
    class Later(CpuDevice):
        copies_inside_submit = False

    assert why_not_here(HostMemoryKind.PAGEABLE, "vllm", CpuDevice()) is None
    assert "no driver" in str(why_not_here(HostMemoryKind.PINNED, "vllm", CpuDevice()))
    assert "pins its region itself" in str(why_not_here(HostMemoryKind.PAGEABLE, "vllm", Later()))
    assert why_not_here(HostMemoryKind.PINNED, "vllm", Later()) is None
