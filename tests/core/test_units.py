from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecbench import EcbenchError
from ecbench.core.units import MAX_SIZE_BYTES, format_bandwidth, format_bytes, format_seconds, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        (4096, 4096),
        ("7KiB", 7168),
        ("7kib", 7168),
        (" 1 MiB ", 1 << 20),
        ("1.5MiB", 3 << 19),
        ("64GiB", 64 << 30),
        ("2kB", 2000),
        ("1MB", 10**6),
        ("12B", 12),
    ],
)
def test_reads_sizes_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no number|not a number"),
        ("KiB", "not a number"),
        ("7 apples", "unknown unit 'apples'"),
        ("7K", "unknown unit 'K'"),
        ("0", "give one from 1"),
        ("-1KiB", "give one from 1"),
        ("1.5", "no whole number"),
        ("0.3B", "no whole number"),
        ("99999999999PiB", "give one from 1"),
        ("9" * 5000, "not a number"),
        ("nan", "not a number"),
        ("1e9", "not a number|unknown unit"),
        ("1_000", "not a number"),
    ],
)
def test_refuses_what_is_no_size_and_names_it(text, message):
    with pytest.raises(EcbenchError, match=message):
        parse_size(text)


@given(st.text(max_size=40))
def test_any_text_is_a_size_or_a_clear_error(text):
    with contextlib.suppress(EcbenchError):
        assert 1 <= parse_size(text) <= MAX_SIZE_BYTES


@given(st.integers(1, MAX_SIZE_BYTES))
def test_a_plain_number_is_that_many_bytes(size):
    assert parse_size(str(size)) == size


def test_shows_three_digits_and_a_unit():
    assert [format_bytes(size) for size in (0, 512, 7168, 78_503_936, 1 << 30)] == [
        "0 B",
        "512 B",
        "7.00 KiB",
        "74.9 MiB",
        "1.00 GiB",
    ]
    assert [format_seconds(time) for time in (0, 2.5e-8, 1.234e-5, 0.0456, 12.34)] == [
        "0.00 s",
        "25 ns",
        "12.3 us",
        "45.6 ms",
        "12.3 s",
    ]
    assert format_bandwidth(9.834e9) == "9.83 GB/s"
    assert format_bandwidth(54.1e9) == "54.1 GB/s"


@pytest.mark.parametrize("value", [999.6e9, 999.4e9, 1e12])
def test_never_shows_four_digits_before_the_unit(value):
    number, _ = format_bandwidth(value).split()
    assert len(number.replace(".", "")) <= 3
