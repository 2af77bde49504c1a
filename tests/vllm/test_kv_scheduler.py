"""Our plans against the installed vLLM's planner and offloading scheduler."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest

from ecbench.kv_offload import (
    HostLayout,
    ModelOptions,
    OffloadSettings,
    load_model,
    planning,
    policies,
    registered_caches,
)
from ecbench.kv_offload.differential import compare_plan
from ecbench.kv_offload.fuzzing import draw_request
from ecbench.kv_offload.known_differences import known_difference, known_refusal
from ecbench.kv_offload.real_scheduler import RequestRefusedError, SchedulerRequest
from ecbench.measure.stages import StageClock
from ecbench.targets.vllm.kv_scheduler import STAND_INS, VllmScheduler
from ecbench.workflows.savings_against import hold_against
from ecbench.workflows.savings_fuzz import FuzzRun, run_fuzz
from ecbench.workflows.savings_request import SavingsOptions, requested_plans
from tests.kv_offload.golden_runs import RUNS, model_of, plan_of, run_id
from tests.kv_offload.hybrids import group, hybrid

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def scheduler():
    return VllmScheduler()


def named(name, tokens, settings=None, **options):
    """A request of a named model, whose layers vLLM groups itself."""
    model_options = ModelOptions(**options)
    return SchedulerRequest(
        model=load_model(name, **options),
        tokens=tokens,
        settings=settings or OffloadSettings(),
        caches=registered_caches(name, model_options),
    )


def golden_request(run):
    options = ModelOptions(
        cache_dtype=run["kv_cache_dtype"],
        indexer="mxfp4" if run["fp4_indexer"] else "fp8",
        mtp=bool(run["mtp"]),
        eagle=run["eagle"],
        block_size=run["block_size"],
        sliding_window=run["sliding_window"],
    )
    return SchedulerRequest(
        model=model_of(run),
        tokens=run["tokens"],
        settings=OffloadSettings(
            retention_interval=run["retention_interval"], blocks_per_chunk=run["blocks_per_chunk"]
        ),
        caches=registered_caches(f"deepseek-v4-{run['model']}", options),
    )


@pytest.mark.parametrize("run", RUNS, ids=run_id)
def test_every_golden_run_is_what_the_installed_scheduler_does(scheduler, run):
    scheduled = scheduler.schedule(golden_request(run))
    shared = ("alignment_tokens", "scheduler_block_size", "hash_block_size", "block_stride_bytes", "host_slot_bytes")
    assert [getattr(scheduled, name) for name in shared] == [run[name] for name in shared]
    assert scheduled.replay_hit_tokens == run["replay_hit_tokens"]
    assert [one.stored_chunks for one in scheduled.groups] == [one["stored_chunks"] for one in run["groups"]]
    assert [one.caches for one in scheduled.groups] == [one["layers"] for one in run["groups"]]
    assert [one.eagle for one in scheduled.groups] == [one["eagle"] for one in run["groups"]]
    assert compare_plan(plan_of(run), scheduled) == ()


@pytest.mark.parametrize(
    "request_",
    [
        named("deepseek-v4-flash", 5000, mtp=True),
        named("deepseek-v4-pro", 5000, eagle=True),
        named("deepseek-v4-pro", 5000, OffloadSettings(retention_interval=0), eagle=True),
        named("deepseek-v4-flash", 2500, OffloadSettings(tensor_parallel=4, blocks_per_chunk=4)),
        named("deepseek-v4-flash", 3000, cache_dtype="fp8"),
    ],
    ids=["flash-mtp", "pro-eagle", "pro-eagle-retention-0", "tp-4", "fp8"],
)
def test_other_models_and_settings_do_not_differ(scheduler, request_):
    assert compare_plan(request_.plan(), scheduler.schedule(request_)) == ()


def test_a_replicated_layout_takes_the_published_bytes_and_names_its_stand_in():
    scheduler = VllmScheduler()
    settings = OffloadSettings(tensor_parallel=4, blocks_per_chunk=4, host_layout=HostLayout.REPLICATED)
    scheduled = scheduler.schedule(named("deepseek-v4-flash", 2500, settings))
    assert scheduled.stored_host_bytes == 92_229_632
    assert scheduler.stand_ins == (*STAND_INS, "shared host region (taken to be there, only its sizes count)")


@pytest.mark.parametrize("step", [64, 1000, 4096])
def test_a_prompt_that_is_computed_in_steps_is_stored_alike(scheduler, step):
    request = msgspec.structs.replace(named("deepseek-v4-flash", 10_000), step_tokens=step)
    assert compare_plan(request.plan(), scheduler.schedule(request)) == ()


def test_a_shared_prefix_keeps_its_tail(scheduler):
    settings = OffloadSettings(retention_interval=0)
    request = msgspec.structs.replace(named("deepseek-v4-flash", 4096, settings), shared_prefix=1030)
    scheduled = scheduler.schedule(request)
    assert scheduled.groups[0].stored.nonzero()[0].tolist() == [14, 15, 58, 59]
    assert compare_plan(request.plan(), scheduled) == ()


def test_what_vllm_refuses_is_a_result_in_its_own_words(scheduler):
    request = SchedulerRequest(
        model=hybrid(group("full", "full", 16)), tokens=64, settings=OffloadSettings(retention_interval=16)
    )
    compared = hold_against("vllm", scheduler, request, request.plan())
    assert compared.refused.startswith("ValueError: prefix_cache_retention_interval is set")
    assert compared.explained is not None


def test_states_are_refused_before_vllm_is_asked(scheduler):
    request = SchedulerRequest(
        model=hybrid(group("states", "mamba", 16, mamba_cache_mode="align")), tokens=64, settings=OffloadSettings()
    )
    with pytest.raises(RequestRefusedError, match="keeps Mamba states"):
        scheduler.schedule(request)


def test_200_drawn_requests_do_not_differ_but_for_known_reasons(scheduler):
    result = run_fuzz(FuzzRun("vllm", scheduler, 200, 6, None), StageClock(), lambda _: None)
    assert result.fuzz.findings == []
    assert result.fuzz.ok
    refused = sum(known.requests for known in result.fuzz.known if known.name != "freed-before-whole")
    assert result.fuzz.scheduled + refused == 200


def test_blocks_that_are_given_away_early_are_the_only_difference_of_steps(scheduler):
    settings = OffloadSettings(blocks_per_chunk=4)
    request = SchedulerRequest(
        model=hybrid(group("full", "full", 1), group("window", "sliding", 3, 1)),
        tokens=12,
        settings=settings,
        step_tokens=1,
    )
    plan, scheduled = request.plan(), scheduler.schedule(request)
    differences = compare_plan(plan, scheduled)
    assert not differences or known_difference(request, plan, scheduled) is not None


def test_a_wrong_rule_is_found_made_small_saved_and_shown_again(scheduler, tmp_path, monkeypatch):
    right = policies.tail_rule

    def one_token_more(tokens_per_block, window, *arguments, eagle):
        return right(tokens_per_block, window + 1, *arguments, eagle=eagle)

    monkeypatch.setattr(policies, "tail_rule", one_token_more)
    planning._prepare.cache_clear()
    try:
        result = run_fuzz(FuzzRun("vllm", scheduler, 150, 0, tmp_path), StageClock(), lambda _: None)
        (finding, *_) = result.fuzz.findings
        assert finding.request.endswith("sliding 1 window 1")
        (case,) = requested_plans(SavingsOptions(models=(finding.scenario,), against="vllm", measure=None))
        compared = hold_against("vllm", scheduler, case.request(), case.plan())
        assert [difference.what for difference in compared.differences][:1] == ["stored chunks"]
    finally:
        planning._prepare.cache_clear()


def test_what_vllm_refuses_of_drawn_requests_is_known(scheduler):
    refusals = []
    for number in range(150):
        try:
            scheduler.schedule(draw_request(11, number))
        except RequestRefusedError as refusal:
            refusals.append(str(refusal))
    assert refusals
    assert [words for words in refusals if known_refusal(words) is None] == []


def test_the_command_prints_json_alone_and_exits_0(tmp_path):
    arguments = (
        "--against",
        "vllm",
        "--no-measure",
        "--tokens",
        "2048",
        "--json",
        "-",
        "--quiet",
        "--out",
        str(tmp_path),
    )
    done = subprocess.run(
        [sys.executable, "-m", "ecbench", "dsv4-swa-savings", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)["cases"]
    assert [case["against"]["differences"] for case in cases] == [[], []]
