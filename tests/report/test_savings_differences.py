from __future__ import annotations

import io
from xml.etree import ElementTree as ET

import msgspec
import pytest
from rich.console import Console

from ecbench.core.differential_records import (
    FuzzFinding,
    FuzzTally,
    KnownDifferences,
    PlanDifference,
    ScheduledGroup,
    SchedulerComparison,
)
from ecbench.core.savings_records import SavingsResult
from ecbench.report.checks import Outcome
from ecbench.report.descriptions.savings import describe_savings
from ecbench.report.formats.document_console import print_document
from ecbench.report.formats.document_markdown import render_document_markdown
from ecbench.report.formats.html import Page, render_html
from ecbench.report.formats.junit import render_junit
from ecbench.report.savings_checks import fuzz_checks, savings_checks
from tests.conftest import GOLDEN

RESULT = msgspec.json.decode((GOLDEN / "savings_result.json").read_bytes(), type=SavingsResult)
CASE = RESULT.cases[0]
EQUAL = SchedulerComparison(
    scheduler="vllm 0.33.0",
    groups=[
        ScheduledGroup(
            name=group.name,
            tokens_per_block=group.tokens_per_block,
            full_chunks=group.full_chunks,
            stored_chunks=group.stored_chunks,
        )
        for group in CASE.groups
    ],
    stored_real_bytes=CASE.totals.stored_real_bytes,
    stored_host_bytes=CASE.totals.stored_host_bytes,
    replay_hit_tokens=CASE.replay_hit_tokens,
)
DIFFERENCE = PlanDifference(what="stored chunks", group=CASE.groups[0].name, ours="8", theirs="7", first_chunk=3)
HIT = PlanDifference(what="replay hit in tokens", ours="2,048", theirs="0")
DIFFERENT = msgspec.structs.replace(EQUAL, differences=[DIFFERENCE, HIT])
REFUSED = SchedulerComparison(scheduler="vllm 0.33.0", refused="ValueError: no", explained="it never does")
TALLY = FuzzTally(
    scheduler="vllm 0.33.0",
    seed=7,
    asked=100,
    masks=100,
    scheduled=99,
    known=[KnownDifferences(name="freed-before-whole", reason="blocks are given away", requests=3, first=12)],
    findings=[
        FuzzFinding(
            number=4,
            check="mask",
            differences=[DIFFERENCE],
            request="tokens 1; sliding 1 window 1",
            scenario="reports/fuzz-vllm-seed7-4.toml",
        ),
        FuzzFinding(number=9, check="scheduler", differences=[], refused="AssertionError: odd", request="tokens 2"),
    ],
    also=2,
)


def with_against(against):
    return msgspec.structs.replace(RESULT, cases=[msgspec.structs.replace(CASE, against=against)])


def with_fuzz(tally):
    return SavingsResult(**{**msgspec.structs.asdict(RESULT), "cases": [], "fuzz": tally})


def in_every_format(result):
    document = describe_savings(result)
    stream = io.StringIO()
    print_document(document, Console(file=stream, width=240, highlight=False))
    return {
        "console": stream.getvalue(),
        "markdown": render_document_markdown(document),
        "html": render_html([Page(document, ())]),
    }


@pytest.mark.parametrize("how", ["console", "markdown", "html"])
def test_equal_plans_are_shown_side_by_side(how):
    text = in_every_format(with_against(EQUAL))[how]
    assert "Does vllm 0.33.0 do the same?" in text
    assert "Yes, in 1 case." in text
    assert f"{CASE.case_id} against vllm 0.33.0" in text
    assert f"host bytes: {CASE.totals.stored_host_bytes:,} planned, {CASE.totals.stored_host_bytes:,} by the" in text


@pytest.mark.parametrize("how", ["console", "markdown", "html"])
def test_a_difference_is_shown_with_both_numbers_and_its_first_chunk(how):
    text = in_every_format(with_against(DIFFERENT))[how]
    assert f"stored chunks of {CASE.groups[0].name}: 8 planned, 7 by the scheduler, first chunk 3" in text
    assert "DIFFERS: replay hit in tokens: 2,048 planned, 0 by the scheduler" in text
    assert "NO: " in text


@pytest.mark.parametrize("how", ["console", "markdown", "html"])
def test_a_refusal_is_shown_in_the_schedulers_words_with_why_where_that_is_known(how):
    text = in_every_format(with_against(REFUSED))[how]
    assert "vllm 0.33.0 refuses: ValueError: no" in text
    assert "known: it never does" in text


def test_a_scheduler_that_was_not_asked_is_not_mentioned():
    text = in_every_format(with_against(None))["console"]
    assert "do the same" not in text
    assert "against" not in text


@pytest.mark.parametrize("how", ["console", "markdown", "html"])
def test_a_fuzz_run_shows_differences_in_their_smallest_form_and_the_known_ones_apart(how):
    text = in_every_format(with_fuzz(TALLY))[how]
    for words in (
        "NO: 2 differences in smallest form, 2 more requests",
        "100 requests by what each group stores, 99 by the whole scheduler, seed 7; 3 requests differ or",
        "tokens 1; sliding 1 window 1",
        "fuzz-vllm-seed7-4.toml",
        "AssertionError: odd",
        "freed-before-whole",
        "blocks are given away",
        "DRAWN REQUESTS",
    ):
        assert words in text
    assert "PLANNED ONLY" not in text
    assert "host memory hold" not in text


def test_a_fuzz_run_without_differences_says_so():
    clean = msgspec.structs.replace(TALLY, findings=[], also=0, known=[])
    text = in_every_format(with_fuzz(clean))["console"]
    assert "Yes: 100 requests by what each group stores, 99 by the whole scheduler, seed 7." in text
    assert "smallest form" not in text
    assert "Known differences" not in text


@pytest.mark.parametrize(
    ("against", "outcome"), [(EQUAL, Outcome.PASSED), (DIFFERENT, Outcome.FAILED), (REFUSED, Outcome.FAILED)]
)
def test_a_comparison_is_a_check(against, outcome):
    checks = {line.name: line for line in savings_checks(msgspec.structs.replace(CASE, against=against))}
    assert checks["against vllm 0.33.0"].outcome is outcome


def test_each_difference_of_a_fuzz_run_is_a_failed_check_and_a_clean_run_one_that_passed():
    failed = fuzz_checks(with_fuzz(TALLY))
    assert [(line.name, line.outcome, line.path) for line in failed] == [
        ("request 4, mask", Outcome.FAILED, "reports/fuzz-vllm-seed7-4.toml"),
        ("request 9, scheduler", Outcome.FAILED, None),
        ("100 requests against vllm 0.33.0, seed 7", Outcome.FAILED, None),
    ]
    assert "tokens 1; sliding 1 window 1: " in failed[0].message
    assert "AssertionError: odd" in failed[1].message
    clean = fuzz_checks(with_fuzz(msgspec.structs.replace(TALLY, findings=[], also=0)))
    assert [line.outcome for line in clean] == [Outcome.PASSED]
    assert fuzz_checks(with_against(EQUAL)) == []


def test_junit_counts_the_checks_of_a_fuzz_run():
    (suite,) = ET.fromstring(render_junit([with_fuzz(TALLY)]))
    assert (suite.get("tests"), suite.get("failures")) == ("3", "3")


def test_results_keep_what_was_compared_and_drawn():
    for result in (with_against(DIFFERENT), with_fuzz(TALLY)):
        assert msgspec.json.decode(msgspec.json.encode(result), type=SavingsResult).fuzz == getattr(
            result, "fuzz", None
        )
