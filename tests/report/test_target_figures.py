"""Targets of one run side by side."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from ecbench.core.records import LegStatus
from ecbench.report.descriptions.round_trip import describe_round_trip
from ecbench.report.formats.console import print_round_trip
from ecbench.report.formats.markdown import render_markdown
from ecbench.report.target_figures import TARGET_COLUMNS, TARGET_HEADING, target_rows
from tests.report.samples import sample_result

replace = msgspec.structs.replace


def slower(leg, factor=2.0, rounds=None):
    samples = [
        replace(
            sample, **{name: getattr(sample, name) * factor for name in ("total_s", "fill_s", "submit_s", "copy_s")}
        )
        for sample in leg.samples[:rounds]
    ]
    return replace(leg, samples=samples)


def both(**changes):
    """The sample's first case on the reference and, every part twice as slow, on vLLM."""
    reference = sample_result().cases[0]
    reference = replace(reference, legs=reference.legs[:1])
    vllm = replace(
        reference,
        case_id=f"{reference.case_id}@vllm",
        params={**reference.params, "target": "vllm"},
        legs=[slower(leg, **changes) for leg in reference.legs],
    )
    return sample_result(cases=[reference, vllm])


def test_each_part_is_set_against_the_reference_s():
    ((case, leg, *ratios),) = target_rows(both())
    assert (case, leg) == ("ec-image-set/qwen2.5-vl-7b@vllm", "save")
    assert len(ratios) == len(TARGET_COLUMNS) - 2
    assert all(ratio.startswith("2.00 (1.87 to 2.14)") for ratio in ratios)


def test_with_few_rounds_there_is_no_interval():
    ((_, _, *ratios),) = target_rows(both(rounds=6))
    assert set(map(len, ratios)) == {4}


def test_wrong_bytes_have_no_ratio():
    result = both()
    reference, vllm = result.cases
    failed = replace(vllm, legs=[replace(leg, status=LegStatus.FAILED) for leg in vllm.legs])
    ((_, _, *ratios),) = target_rows(replace(result, cases=[reference, failed]))
    assert set(ratios) == {"-"}


def test_a_part_that_took_no_time_has_no_ratio():
    result = both()
    reference, vllm = result.cases
    (leg,) = vllm.legs
    unfilled = replace(leg, samples=[replace(sample, fill_s=0.0) for sample in leg.samples])
    ((_, _, total, fill, *_),) = target_rows(replace(result, cases=[reference, replace(vllm, legs=[unfilled])]))
    assert (total[:4], fill) == ("2.00", "-")


@pytest.mark.parametrize("cases", [slice(0, 1), slice(1, 2)])
def test_one_target_alone_has_no_table(cases):
    result = both()
    alone = replace(result, cases=result.cases[cases])
    assert target_rows(alone) == []
    assert TARGET_HEADING not in render_markdown(alone)
    assert TARGET_HEADING not in [section.heading for section in describe_round_trip(alone).sections]


def test_every_format_has_the_table():
    stream = io.StringIO()
    print_round_trip(both(), Console(file=stream, width=200))
    assert "2.00 (1.87 to 2.14)" in stream.getvalue()
    assert "2.00 (1.87 to 2.14)" in render_markdown(both())
    section = describe_round_trip(both()).sections[-1]
    assert (section.heading, len(section.table.rows)) == (TARGET_HEADING, 1)
