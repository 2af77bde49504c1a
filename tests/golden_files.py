"""Compares text with a golden file; ``UPDATE_GOLDEN=1`` writes it anew."""

from __future__ import annotations

import os

from tests.conftest import GOLDEN


def assert_matches_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
