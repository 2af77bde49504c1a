"""Is it right, how far from the ceiling, and why."""

from __future__ import annotations

from msgspec.structs import replace

from ecbench.core.records import LegStatus
from ecbench.report.answers import answers
from ecbench.report.documents import Tone
from ecbench.stats.summary import recompute
from tests.report.samples import sample_result


def good_result(**environment):
    result = sample_result()
    case = replace(result.cases[0], legs=result.cases[0].legs[:1])
    changed = {"device": "cuda:0", "emulation": None, "stand_ins": [], **environment}
    return replace(result, environment=replace(result.environment, **changed), cases=[case])


def test_a_right_result_says_so_and_how_much_was_checked():
    right, how_far, why = answers(good_result())
    assert (right.text, right.tone) == ("Yes, every byte: 256 MiB checked in 1 leg.", Tone.GOOD)
    assert how_far.text == "Of one contiguous copy: save 0.90."
    assert why.text.startswith("Farthest off is ec-image-set/qwen2.5-vl-7b save: 10.0 ms against 9.00 ms.")
    assert "8 descriptors of 9.36 MiB on average" in why.text


def test_what_went_wrong_comes_first_and_is_named():
    right, *_ = answers(sample_result())
    assert right.tone is Tone.BAD
    assert right.text.startswith("NO. 2 of 4 legs went wrong: ec-image-set/qwen2.5-vl-7b load WRONG: swapped; ")
    assert right.text.endswith("1 skipped.")


def test_many_faults_are_counted():
    result = sample_result()
    right, *_ = answers(replace(result, cases=result.cases * 3))
    assert "and 3 more" in right.text


def test_emulation_and_the_host_are_never_taken_for_hardware():
    assert "EMULATED: this judges no hardware" in answers(sample_result())[1].text
    assert "judges ecbench's own overhead" in answers(good_result(device="cpu"))[1].text


def test_nothing_measured_is_nothing_known():
    result = sample_result()
    skipped = [replace(leg, status=LegStatus.SKIPPED, samples=[]) for leg in result.cases[0].legs]
    right, how_far, why = answers(recompute(replace(result, cases=[replace(result.cases[0], legs=skipped)])))
    assert right.text == "Nothing ran, so nothing is known."
    assert "nothing to set against it" in how_far.text
    assert why.text == "Nothing was measured."


def test_the_largest_cause_of_the_gap_is_named_first():
    result = good_result()
    leg = result.cases[0].legs[0]
    samples = [replace(sample, fill_s=0.02, total_s=0.03, copy_s=0.009, submit_s=0.0) for sample in leg.samples]
    slow = recompute(replace(result, cases=[replace(result.cases[0], legs=[replace(leg, samples=samples)])]))
    assert "Of what it takes more, filling descriptors is 95%" in answers(slow)[2].text


def test_a_leg_at_the_ceiling_has_no_gap():
    result = good_result()
    leg = result.cases[0].legs[0]
    samples = [replace(sample, ceiling_s=sample.total_s) for sample in leg.samples]
    fast = recompute(replace(result, cases=[replace(result.cases[0], legs=[replace(leg, samples=samples)])]))
    assert "no gap to explain" in answers(fast)[2].text
