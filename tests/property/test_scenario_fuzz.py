"""Whatever a scenario file says, the answer is exit code 0 or 2 and one line, never a traceback."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ecbench.cli.app import app

KEYS = [
    "workload",
    "title",
    "model",
    "images",
    "placement",
    "coalesce",
    "source_offset_bytes",
    "region_bytes",
    "rounds",
    "surprise",
    "",
]
SCALARS = st.one_of(
    st.sampled_from(
        ["ec", "qwen2.5-vl-7b", "churned", "scattered", "1GiB", "0", "-1", "1e400", "9" * 30, "\x00", "../x", "336x336"]
    ),
    st.text(max_size=8),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["size", "count", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
GOOD = {
    "workload": "ec",
    "title": "t",
    "model": "qwen2-vl-2b",
    "images": [{"size": "336x336", "count": 2}],
}


def _toml(value):
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(f"\\U{ord(character):08X}" for character in value) + '"'
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
        case _:
            return str(value)


def _run(content: bytes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzzed.toml"
        path.write_bytes(content)
        return CliRunner().invoke(app, ["roundtrip", str(path), "--dry-run", "--device", "cpu"])


def _assert_clean(result):
    assert result.exit_code in {0, 2}, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    if result.exit_code == 2:
        assert result.stderr.startswith("ecbench: ")
        assert result.stderr.count("\n") == 1


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
@settings(max_examples=300)
def test_any_values_under_any_keys(changes):
    table = {**GOOD, **changes}
    _assert_clean(
        _run("\n".join(f'"{key}" = {_toml(value)}' for key, value in table.items()).encode("utf-8", "replace"))
    )


@given(st.binary(max_size=200))
@example(b"[" * 5000)
@example(b"a=" + b"{a=" * 2000)
@example(b"a." * 3000 + b"a = 1")
@example(b"x = " + b"9" * 5000)
def test_any_bytes(content):
    _assert_clean(_run(content))


@given(st.text(max_size=200))
def test_any_text(text):
    _assert_clean(_run(text.encode("utf-8", "replace")))


@given(st.text(max_size=30))
@example("\x00.toml")
@example("a/" * 3000)
@example("/dev/null")
@example("/proc/self/mem")
@example("~/x.toml")
def test_any_name(name):
    if name.startswith("-"):
        return
    _assert_clean(CliRunner().invoke(app, ["roundtrip", "--dry-run", "--device", "cpu", "--", name]))


@pytest.mark.parametrize("option", ["--device", "--engine", "--writer", "--model", "--workload", "--memory-limit"])
@given(value=st.text(max_size=12))
@example("xpu")
@example("cuda:7")
@example("triton")
def test_any_option_value(option, value):
    result = CliRunner().invoke(app, ["roundtrip", "--dry-run", f"{option}={value}"])
    # 3: a device or an engine that exists, but not here.
    assert result.exit_code in {0, 2, 3}, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
