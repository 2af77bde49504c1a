"""Each of the 36 behaviours of the encoder-cache connector has a test of its own."""

from __future__ import annotations

import re

from tests.conftest import ROOT

_MARK = re.compile(r"@pytest\.mark\.behaviour\((\d+)\)")


def test_every_behaviour_is_proven_somewhere():
    marks = {int(n) for path in (ROOT / "tests").rglob("test_*.py") for n in _MARK.findall(path.read_text())}
    assert marks == set(range(1, 37))
