from __future__ import annotations

from dataclasses import replace

import pytest

from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.kv_offload import GroupKind, requested_in
from ecbench.kv_offload.real_scheduler import RequestRefusedError
from ecbench.measure.stages import StageClock
from ecbench.workflows.savings import exit_code_of
from ecbench.workflows.savings_fuzz import MAX_SHRUNK, FuzzRun, check_fuzz_options, run_fuzz
from tests.kv_offload.fake_scheduler import FakeScheduler, flip


def fuzz(scheduler, requests=60, seed=1, out=None):
    return run_fuzz(FuzzRun("vllm", scheduler, requests, seed, out), StageClock(), lambda _: None)


def loses_a_chunk_of_wide_windows(request, scheduled):
    """A fault: the first stored chunk of a window of at least 7 tokens is lost."""
    for index, group in enumerate(request.model.groups):
        stored = scheduled.groups[index].stored
        if group.kind == GroupKind.SLIDING and group.window_tokens >= 7 and stored.any():
            return flip(scheduled, index, int(stored.argmax()))
    return scheduled


def test_a_scheduler_that_does_as_planned_leaves_nothing():
    result = fuzz(FakeScheduler())
    assert result.fuzz.ok
    assert (result.fuzz.masks, result.fuzz.scheduled) == (60, 60)
    assert result.complete
    assert result.cases == []
    assert result.environment.stand_ins == ["config object"]
    assert exit_code_of(result) is ExitCode.OK


def test_a_wrong_mask_is_found_made_small_and_saved(tmp_path):
    result = fuzz(FakeScheduler(change=loses_a_chunk_of_wide_windows, masks_change=True), out=tmp_path)
    finding = result.fuzz.findings[0]
    assert exit_code_of(result) is ExitCode.CHECK_FAILED
    assert (finding.check, finding.differences[0].what) == ("mask", "stored chunks")
    assert finding.request.endswith("sliding 1 window 7")
    assert result.fuzz.scheduled < result.fuzz.masks
    saved = tmp_path / f"fuzz-vllm-seed1-{finding.number}.toml"
    assert str(saved) == finding.scenario
    text = saved.read_text()
    assert "stored chunks of" in text
    assert f"--model {saved.name} --against vllm" in text
    assert requested_in(saved).tokens == int(finding.request.split()[1].rstrip(","))


def test_a_wrong_hit_is_found_by_the_whole_scheduler():
    def hits_less(request, scheduled):
        return replace(scheduled, replay_hit_tokens=0) if request.tokens > 9 else scheduled

    finding = fuzz(FakeScheduler(change=hits_less)).fuzz.findings[0]
    assert (finding.check, finding.differences[0].what) == ("scheduler", "replay hit in tokens")
    assert finding.request.startswith("tokens 10,")


def test_one_fault_is_shown_once_and_the_others_are_counted():
    tally = fuzz(FakeScheduler(change=loses_a_chunk_of_wide_windows, masks_change=True), requests=120).fuzz
    assert len({finding.request for finding in tally.findings}) == len(tally.findings)
    assert tally.also > 0


def test_no_more_than_a_few_differences_are_made_small():
    asked = []

    def refuse(request):
        asked.append(request)
        raise RequestRefusedError(f"AssertionError: {request.tokens} tokens")

    tally = fuzz(FakeScheduler(before=refuse), requests=MAX_SHRUNK + 5).fuzz
    assert len(tally.findings) + tally.also == MAX_SHRUNK + 5
    assert tally.findings[0].refused.startswith("AssertionError")


def test_known_refusals_are_counted_apart_and_fail_nothing():
    def refuse(request):
        if len(request.model.groups) == 1 and request.settings.prefix_match_unit:
            raise RequestRefusedError(
                "ValueError: Invalid prefix_match_unit=1; with a single KV cache group, hits land"
            )

    result = fuzz(FakeScheduler(before=refuse), requests=100)
    (known,) = result.fuzz.known
    assert known.name == "match-unit-of-one-group"
    assert known.requests > 1
    assert result.fuzz.scheduled == 100 - known.requests
    assert result.fuzz.ok
    assert exit_code_of(result) is ExitCode.OK


def test_ctrl_c_keeps_what_was_found_so_far():
    def interrupt(request):
        if len(scheduler.asked) == 20:
            raise KeyboardInterrupt

    scheduler = FakeScheduler(before=interrupt)
    result = fuzz(scheduler)
    assert not result.complete
    assert result.fuzz.masks == 20
    assert exit_code_of(result) is ExitCode.INTERRUPTED


def test_ctrl_c_while_a_difference_is_made_small_keeps_it(tmp_path):
    calls = []

    def interrupt(request):
        calls.append(request)
        if len(calls) == 3:
            raise KeyboardInterrupt

    scheduler = FakeScheduler(
        before=interrupt,
        change=lambda _, scheduled: replace(scheduled, replay_hit_tokens=scheduled.replay_hit_tokens + 1),
    )
    result = fuzz(scheduler, out=tmp_path)
    assert not result.complete
    assert len(result.fuzz.findings) == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("requests", "against", "models_given", "told"),
    [
        (10, None, False, "--fuzz needs a scheduler to ask: add --against vllm"),
        (0, "vllm", False, "--fuzz 0: give 1 to 10,000,000 requests"),
        (-1, "vllm", False, "--fuzz -1"),
        (10, "vllm", True, "leave out --model and --tokens"),
    ],
)
def test_what_makes_no_sense_is_refused(requests, against, models_given, told):
    with pytest.raises(EcbenchError, match=told):
        check_fuzz_options(requests, against, models_given=models_given)
