from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ecbench.cli.app import app

TINY = """\
workload = "ec"
title = "Two small images"
model = "qwen2-vl-2b"
images = [{ size = "336x336", count = 2 }]
rounds = 1
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tiny(here):
    """A scenario that runs in milliseconds."""
    (here / "tiny.toml").write_text(TINY)
    return "tiny.toml"


@pytest.fixture
def ecbench():
    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run
