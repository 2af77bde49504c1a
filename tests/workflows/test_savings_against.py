from __future__ import annotations

from dataclasses import replace

import pytest

from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.kv_offload.real_scheduler import RequestRefusedError
from ecbench.measure.stages import StageClock
from ecbench.workflows import savings, savings_against
from ecbench.workflows.savings import exit_code_of, prepare_savings, run_savings
from ecbench.workflows.savings_request import SavingsOptions
from tests.kv_offload.fake_scheduler import FakeScheduler, flip


@pytest.fixture
def against(monkeypatch):
    """Runs with a fake in place of vLLM's scheduler."""

    def run(scheduler, **options):
        monkeypatch.setattr(savings, "open_scheduler", lambda *_: scheduler)
        asked = SavingsOptions(measure=None, prove=False, against="vllm", **{"tokens": ("2048",), **options})
        return run_savings(prepare_savings(asked), StageClock(), lambda _: None)

    return run


def test_only_the_policy_that_schedulers_implement_is_planned_by_default(against):
    result = against(FakeScheduler())
    assert [case.params["policy"] for case in result.cases] == ["vllm-0.33"] * 2
    assert exit_code_of(result) is ExitCode.OK


def test_a_scheduler_that_does_as_planned_leaves_no_difference(against):
    (case, _) = against(FakeScheduler()).cases
    assert case.against.ok
    assert case.against.scheduler == "vllm 0.33.0"
    assert case.against.stored_host_bytes == case.totals.stored_host_bytes
    assert case.against.replay_hit_tokens == case.replay_hit_tokens == 2048
    assert [group.stored_chunks for group in case.against.groups] == [group.stored_chunks for group in case.groups]


def test_a_difference_is_kept_with_its_first_chunk_and_fails(against):
    result = against(FakeScheduler(change=lambda _, scheduled: flip(scheduled, 0, 3)), retention_intervals=("none",))
    (difference, *_) = result.cases[0].against.differences
    assert (difference.what, difference.group, difference.first_chunk) == ("stored chunks", "swa-a", 3)
    assert (difference.ours, difference.theirs) == ("16", "15")
    assert exit_code_of(result) is ExitCode.CHECK_FAILED


def test_fewer_groups_than_planned_are_told(against):
    scheduler = FakeScheduler(change=lambda _, scheduled: replace(scheduled, groups=scheduled.groups[:3]))
    (case, _) = against(scheduler).cases
    assert [difference.what for difference in case.against.differences] == ["cache groups"]


def test_a_refusal_is_a_result_in_the_schedulers_words(against):
    def refuse(_):
        raise RequestRefusedError(
            "ValueError: prefix_cache_retention_interval is set but this model has no sliding-window"
        )

    result = against(FakeScheduler(before=refuse))
    refused = result.cases[0].against
    assert refused.refused.startswith("ValueError: prefix_cache_retention_interval is set")
    assert "no group is sliding" in refused.explained
    assert exit_code_of(result) is ExitCode.CHECK_FAILED


def test_the_layers_of_a_named_model_are_given_so_that_the_scheduler_groups_them_itself(against):
    scheduler = FakeScheduler()
    against(scheduler, eagle=True)
    caches = scheduler.asked[0].caches
    assert [cache.name for cache in caches[:3]] == ["layers.0.swa", "layers.1.swa", "layers.2.swa"]
    assert [cache.name for cache in caches if cache.draft] == ["layers.43.swa"]
    assert len(caches) == 22 + 22 + 62 + 42 + 20


def test_stand_ins_are_part_of_the_environment(against):
    assert against(FakeScheduler()).environment.stand_ins == ["config object"]


def test_steps_reach_the_scheduler(against):
    scheduler = FakeScheduler()
    result = against(scheduler, step_tokens=512)
    assert [request.step_tokens for request in scheduler.asked] == [512, 512]
    assert result.cases[0].params["step_tokens"] == 512


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"policies": ("pr",)}, "policy pr cannot be held against vllm: it implements vllm-0.33"),
        ({"alignment_tokens": 512}, "alignment of 512 tokens cannot be held against vllm"),
    ],
)
def test_what_has_no_counterpart_is_refused(against, options, told):
    with pytest.raises(EcbenchError, match=told):
        against(FakeScheduler(), **options)


