from __future__ import annotations

import io

import jsonschema
import msgspec
from rich.console import Console

from ecbench.core.comparison_records import ComparisonResult, Reason
from ecbench.core.records import to_json
from ecbench.report.checks import Outcome
from ecbench.report.comparison_figures import MAX_DIFFERENCES, details, reason_words, summary
from ecbench.report.descriptions.verdicts import describe_verdicts, verdict_checks
from ecbench.report.documents import Tone
from ecbench.report.formats.comparison_console import print_comparison
from ecbench.report.formats.comparison_markdown import render_comparison_markdown
from ecbench.report.formats.document_markdown import render_document_markdown
from ecbench.report.schema import results_schema
from ecbench.workflows.comparable import comparable
from ecbench.workflows.comparison import compare_results
from ecbench.workflows.timing_rules import TimingRule
from tests.comparison_samples import case, failed_leg, leg, result
from tests.golden_files import assert_matches_golden


def _legs(*, seed, slowdown=0.0, **changes):
    return (
        leg("save", processes=8, slowdown=slowdown, seed=seed, **changes),
        leg("load", processes=8, seed=seed + 1),
    )


def _comparison(*, environment=None):
    """A case of every kind of verdict, and one of each that is missing, added or renamed."""
    base = result(
        case(*_legs(seed=1), case_id="plain/m"),
        case(*_legs(seed=3), case_id="slow/m", model="b"),
        case(*_legs(seed=5), case_id="before/m", model="c"),
        case(leg(), case_id="gone/m", model="d"),
        case(leg(), case_id="bytes/m", model="f"),
        case(*_legs(seed=7), case_id="faster/m", model="g"),
    )
    new = result(
        case(*_legs(seed=11, noise=0.5), case_id="plain/m"),
        case(*_legs(seed=13, slowdown=0.4), case_id="slow/m", model="b"),
        case(*_legs(seed=15, slowdown=-0.4, descriptors=288), case_id="after/m", model="c"),
        case(failed_leg(), case_id="bytes/m", model="f"),
        case(*_legs(seed=17, slowdown=-0.3), case_id="faster/m", model="g"),
        case(leg(), case_id="odd/<b>|`x`", model="e"),
        environment={"numpy": "2.5.0", **(environment or {})},
        started_at="2026-02-03T04:05:06+00:00",
    )
    compared = compare_results(
        comparable(base), comparable(new), kind="compare", rules=[TimingRule()], under_test=(), settings={}
    )
    return msgspec.structs.replace(compared, started_at="2026-02-03T05:00:00+00:00")


def _console_text(compared, width=200):
    stream = io.StringIO()
    print_comparison(compared, Console(file=stream, width=width, highlight=False))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def test_the_console_shows_differences_a_row_per_leg_and_how_it_ended():
    assert_matches_golden("verdicts.txt", _console_text(_comparison()))


def test_markdown_shows_the_same():
    assert_matches_golden("verdicts.md", render_comparison_markdown(_comparison()))


def test_a_refusal_of_times_stands_before_any_number():
    compared = _comparison(environment={"host_cpu": "another CPU"})
    for text in (_console_text(compared), render_comparison_markdown(compared)):
        assert text.index("host CPU Example CPU and another CPU") < text.index("slow/m")
        assert "times are not comparable" in text
        assert "bytes are wrong: swapped" in text


def test_eighty_columns_hold_every_verdict_whole():
    text = _console_text(_comparison(), 80)
    assert_matches_golden("verdicts-80.txt", text)
    assert text.count("INCONCLUSIVE") == 2
    assert max(map(len, text.splitlines())) <= 80


def test_json_matches_its_schema_and_comes_back():
    compared = _comparison()
    data = to_json(compared)
    jsonschema.validate(msgspec.json.decode(data), results_schema())
    assert msgspec.json.decode(data, type=ComparisonResult) == compared


def test_long_lists_of_differences_are_cut_with_their_number():
    compared = _comparison()
    (entry,) = [entry for entry in compared.cases if entry.case_id == "after/m"]
    save = entry.legs[0]
    many = msgspec.structs.replace(save, differences=save.differences * (MAX_DIFFERENCES + 5))
    long = msgspec.structs.replace(compared, cases=[msgspec.structs.replace(entry, legs=[many])])
    lines = details(long)
    assert len(lines) == MAX_DIFFERENCES + 1
    assert lines[-1].endswith("5 more exact figures differ")


def test_a_comparison_without_times_has_no_mean():
    compared = _comparison(environment={"host_cpu": "another CPU"})
    assert "geometric mean" not in summary(compared)
    assert "geometric mean" in summary(_comparison())


def test_every_reason_reads_as_words():
    assert all(reason_words(reason).replace(" ", "_") == reason.value for reason in Reason)


def test_a_document_says_the_same_in_every_other_format():
    compared = _comparison()
    document = describe_verdicts(compared)
    (section,) = document.shown_sections
    assert [row.tone for row in section.table.rows].count(Tone.BAD) == 3
    assert document.answers[0].tone is Tone.BAD
    assert document.warnings == ("numpy: 2.4.6 (base), 2.5.0 (new); times are compared",)
    assert render_document_markdown(document).count("REGRESSED") == 3


def test_checks_fail_for_regressions_and_say_what_is_inconclusive():
    lines = {(line.group, line.name): line for entry in _comparison().cases for line in verdict_checks(entry)}
    assert lines["slow/m", "save"].outcome is Outcome.FAILED
    assert lines["slow/m", "save"].label == "slower_beyond_threshold"
    assert "ratio 1.398" in lines["slow/m", "save"].details
    assert (lines["plain/m", "save"].outcome, lines["plain/m", "save"].message) == (Outcome.INCONCLUSIVE, "too noisy")
    assert (lines["faster/m", "save"].outcome, lines["faster/m", "save"].message) == (Outcome.PASSED, "")
    assert "swapped" in lines["bytes/m", "save"].message


def test_a_comparison_of_nothing_has_not_got_worse():
    assert describe_verdicts(msgspec.structs.replace(_comparison(), cases=[])).answers[0].tone is Tone.GOOD
