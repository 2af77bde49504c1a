from __future__ import annotations

import io

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from rich.console import Console

from ecbench.core.records import to_json
from ecbench.core.savings_records import LoadProof, NotLoadableBoundary, SavingsCase, SavingsResult, StoredRuns
from ecbench.report.checks import Outcome
from ecbench.report.descriptions.savings import describe_savings
from ecbench.report.formats.document_console import print_document
from ecbench.report.formats.document_markdown import render_document_markdown
from ecbench.report.plots.rendering import render_png, render_svg
from ecbench.report.plots.saved_by_block_size import draw_saved_by_block_size
from ecbench.report.plots.stored_chunks import draw_stored_chunks, expand_runs
from ecbench.report.savings_checks import savings_checks
from ecbench.report.savings_figures import seconds_saved, whole_copies, with_savings_figures
from ecbench.report.schema import results_schema
from tests.conftest import GOLDEN
from tests.golden_files import assert_matches_golden

RESULT = msgspec.json.decode((GOLDEN / "savings_result.json").read_bytes(), type=SavingsResult)
PULL_REQUEST, EVERY_SEGMENT, ENGINE_DEFAULT = RESULT.cases


def printed(result: SavingsResult) -> str:
    stream = io.StringIO()
    print_document(describe_savings(result), Console(file=stream, width=200, highlight=False))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def markdown(result: SavingsResult) -> str:
    return render_document_markdown(describe_savings(result))


def with_cases(*cases: SavingsCase) -> SavingsResult:
    return replace(RESULT, cases=list(cases))


BROKEN = replace(
    EVERY_SEGMENT,
    proof=LoadProof(
        ok=False,
        boundaries_checked=8,
        not_loadable=[NotLoadableBoundary(boundary_tokens=256, hit_tokens=0, group="swa-a")],
        lost_tokens=2048,
        not_used_by_replays=184,
    ),
)


@pytest.mark.parametrize(
    ("golden", "text"),
    [
        ("savings.txt", printed(RESULT)),
        ("savings.md", markdown(RESULT)),
        ("savings_broken.txt", printed(with_cases(BROKEN))),
    ],
)
def test_each_format_shows_a_result_as_its_golden_file_does(golden, text):
    assert_matches_golden(golden, text)


@pytest.mark.parametrize("render", [printed, markdown])
def test_a_prefix_that_cannot_be_loaded_is_unmistakable(render):
    text = render(with_cases(PULL_REQUEST, BROKEN))
    assert "NOT LOADABLE: a request that shares 256 tokens hits 0; swa-a shortens it" in text
    assert "NO: deepseek-v4-flash/2048/vllm-0.33/retention-none." in text


@pytest.mark.parametrize("render", [printed, markdown])
def test_an_emulated_device_is_unmistakable(render):
    assert "EMULATED: xpu-sim" in render(RESULT)


@pytest.mark.parametrize("render", [printed, markdown])
def test_a_plan_without_copies_says_so_and_not_that_the_host_was_measured(render):
    cases = [replace(case, legs=[], legs_without_skip=[], sample=None) for case in RESULT.cases]
    text = render(replace(RESULT, cases=cases, settings={**RESULT.settings, "measure": False}))
    assert "PLANNED ONLY: nothing was copied." in text
    assert "bandwidth" not in text


def test_seconds_of_the_whole_are_those_of_the_sample_over_its_share():
    store, load, full = whole_copies(PULL_REQUEST)
    assert [copy.name for copy in (store, load, full)] == ["store", "load", "store without the skip"]
    assert store.seconds == pytest.approx(PULL_REQUEST.legs[0].median_s / PULL_REQUEST.sample.store_fraction)
    # Packed blocks move whole: every chunk costs a block stride.
    totals, stride = PULL_REQUEST.totals, PULL_REQUEST.block_stride_bytes
    assert store.copied_bytes == pytest.approx(totals.all_stored_chunks * stride)
    assert full.copied_bytes == pytest.approx(totals.all_full_chunks * stride)
    assert seconds_saved(PULL_REQUEST) == (full.seconds, store.seconds)


def test_figures_in_a_file_are_not_trusted():
    (leg, *others) = PULL_REQUEST.legs
    lying = replace(PULL_REQUEST, legs=[replace(leg, median_s=1e-9), *others])
    assert with_savings_figures(with_cases(lying)).cases[0] == PULL_REQUEST


def test_runs_that_repeat_expand_to_the_chunks_that_are_stored():
    runs = [
        StoredRuns(first_chunk=2, chunks=2, step_chunks=4, runs=3),
        StoredRuns(first_chunk=20, chunks=1, step_chunks=1, runs=1),
    ]
    np.testing.assert_array_equal(expand_runs(runs), [[2, 4], [6, 8], [10, 12], [20, 21]])
    assert expand_runs([]).shape == (0, 2)


@pytest.mark.parametrize("draw", [draw_stored_chunks, draw_saved_by_block_size])
def test_plots_are_the_same_bytes_for_the_same_result(draw):
    assert render_svg(draw(RESULT)) == render_svg(draw(RESULT))
    assert render_png(draw(RESULT)).startswith(b"\x89PNG")


def test_the_plot_of_stored_chunks_names_every_group_and_case():
    text = render_svg(draw_stored_chunks(RESULT)).decode()
    for group in PULL_REQUEST.groups:
        assert f">{group.name}</text>" in text
        assert f">{group.stored_chunks:,} of {group.full_chunks:,}</text>" in text
    assert ">deepseek-v4-flash, policy vllm-0.33, retention 0</text>" in text


def test_the_plot_of_block_sizes_has_units_and_the_sizes_that_were_planned():
    text = render_svg(draw_saved_by_block_size(RESULT)).decode()
    assert ">block size of full attention (tokens)</text>" in text
    assert ">chunks not stored (%)</text>" in text
    assert ">1,024</text>" in text


@pytest.mark.parametrize("draw", [draw_stored_chunks, draw_saved_by_block_size])
def test_a_result_with_nothing_to_draw_says_so_in_words(draw):
    empty = replace(
        PULL_REQUEST, totals=replace(PULL_REQUEST.totals, all_full_chunks=0, all_stored_chunks=0), by_block_size=[]
    )
    drawing = draw(with_cases(empty))
    assert drawing.figure is None
    assert drawing.caption.startswith("Not drawn: ")


def test_more_cases_than_a_plot_holds_are_said():
    many = with_cases(*([PULL_REQUEST] * 9))
    assert "The first 6 of 9 cases are drawn." in draw_stored_chunks(many).caption
    assert "The first 6 of 9 cases are drawn." in draw_saved_by_block_size(many).caption


def test_a_result_comes_back_from_json_as_it_was_and_its_schema_holds():
    jsonschema = pytest.importorskip("jsonschema")
    assert msgspec.json.decode(to_json(RESULT), type=SavingsResult) == RESULT
    jsonschema.validate(msgspec.json.decode(to_json(RESULT)), results_schema())


def test_the_proof_and_every_leg_are_checks():
    names = [(line.name, line.outcome.value) for line in savings_checks(PULL_REQUEST)]
    legs = ["store", "load", "store without the skip"]
    assert names == [("proof", "passed"), *((leg, "passed") for leg in legs)]
    assert savings_checks(BROKEN)[0].outcome is Outcome.FAILED
    assert savings_checks(replace(PULL_REQUEST, proof=None))[0].outcome is Outcome.SKIPPED
