from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ecbench.core.errors import EcbenchError
from ecbench.kv_offload import HostLayout, OffloadSettings, load_model, plan_store
from ecbench.measure.stages import StageClock
from ecbench.report.plots.stored_chunks import expand_runs
from ecbench.workflows.savings import prepare_savings, run_savings
from ecbench.workflows.savings_case import replay_hit, stored_runs, without_skip
from ecbench.workflows.savings_copies import LEAST_ROUNDS, MAX_ROUNDS, CopyMeasurement
from ecbench.workflows.savings_request import SavingsOptions

FLASH = load_model("deepseek-v4-flash")
KIB, MIB = 1 << 10, 1 << 20


def planned(**options):
    result = run_savings(prepare_savings(SavingsOptions(measure=None, **options)), StageClock(), lambda _: None)
    return result.cases


def measured(budget_s, memory_bytes=64 * MIB, tokens="2048", policies=("pr",)):
    how = CopyMeasurement(budget_s=budget_s, memory_limit_bytes=memory_bytes)
    options = SavingsOptions(measure=how, tokens=(tokens,), policies=policies, device="cpu")
    (case,) = run_savings(prepare_savings(options), StageClock(), lambda _: None).cases
    return case


def chunks_of(runs):
    parts = [np.arange(first, end) for first, end in expand_runs(runs)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


@given(arrays(np.bool_, st.integers(0, 200)))
def test_runs_that_repeat_hold_exactly_the_chunks_of_any_mask(stored):
    np.testing.assert_array_equal(chunks_of(stored_runs(stored)), np.flatnonzero(stored))


@given(st.integers(1, 400_000), st.sampled_from([None, 0, 4096]), st.sampled_from(["pr", "vllm-0.33"]))
def test_a_few_runs_are_the_whole_of_a_policys_mask(tokens, retention, policy):
    plan = plan_store(FLASH, tokens, OffloadSettings(policy=policy, retention_interval=retention))
    for group in plan.groups:
        runs = stored_runs(group.stored)
        assert len(runs) <= 6
        np.testing.assert_array_equal(chunks_of(runs), group.chunk_ids())


def test_without_the_skip_every_chunk_is_stored_and_a_replay_hits_all_it_can():
    plan = plan_store(FLASH, 100_000, OffloadSettings(retention_interval=0))
    full = without_skip(plan)
    assert full.totals.all_stored_chunks == plan.totals.all_full_chunks
    assert full.totals.stored_real_bytes == plan.totals.full_real_bytes
    assert replay_hit(full) == replay_hit(plan) == 99_840


def test_a_policy_that_knows_no_retention_is_shown_once():
    cases = planned(tokens=("2048",), retention_intervals=("0,none", "4096"))
    shown = [(case.params["policy"], case.params["retention_interval"]) for case in cases]
    assert shown == [("pr", None), ("vllm-0.33", 0), ("vllm-0.33", None), ("vllm-0.33", 4096)]


def test_entries_that_are_given_twice_are_planned_once():
    assert len(planned(tokens=("2048,2048", "2048"), policies=("pr",))) == 1


def test_params_say_what_was_chosen_and_what_it_came_to():
    (case,) = planned(
        tokens=("4096",),
        policies=("pr",),
        eagle=True,
        tensor_parallel=4,
        blocks_per_chunk=4,
        host_layout=HostLayout.REPLICATED,
    )
    assert case.params["tp"] == 4
    assert (case.params["eagle"], case.params["mtp"]) == (True, True)
    assert (case.params["blocks_per_chunk"], case.copies) == (4, 1)


def test_block_sizes_that_do_not_fit_a_setting_are_left_out_of_the_curve():
    (case,) = planned(tokens=("100000",), policies=("pr",), alignment_tokens=256)
    assert [savings.block_size for savings in case.by_block_size] == [16, 32, 64, 128, 256]


def test_too_many_cases_are_refused():
    tokens = ",".join(map(str, range(1, 1002)))
    with pytest.raises(EcbenchError, match="1001 cases are asked for: give shorter lists, up to 1000"):
        prepare_savings(SavingsOptions(measure=None, tokens=(tokens,), policies=("pr",)))


def test_a_short_budget_runs_the_least_rounds_and_a_long_one_stops_where_nothing_new_is_learnt():
    short = measured(budget_s=1e-3)
    assert len(short.legs[0].samples) == LEAST_ROUNDS
    long = measured(budget_s=600.0, tokens="256")
    assert {len(leg.samples) for leg in long.legs if leg.samples} == {MAX_ROUNDS}


def test_a_prompt_that_fits_is_copied_whole():
    case = measured(budget_s=5.0, memory_bytes=512 * MIB, tokens="256")
    assert (case.sample.store_fraction, case.sample.load_fraction) == (1.0, 1.0)
    assert case.legs[0].copied_bytes == case.totals.all_stored_chunks * case.block_stride_bytes
    assert case.sample.notes == []


def test_what_cannot_be_measured_is_skipped_with_the_reason(monkeypatch):
    monkeypatch.setattr("ecbench.workflows.savings_copies.shm_free_bytes", lambda: 64 * KIB)
    case = measured(budget_s=1e-3)
    assert [leg.status for leg in case.legs] == ["skipped", "skipped"]
    assert all("one chunk of every group takes" in leg.reason for leg in case.legs)
