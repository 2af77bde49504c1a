"""Results as pandas tables and as CSV."""

from __future__ import annotations

import csv
import io
import subprocess
import sys

import msgspec
import pandas as pd
import pytest
from msgspec.structs import replace

import ecbench
from ecbench.core.errors import DataError
from ecbench.core.records import to_json
from ecbench.report.formats.csv_file import defused
from ecbench.report.formats.names import ReportFormat
from ecbench.report.tables import samples_table, unmeasured_table
from ecbench.workflows.reporting import Report, render_files, render_text
from tests.report.hostile import hostile_result
from tests.report.samples import sample_result
from tests.report.sweeps import sweep_result


@pytest.fixture
def saved(tmp_path):
    def save(result):
        path = tmp_path / "result.json"
        path.write_bytes(to_json(result))
        return path

    return save


def test_a_notebook_gets_a_row_per_sample_with_units_in_the_names(saved):
    table = ecbench.load(saved(sample_result()))
    assert len(table) == 8
    assert {"total_s", "fill_s", "submit_s", "copy_s", "ceiling_s", "copied_bytes", "bandwidth_bytes_per_s"} <= {*table}
    first = table.iloc[0]
    assert (first["case_id"], first["direction"], first["status"]) == ("ec-image-set/qwen2.5-vl-7b", "save", "passed")
    assert first["bandwidth_bytes_per_s"] == pytest.approx(78_503_936 / 0.010)
    assert first["ceiling_ratio"] == pytest.approx(0.9)
    assert table["param_block_size_bytes"].dtype.kind == "i"
    assert (table["param_images"] == "8 x 1024x1024").all()


def test_medians_by_group_are_those_of_the_report(saved):
    result = sweep_result(damaged=False)
    medians = ecbench.load(str(saved(result))).groupby(["case_id", "direction"], observed=True)["total_s"].median()
    for case in result.cases:
        for leg in case.legs:
            assert medians[case.case_id, leg.direction] == pytest.approx(leg.median_s)


def test_no_samples_is_an_empty_table_with_the_same_columns(saved):
    empty = ecbench.load(saved(sample_result(cases=sample_result().cases[1:])))
    assert len(empty) == 0
    assert {"total_s", "case_id", "bandwidth_bytes_per_s"} <= {*empty}
    assert len(samples_table(sample_result(cases=[]))) == len(unmeasured_table(sample_result(cases=[]))) == 0


def test_what_has_no_samples_cannot_be_loaded_as_a_table(saved):
    with pytest.raises(ecbench.EcbenchError, match="result of 'doctor' has no samples"):
        ecbench.load(saved(sample_result(kind="doctor", cases=[])))


@pytest.mark.parametrize("bad", [0.0, -1.0])
@pytest.mark.parametrize("field", ["total_s", "ceiling_s"])
def test_an_impossible_time_is_refused(saved, field, bad):
    result = sample_result()
    case, leg = result.cases[0], result.cases[0].legs[0]
    samples = [*leg.samples[:3], replace(leg.samples[3], **{field: bad})]
    path = saved(replace(result, cases=[replace(case, legs=[replace(leg, samples=samples)])]))
    with pytest.raises(DataError, match=f"result.json: sample of round 3 has an impossible {field}"):
        ecbench.load(path)


def test_importing_the_package_imports_neither_pandas_nor_torch():
    heavy = ("pandas", "torch", "numpy", "matplotlib")
    code = f"import sys, ecbench; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def _csv_rows(result):
    text = render_text(Report((result,), ("one",)), ReportFormat.CSV)
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_has_a_line_per_sample_and_one_per_leg_without_any():
    rows = _csv_rows(sample_result())
    assert [row["status"] for row in rows] == ["passed"] * 7 + ["failed", "error", "skipped"]
    assert rows[-1]["total_s"] == ""
    assert rows[-1]["reason"] == "not asked for"
    assert rows[0]["total_s"] == "0.01"


def test_csv_files_tell_spreadsheets_their_encoding_and_read_back():
    content = render_files(Report((sample_result(),), ("one",)), [ReportFormat.CSV])[".csv"]
    assert content.startswith(b"\xef\xbb\xbfresult,kind,")
    assert len(pd.read_csv(io.BytesIO(content))) == 10


def test_no_cell_or_heading_of_a_csv_starts_a_formula():
    for result in (hostile_result(), sample_result()):
        text = render_text(Report((result,), ("=1+1",)), ReportFormat.CSV)
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\r", "\uff1d1"])
def test_formulas_are_defused(text):
    assert defused(text) == f"'{text}"
    assert defused(f"a{text}") == f"a{text}"


def test_parameters_that_only_some_cases_have_are_empty_elsewhere():
    first, second = sample_result().cases
    cases = [first, replace(second, params={**second.params, "extra": True}, legs=first.legs)]
    table = samples_table(sample_result(cases=cases))
    assert table["param_extra"].isna().sum() == 8
    assert (table["param_extra"].dropna() == "yes").all()


def test_a_table_leaves_the_result_as_it_is():
    result = sample_result()
    before = msgspec.json.encode(result)
    samples_table(result)
    assert msgspec.json.encode(result) == before
