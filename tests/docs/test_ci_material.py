"""The CI examples are valid for their systems and for the command line of this version."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
import typer
import yaml

from ecbench.cli.app import app
from ecbench.core.units import format_bytes
from ecbench.workflows.round_trip import RoundTripOptions, describe_needs, prepare_round_trip
from ecbench.workflows.scenarios import shipped_names
from ecbench.workflows.timing_rules import read_gate_config
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "ci"
PAGE = (ROOT / "docs" / "ci.md").read_text()
GITHUB = sorted(FOLDER.glob("github-*.yml"))
BUILDKITE = sorted(FOLDER.glob("buildkite*.yml"))
EVENTS = {"pull_request", "push", "schedule", "workflow_dispatch"}
WORKFLOW_KEYS = {"name", "on", "permissions", "env", "jobs", "concurrency"}
JOB_KEYS = {"name", "if", "needs", "runs-on", "timeout-minutes", "concurrency", "steps", "env", "permissions"}
STEP_KEYS = {"name", "if", "uses", "with", "run", "env", "id"}
BUILDKITE_KEYS = {
    *("label", "key", "agents", "timeout_in_minutes", "commands", "artifact_paths", "retry", "soft_fail"),
    *("depends_on", "env", "if"),
}
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")
COMMANDS = typer.main.get_command(app)


class _Loader(yaml.SafeLoader):
    """Reads ``on`` as a word, as GitHub does, and refuses a key that is there twice."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key is there twice: {keys}"
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _load(path):
    return yaml.load(path.read_text(), _Loader)


def _github_steps(path):
    return [step for job in _load(path)["jobs"].values() for step in job["steps"]]


def _scripts(path):
    """The shell scripts of a file, as the shell will see them."""
    if path in BUILDKITE:
        return ["\n".join(step["commands"]).replace("$$", "$") for step in _load(path)["steps"]]
    return [EXPRESSION.sub("value", step["run"]) for step in _github_steps(path) if "run" in step]


