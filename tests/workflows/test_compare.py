from __future__ import annotations

import pytest

from ecbench.core.comparison_records import FailOn
from ecbench.core.errors import DataError, EcbenchError, ExitCode
from ecbench.core.records import to_json
from ecbench.workflows.compare import CompareOptions, exit_code_of, run_compare
from tests.comparison_samples import base_result, case, failed_leg, leg, noisy_result, result, slower_result


@pytest.fixture
def compare(tmp_path):
    def run(base, new, **options):
        paths = [tmp_path / name for name in ("base.json", "new.json")]
        for path, content in zip(paths, (base, new), strict=True):
            path.write_bytes(to_json(content))
        return run_compare(CompareOptions(*paths, **options))

    return run


MORE = result(case(leg(processes=8, seed=1)), case(leg(), case_id="more", model="m"))
LESS_COMMON = result(case(leg(processes=8)), case(leg(), case_id="less", model="m"))


@pytest.mark.parametrize(
    ("base", "new", "codes"),
    [
        # never, regressed, inconclusive, any
        (base_result(), slower_result(0.0), (0, 0, 0, 0)),
        (base_result(), slower_result(0.5), (0, 1, 1, 1)),
        (base_result(), result(case(failed_leg())), (0, 1, 1, 1)),
        (base_result(), result(case(leg(processes=8, seed=1, descriptors=9))), (0, 1, 1, 1)),
        (base_result(), slower_result(-0.5), (0, 0, 0, 1)),
        (base_result(), noisy_result(), (0, 0, 5, 5)),
        (base_result(), slower_result(0.0, environment={"host_cpu": "another"}), (0, 0, 5, 5)),
        (base_result(), MORE, (0, 0, 0, 1)),
        (LESS_COMMON, slower_result(0.0), (0, 0, 5, 1)),
        (base_result(), result(case(leg(processes=8, seed=1), case_id="renamed")), (0, 0, 0, 1)),
    ],
    ids=["same", "slower", "bytes", "figures", "faster", "noisy", "machine", "added", "missing", "renamed"],
)
def test_the_exit_code_is_what_fail_on_asks_for(compare, base, new, codes):
    compared = compare(base, new)
    assert tuple(int(exit_code_of(compared, fail_on)) for fail_on in FailOn) == codes


def test_the_comparison_keeps_what_was_asked(compare):
    compared = compare(base_result(), slower_result(0.3), threshold="40%", metric="copy_s", under_test=("torch",))
    assert compared.kind == "compare"
    assert compared.compared_kind == "roundtrip"
    assert compared.settings["threshold"] == pytest.approx(0.4)
    assert compared.settings["under_test"] == ["torch"]
    assert compared.cases[0].legs[0].times.metric == "copy_s"
    assert exit_code_of(compared, FailOn.ANY) is ExitCode.OK


def test_a_time_per_ceiling_is_compared_without_a_unit(compare):
    compared = compare(base_result(), slower_result(0.3), metric="total_per_ceiling")
    times = compared.cases[0].legs[0].times
    assert times.base_median == pytest.approx(1.25, rel=0.02)
    assert times.verdict.value == "regressed"


def test_bad_options_and_files_are_refused(compare, tmp_path):
    with pytest.raises(EcbenchError, match="unknown metric 'speed'"):
        compare(base_result(), base_result(), metric="speed")
    with pytest.raises(EcbenchError, match="threshold 'much'"):
        compare(base_result(), base_result(), threshold="much")
    with pytest.raises(DataError, match="cannot be read"):
        run_compare(CompareOptions(tmp_path / "none.json", tmp_path / "none.json"))
