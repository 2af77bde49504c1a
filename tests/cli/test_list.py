from __future__ import annotations

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from ecbench.cli.list_command import list_app
from ecbench.core.doctor_records import ListingResult
from ecbench.core.errors import UnavailableError
from ecbench.encoder_cache.workloads.models import encoder_models
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.registry import DEVICE_NAMES, ENGINE_NAMES
from ecbench.kv_offload import model_names
from ecbench.targets.registry import TARGET_CHOICES
from ecbench.transfer.writers import WRITERS
from ecbench.workflows import listing
from ecbench.workflows.scenarios import shipped_names

NAMES = {
    "devices": DEVICE_NAMES,
    "engines": ENGINE_NAMES,
    "models": (*encoder_models(), *model_names()),
    "scenarios": shipped_names(),
    "targets": TARGET_CHOICES,
    "writers": tuple(WRITERS),
}


@pytest.fixture
def run():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.add_typer(list_app)
    app.command("other")(lambda: None)  # a single command would lose its name
    return lambda *arguments: CliRunner().invoke(app, ["list", *arguments])


class Gpu(CpuDevice):
    name = "cuda:0"
    description = "NVIDIA H200"
    copies_inside_submit = False


@pytest.fixture
def gpu(monkeypatch):
    """A machine with an NVIDIA GPU, no XPU, and no Triton; nothing has ever run on the GPU."""

    def open_device(name):
        if name == "xpu":
            raise UnavailableError("device 'xpu' is not available: no driver")
        return Gpu() if name in {"auto", "cuda"} else CpuDevice()

    def open_engine(name, device):
        if name == "triton":
            raise UnavailableError(f"engine {name!r} is not available on {device.name}: no Triton")
        return object()

    monkeypatch.setattr(listing, "open_device", open_device)
    monkeypatch.setattr(listing, "open_engine", open_engine)
    monkeypatch.setattr(listing, "kind_of", lambda device: device.name.partition(":")[0])
    monkeypatch.setattr(listing, "read_device_runs", dict)


def engine_entry(name):
    return next(entry for entry in listing.list_engines() if entry.name == name)


@pytest.mark.parametrize("what", NAMES)
def test_every_registered_name_has_one_line_and_the_command_exits_0(run, what):
    result = run(what)

    assert tuple(line.split()[0] for line in result.stdout.splitlines()) == NAMES[what]
    assert result.exit_code == 0


@pytest.mark.parametrize("what", NAMES)
def test_every_name_is_described_and_every_refusal_has_a_reason(what):
    for entry in listing.list_entries(listing.Listable(what)):
        assert entry.description, entry.name
        assert (entry.reason is None) == entry.available, entry.name


@pytest.mark.parametrize("what", NAMES)
def test_the_result_is_json_that_loads_again(run, what):
    loaded = msgspec.json.decode(run(what, "--json", "-").stdout, type=ListingResult)

    assert (loaded.kind, loaded.settings) == ("list", {"what": what})
    assert tuple(entry.name for entry in loaded.cases) == NAMES[what]


def test_a_json_file_comes_beside_the_printed_lines(run, tmp_path):
    result = run("writers", "--json", str(tmp_path / "writers.json"))

    assert "setitem-twos" in result.stdout
    assert msgspec.json.decode((tmp_path / "writers.json").read_bytes(), type=ListingResult).kind == "list"


def test_a_device_that_is_not_here_says_why_and_that_it_is_unproven(run, gpu):
    lines = run("devices").stdout.splitlines()

    [line] = [line for line in lines if line.startswith("xpu ")]
    assert "not available, unverified here" in line
    assert line.endswith("Intel GPU: no driver")


def test_a_device_that_never_ran_is_unverified_though_it_is_here(run, gpu):
    lines = run("devices").stdout.splitlines()

    [line] = [line for line in lines if line.startswith("cuda ")]
    assert "  available, unverified here  " in line
    assert "NVIDIA H200" in line


def test_auto_says_what_it_chooses(run, gpu):
    assert "here cuda:0" in run("devices").stdout.splitlines()[0]


def test_an_engine_names_the_devices_it_runs_on_and_those_where_it_is_unproven(gpu):
    entry = engine_entry("per-copy")

    assert entry.description.endswith("; on cpu, cuda (unverified here), xpu-sim")
    assert not entry.verified


def test_an_engine_of_host_memory_is_proven_by_running_here(gpu):
    assert engine_entry("memmove").verified


def test_an_engine_is_tried_only_on_kinds_of_device_that_it_runs_on(gpu):
    assert engine_entry("cuda-batch").description.endswith("; on cuda (unverified here)")


def test_an_engine_that_lacks_something_says_what(gpu):
    entry = engine_entry("triton")

    assert not entry.available
    assert entry.reason == "engine 'triton' is not available on cuda:0: no Triton"


def test_an_engine_whose_devices_are_all_missing_names_their_kinds(gpu, monkeypatch):
    monkeypatch.setattr(listing, "kind_of", lambda _: "cpu")

    assert engine_entry("triton").reason == "runs on cuda, rocm only, and none is here"


def test_a_recorded_run_makes_an_engine_verified(gpu, monkeypatch):
    monkeypatch.setattr(listing, "read_device_runs", lambda: {"cuda": {"per-copy", "triton"}})

    assert engine_entry("per-copy").verified
    assert engine_entry("per-copy").description.endswith("; on cpu, cuda, xpu-sim")
    assert engine_entry("triton").verified
    assert not engine_entry("staged").verified


def test_a_damaged_shipped_scenario_is_listed_with_its_fault(run, tmp_path, monkeypatch):
    (tmp_path / "broken.toml").write_text("workload = \n")
    monkeypatch.setattr("ecbench.workflows.scenarios.shipped_directory", lambda: tmp_path)

    result = run("scenarios")

    assert result.stdout.startswith("broken  not available")
    assert result.exit_code == 0


def test_an_unknown_kind_exits_2(run):
    assert run("planets").exit_code == 2


def test_a_pipe_gets_plain_lines(run, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")

    stdout = run("models").stdout

    assert "\x1b" not in stdout
    assert len(stdout.splitlines()) == len(encoder_models()) + len(model_names())