STATES = """\
title = "States"

[[groups]]
name = "full"
kind = "full"
tokens_per_block = 16
[[groups.tensors]]
layers = 1
page_size_bytes = 64
real_page_size_bytes = 64

[[groups]]
name = "states"
kind = "mamba"
tokens_per_block = 16
mamba_cache_mode = "align"
[[groups.tensors]]
layers = 1
page_size_bytes = 64
real_page_size_bytes = 64
"""


@pytest.mark.parametrize("wrong", [False, True])
def test_of_mamba_states_only_what_is_stored_is_compared(against, tmp_path, wrong):
    (tmp_path / "states.toml").write_text(STATES)
    scheduler = FakeScheduler(change=lambda _, scheduled: flip(scheduled, 1, 2), masks_change=wrong)
    result = against(scheduler, models=(str(tmp_path / "states.toml"),), retention_intervals=("64",))
    compared = result.cases[0].against
    assert [group.name for group in compared.groups] == ["states"]
    assert [difference.first_chunk for difference in compared.differences] == ([2] if wrong else [])
    assert (compared.replay_hit_tokens, compared.stored_host_bytes) == (None, None)
    assert "bytes and hits are not" in compared.explained
    assert exit_code_of(result) is (ExitCode.CHECK_FAILED if wrong else ExitCode.OK)


def test_an_unknown_scheduler_lists_the_choices():
    with pytest.raises(EcbenchError, match="unknown scheduler 'sglang': choose one of vllm"):
        savings_against.open_scheduler("sglang", print)
    with pytest.raises(EcbenchError, match="unknown scheduler 'sglang': choose one of vllm"):
        prepare_savings(SavingsOptions(measure=None, tokens=("64",), against="sglang"))


FILE = """\
title = "Asks for itself"

[request]
tokens = 96
retention_interval = 32
blocks_per_chunk = 2
tensor_parallel = 2
host_layout = "replicated"
prefix_match_unit = 4
shared_prefix = 40
step_tokens = 10

[[groups]]
name = "full"
kind = "full"
tokens_per_block = 8
[[groups.tensors]]
layers = 1
page_size_bytes = 64
real_page_size_bytes = 64

[[groups]]
name = "window"
kind = "sliding"
tokens_per_block = 4
window_tokens = 8
[[groups.tensors]]
layers = 1
page_size_bytes = 64
real_page_size_bytes = 64
"""


def test_a_file_says_what_is_planned_where_the_options_do_not(against, tmp_path):
    (tmp_path / "asks.toml").write_text(FILE)
    scheduler = FakeScheduler()
    (case,) = against(scheduler, models=(str(tmp_path / "asks.toml"),), tokens=()).cases
    (request,) = scheduler.asked
    settings = request.settings
    assert (request.tokens, request.shared_prefix, request.step_tokens) == (96, 40, 10)
    assert (settings.retention_interval, settings.blocks_per_chunk, settings.prefix_match_unit) == (32, 2, 4)
    assert (settings.tensor_parallel, settings.host_layout) == (2, "replicated")
    assert request.caches is None
    assert case.params["prefix_match_unit"] == 4
    assert case.params["tp"] == 2


def test_options_come_before_the_file(against, tmp_path):
    (tmp_path / "asks.toml").write_text(FILE)
    scheduler = FakeScheduler()
    against(
        scheduler,
        models=(str(tmp_path / "asks.toml"),),
        tokens=("64",),
        retention_intervals=("none",),
        blocks_per_chunk=1,
        tensor_parallel=1,
    )
    (request,) = scheduler.asked
    assert (request.tokens, request.settings.retention_interval) == (64, None)
    assert (request.settings.blocks_per_chunk, request.settings.tensor_parallel) == (1, 1)
