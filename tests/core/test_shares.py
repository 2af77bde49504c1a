from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench.core.errors import EcbenchError
from ecbench.core.shares import parse_share


@pytest.mark.parametrize(
    ("text", "share"),
    [("5%", 0.05), (" 2.5 % ", 0.025), ("0.05", 0.05), (0.05, 0.05), (".1", 0.1), ("1", 1.0), (1, 1.0), ("150%", 1.5)],
)
def test_shares_are_read_as_percent_or_fraction(text, share):
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize(
    "text", ["", "five", "-5%", "0", "0%", "5", 5, "1001%", "nan", "inf", "5%%", "1e-3", float("nan")]
)
def test_anything_else_is_refused_with_the_mend(text):
    with pytest.raises(EcbenchError, match=r"threshold '.*' is .*: write it like 5% or 0\.05"):
        parse_share(text)


@given(st.integers(1, 1000))
def test_whole_percents_are_exact_enough(percent):
    assert parse_share(f"{percent}%") == percent / 100