def _ecbench_commands(script):
    """Arguments of every ecbench that a script starts."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        words = list(lexer)
        while words:
            end = next((index for index, word in enumerate(words) if set(word) <= set("|&;<>()")), len(words))
            command, words = words[:end], words[end + 1 :]
            names = [index for index, word in enumerate(command) if word.rpartition("/")[2] == "ecbench"]
            if names and names[0] == 0:
                yield command[1:]


def _parse(arguments):
    """What the command line makes of arguments; nothing is run."""
    name, *rest = arguments
    context = COMMANDS.make_context("ecbench", [name], resilient_parsing=True)
    command = COMMANDS.get_command(context, name)
    assert command is not None, f"ecbench {name}: no such command"
    return command.make_context(name, rest, parent=context).params


EVERY_COMMAND = [
    (path.name, arguments)
    for path in [*GITHUB, *BUILDKITE]
    for script in _scripts(path)
    for arguments in _ecbench_commands(script)
]
PAGE_COMMANDS = [
    arguments
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for arguments in _ecbench_commands(block.replace("$ ", ""))
]
INLINE_COMMANDS = [
    shlex.split(re.sub(r"\s*>.*", "", text))[1:] for text in re.findall(r"`(ecbench [^`]+)`", PAGE) if "..." not in text
]


def test_there_is_material_for_both_systems_and_it_is_on_the_page():
    assert len(GITHUB) >= 2
    assert BUILDKITE
    for path in FOLDER.iterdir():
        assert f"ci/{path.name}" in PAGE
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_every_kind_of_check_has_an_example():
    shown = {arguments[0] for _, arguments in EVERY_COMMAND}
    assert {"scan-ptrs", "probe-ptr-overflow", "conformance", "roundtrip", "gate", "ab", "report"} <= shown


@pytest.mark.parametrize(
    ("file", "arguments"), EVERY_COMMAND, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_of_the_examples_is_one_of_this_version(file, arguments):
    params = _parse(arguments)
    for name in params.get("scenarios") or ():
        assert name in shipped_names()


@pytest.mark.parametrize("arguments", [*PAGE_COMMANDS, *INLINE_COMMANDS], ids=" ".join)
def test_every_command_of_the_page_is_one_of_this_version(arguments):
    assert arguments
    _parse(arguments)


@pytest.mark.parametrize("arguments", [["gate", "--basline", "x"], ["gate", "ec-churned"], ["bake"]])
def test_a_command_that_does_not_exist_would_be_found(arguments):
    with pytest.raises(Exception, match=r"no such command|No such option|Missing parameter"):
        _parse(arguments)


@pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)
def test_a_workflow_has_the_shape_that_github_reads(path):
    workflow = _load(path)
    assert set(workflow) <= WORKFLOW_KEYS
    assert set(workflow["on"]) <= EVENTS
    for name, job in workflow["jobs"].items():
        assert set(job) <= JOB_KEYS, name
        assert {"runs-on", "steps", "timeout-minutes"} <= set(job)
        assert set(job.get("needs", ())) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert set(step) <= STEP_KEYS, step
            assert ("run" in step) != ("uses" in step), step
            assert "with" not in step or "uses" in step
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@v\d+", step.get("uses", "a/b@v1"))
    for text in re.findall(r"\$\{\{(.*?)\}\}", path.read_text()):
        assert re.match(r"\s*(github|inputs|env)\.", text), text
    assert path.read_text().count("${{") == len(EXPRESSION.findall(path.read_text()))


@pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)
def test_a_workflow_installs_the_ecbench_it_runs_and_keeps_its_reports(path):
    for job in _load(path)["jobs"].values():
        scripts = "\n".join(step.get("run", "") for step in job["steps"])
        for program in re.findall(r"^\s*(\S*/bin/)?ecbench ", scripts, re.MULTILINE):
            assert f"{program}pip install" in scripts
        assert any(step.get("uses", "").startswith("actions/upload-artifact@") for step in job["steps"])


def test_the_baseline_that_a_gate_fetches_is_the_one_that_main_stores():
    jobs = _load(FOLDER / "github-gate.yml")["jobs"]
    stored = next(step["with"] for step in jobs["baseline"]["steps"] if "upload-artifact" in step.get("uses", ""))
    fetched = "\n".join(step.get("run", "") for step in jobs["gate"]["steps"])
    assert f"--name {stored['name']}" in fetched
    (gate,) = [params for params in map(_parse, _ecbench_commands(fetched)) if "baseline" in params]
    (update,) = [_parse(a) for step in jobs["baseline"]["steps"] for a in _ecbench_commands(step.get("run", ""))]
    assert update["update"]
    assert update["baseline"].name == stored["path"] == gate["baseline"].name
    assert jobs["baseline"]["runs-on"] == jobs["gate"]["runs-on"]


@pytest.mark.parametrize("path", BUILDKITE, ids=lambda path: path.name)
def test_a_pipeline_has_the_shape_that_buildkite_reads(path):
    pipeline = _load(path)
    assert set(pipeline) <= {"steps", "env"}
    keys = {step.get("key") for step in pipeline["steps"]}
    for step in pipeline["steps"]:
        assert set(step) <= BUILDKITE_KEYS, step
        assert step["agents"]["queue"]
        assert step.get("depends_on") in {None, *keys}
        assert all(isinstance(command, str) for command in step["commands"])
        # One dollar sign is replaced when the pipeline is uploaded, before the step has its environment.
        assert not re.search(r"(?<!\$)\$(?!\$)", "\n".join(step["commands"]))
    queues = {step["agents"]["queue"] for step in pipeline["steps"]}
    devices = {_parse(a).get("device") for script in _scripts(path) for a in _ecbench_commands(script)}
    assert len(queues) == 2
    assert {"xpu", "cuda"} <= devices


@pytest.mark.parametrize("path", [*GITHUB, *BUILDKITE], ids=lambda path: path.name)
def test_every_script_is_one_that_bash_can_read(path):
    for script in _scripts(path):
        checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, ""), script


def test_the_thresholds_are_read_and_name_cases_of_the_examples():
    config = read_gate_config(FOLDER / "gate.toml")
    config.refuse_idle_globs([case.case_id for case in prepare_round_trip(RoundTripOptions(device="cpu")).cases])
    assert len(config.timing) == 2


@pytest.mark.parametrize("device", ["cpu", "xpu-sim"])
def test_the_memory_class_is_what_a_dry_run_states(device):
    needs = prepare_round_trip(RoundTripOptions(device=device)).needs
    text = (FOLDER / "buildkite.yml").read_text()
    stated = re.findall(r"^#   (\S+/\S+)\s+(\S+ \S+)\s+(\S+ \S+)$", text, re.MULTILINE)
    assert stated == [row[:3] for row in describe_needs(needs)]
    region, buffers = max(need.host_region_bytes for need in needs), max(need.device_bytes for need in needs)
    (shm,) = set(re.findall(r"--shm-size=(\d+)m", PAGE + text))
    assert region < int(shm) << 20
    assert buffers < 1 << 30
    stated_on_the_page = f"need {format_bytes(region)} in /dev/shm and {format_bytes(buffers)} on the device"
    assert stated_on_the_page in " ".join(PAGE.split())
