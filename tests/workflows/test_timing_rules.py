from __future__ import annotations

import pytest

from ecbench.core.errors import ScenarioError
from ecbench.workflows.timing_rules import GateConfig, OnInconclusive, TimingRule, read_gate_config, rule_for

FULL = """\
under_test = ["ecbench"]

[[timing]]
cases = ["ec-churned/*", "ec-deepstack/*"]
metric = "copy_s"
threshold = "8%"
on_inconclusive = "fail"

[[timing]]
cases = ["*"]
"""

FIRST = '[[timing]]\ncases = ["a"]\nthreshold = 1'


def _read(tmp_path, text):
    path = tmp_path / "gate.toml"
    path.write_text(text)
    return read_gate_config(path)


def test_a_file_names_metric_cases_threshold_and_what_to_do_when_inconclusive(tmp_path):
    config = _read(tmp_path, FULL)
    assert config.under_test == ("ecbench",)
    first, second = config.timing
    assert first == TimingRule("copy_s", ("ec-churned/*", "ec-deepstack/*"), 0.08, OnInconclusive.FAIL)
    assert second == TimingRule()
    assert rule_for("ec-churned/m", config.timing) is first
    assert rule_for("ec-image-set/m", config.timing) is second
    assert rule_for("x", [first]) is None


def test_an_empty_file_gates_no_times(tmp_path):
    assert _read(tmp_path, "").timing == ()
    assert GateConfig().timing == (TimingRule(),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[timing]]\ncases = ["*"]\nthreshhold = "5%"', "line 3, key 'threshhold'"),
        ('tresholds = 1\n[[timing]]\ncases = ["*"]', "line 1, key 'tresholds'"),
        ('[[timing]]\nmetric = "total_s"', "cases"),
        ("[[timing]]\ncases = []", "line 2, key 'cases'"),
        ('[[timing]]\ncases = ["*"]\nmetric = "speed"', "line 3, key 'metric': unknown metric 'speed'"),
        ('[[timing]]\ncases = ["*"]\nthreshold = "5 percent"', "line 3, key 'threshold': threshold '5 percent'"),
        (
            '[[timing]]\ncases = ["*"]\nthreshold = 5',
            "line 3, key 'threshold': threshold '5.0' is not above 0 and at most 1",
        ),
        ('[[timing]]\ncases = ["*"]\non_inconclusive = "cry"', "line 3, key 'on_inconclusive'"),
        ('under_test = ["moon"]', "line 1, key 'under_test': unknown thing under test 'moon'"),
        (
            '[[timing]]\ncases = ["a"]\nthreshold = 1\n[[timing]]\ncases = ["*"]\nthreshold = "x"',
            "line 6, key 'threshold'",
        ),
        ('timing = [{cases = ["*"], threshold = "x"}]', "line 1, key 'threshold'"),
        (f'{FIRST}\n[[timing]]\ncases = ["*"]\nthreshold = true', "line 6, key 'threshold'"),
        (f"{FIRST}\n[[timing]]\ncases = []", "line 5, key 'cases'"),
        (f"{FIRST}\n[[timing]]\nthreshold = 1", "line 4, key 'timing': the table missing required field 'cases'"),
        (f"{FIRST}\n[[ timing ]]\ncases = ['*']\nlimit = 1", "line 6, key 'limit'"),
        (f"{FIRST}\n[[timing]]\ncases = ['*']\n\n# metric = 1\nmetric = 1", "line 8, key 'metric'"),
        ("[[timing", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_key_and_line(tmp_path, text, message):
    with pytest.raises(ScenarioError) as caught:
        _read(tmp_path, text)
    assert message in str(caught.value)
    assert "gate.toml" in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_glob_that_names_no_case_is_refused_with_the_cases(tmp_path):
    config = _read(tmp_path, '[[timing]]\ncases = ["ec-chruned/*"]')
    with pytest.raises(ScenarioError, match=r"cases = 'ec-chruned/\*' names no case: the cases are a, b"):
        config.refuse_idle_globs(["b", "a"])
    GateConfig().refuse_idle_globs([])
