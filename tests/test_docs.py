"""The pages say what the program does."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from ecbench.cli.app import app
from ecbench.core.errors import ExitCode
from ecbench.encoder_cache.workloads.models import encoder_models
from ecbench.engine.registry import DEVICE_NAMES, ENGINE_NAMES
from ecbench.transfer.writers import WRITERS
from ecbench.workflows.scenarios import shipped_names
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMANDS = [info.name or info.callback.__name__.replace("_", "-") for info in app.registered_commands]
COMMANDS += [group.name or group.typer_instance.info.name for group in app.registered_groups]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command):
    assert f"ecbench {command}" in README


@pytest.mark.parametrize("name", [*DEVICE_NAMES, *ENGINE_NAMES, *WRITERS, *encoder_models(), *shipped_names()])
def test_every_registered_name_is_in_the_readme(name):
    assert f"`{name}`" in README


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_is_in_the_readme(code):
    assert re.search(rf"^\| {int(code)} \|", README, re.MULTILINE)


def _modules():
    for path in sorted((ROOT / "ecbench").rglob("*.py")):
        if path.name != "__init__.py":
            yield path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("module", list(_modules()))
def test_every_module_is_in_the_architecture_page(module):
    assert f"`{module}`" in ARCHITECTURE


def test_the_architecture_page_names_no_module_that_is_gone():
    named = set(re.findall(r"^\| `(ecbench/[\w/]+\.py)`", ARCHITECTURE, re.MULTILINE))
    assert named == set(_modules())


@pytest.mark.parametrize("module", list(_modules()))
def test_every_module_says_what_it_is(module):
    assert ast.get_docstring(ast.parse((ROOT / module).read_text()))


def test_every_dependency_is_justified():
    named = [re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["dependencies"]]
    for name in named:
        assert f"| {name} |" in ARCHITECTURE
    for extra in PROJECT["optional-dependencies"]["test"]:
        assert re.match(r"[\w-]+", extra)[0] in ARCHITECTURE


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", README)) <= targets


def test_every_file_the_pages_link_to_exists():
    for page in ("README.md", "docs/architecture.md"):
        text = (ROOT / page).read_text()
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert ((ROOT / page).parent / target).exists(), (page, target)


def test_every_benchmark_is_in_the_readme():
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert f"benchmarks/{path.name}" in README
