from __future__ import annotations

import json

import msgspec
import pytest
import torch
import typer
from typer.testing import CliRunner

from ecbench.cli import dsv4_swa_savings as command
from ecbench.core.errors import UnavailableError
from ecbench.core.records import to_json
from ecbench.core.savings_records import SavingsResult
from ecbench.report.formats.names import ReportFormat
from ecbench.report.savings_figures import with_savings_figures
from ecbench.report.schema import results_schema
from ecbench.workflows import savings
from ecbench.workflows.savings_copies import CopyBench
from tests.faults import FaultyEngine

APP = typer.Typer(pretty_exceptions_enable=False)
APP.command()(command.dsv4_swa_savings)

WINDOW_65 = """\
title = "A window that the mask and the lookup see differently"

[[groups]]
name = "attention"
kind = "full"
tokens_per_block = 256
[[groups.tensors]]
layers = 1
page_size_bytes = 4096
real_page_size_bytes = 4096

[[groups]]
name = "window"
kind = "sliding"
tokens_per_block = 64
window_tokens = 65
[[groups.tensors]]
layers = 1
page_size_bytes = 4096
real_page_size_bytes = 4000
"""

CONFIG = {
    "model_type": "deepseek_v4",
    "compress_ratios": [0, 4, 128, 0],
    "num_hidden_layers": 3,
    "num_nextn_predict_layers": 1,
    "head_dim": 512,
    "index_head_dim": 128,
    "sliding_window": 128,
}


@pytest.fixture
def run_with_reports(tmp_path, monkeypatch):
    """Runs the command with a working directory and reports of the test."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: object):
        return CliRunner().invoke(APP, ["--out", "reports", *map(str, arguments)])

    return invoke


@pytest.fixture
def run(run_with_reports, monkeypatch):
    """The same without the page and the plots, which take longer than all else."""
    monkeypatch.setattr(command, "REPORTS", (ReportFormat.JSON,))
    return run_with_reports


@pytest.fixture
def planned(run):
    """Plans without copying, and gives the cases of the JSON."""

    def cases(*arguments: object) -> list[dict]:
        done = run("--no-measure", "--quiet", "--json", "-", *arguments)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)["cases"]

    return cases


@pytest.fixture
def flash(planned):
    """The default: Flash, 100,000 tokens, both policies; cases by policy and retention."""
    return {(case["params"]["policy"], case["params"]["retention_interval"]): case for case in planned()}


def test_the_default_shows_both_policies_and_the_retention_that_the_engine_uses(flash):
    assert list(flash) == [("pr", None), ("vllm-0.33", None), ("vllm-0.33", 0)]
    assert {(case["params"]["model"], case["params"]["tokens"]) for case in flash.values()} == {
        ("deepseek-v4-flash", 100_000)
    }


@pytest.mark.parametrize(
    ("case", "sliding", "everything", "percent"),
    [
        (("pr", None), 8_584, 8_974, 78.12),
        (("vllm-0.33", None), 8_602, 8_992, 78.08),
        (("vllm-0.33", 0), 22, 412, 99.0),
    ],
)
def test_the_published_chunks_of_100000_tokens_are_shown(flash, case, sliding, everything, percent):
    totals = flash[case]["totals"]
    assert (totals["sliding_full_chunks"], totals["sliding_stored_chunks"]) == (40_624, sliding)
    assert (totals["all_full_chunks"], totals["all_stored_chunks"]) == (41_014, everything)
    assert round(100 * totals["all_saved_fraction"], 2) == percent


@pytest.mark.parametrize(
    ("case", "host_bytes"),
    [(("vllm-0.33", None), 9_023_651_840), (("vllm-0.33", 0), 413_450_240)],
)
def test_the_published_host_bytes_and_the_replay_hit_are_shown(flash, case, host_bytes):
    assert flash[case]["totals"]["stored_host_bytes"] == host_bytes
    assert flash[case]["replay_hit_tokens"] == 99_840


def test_the_console_shows_the_published_78_percent(run):
    text = run("--no-measure").stdout
    assert "40,624 -> 8,584 (78.87%)" in text
    assert "41,014 -> 8,974 (78.12%)" in text
    assert "40,624 -> 8,602" in text
    assert "40,624 -> 22" in text
    assert "hits 99,840 of 100,000 tokens" in text
    assert "advertised boundaries that load: 390 of 390" in text
    assert "PLANNED ONLY: nothing was copied." in text


@pytest.mark.parametrize(
    ("layout", "copies", "host_bytes"), [("--per-rank", 4, 368_824_320), ("--replicated", 1, 92_229_632)]
)
def test_four_ranks_show_the_published_bytes_and_which_copies_they_count(planned, layout, copies, host_bytes):
    (case,) = planned(
        *("--tokens", 2500, "--tp", 4, "--blocks-per-chunk", 4, "--policy", "vllm-0.33"),
        *("--retention-interval", "none", layout),
    )
    assert (case["copies"], case["totals"]["stored_host_bytes"]) == (copies, host_bytes)


@pytest.mark.parametrize(
    ("arguments", "sliding", "percent"),
    [
        (("--retention-interval", 4096), 550, 97.708),
        (("--retention-interval", "none", "--eagle"), 8_990, 77.130),
        (("--retention-interval", "none", "--block-size", 128), 17_188, 56.6),
        (("--retention-interval", "none", "--block-size", 64), 18_750, 51.9),
    ],
)
def test_options_change_what_is_stored_as_published(planned, arguments, sliding, percent):
    (case,) = planned("--policy", "vllm-0.33", *arguments)
    assert case["totals"]["sliding_stored_chunks"] == sliding
    assert 100 * case["totals"]["all_saved_fraction"] == pytest.approx(percent, abs=0.06)


def test_savings_by_block_size_are_those_of_running_with_it(planned):
    (case,) = planned("--policy", "pr")
    by_size = {savings["block_size"]: savings["all_saved_fraction"] for savings in case["by_block_size"]}
    for size in (64, 128, 512):
        (other,) = planned("--policy", "pr", "--block-size", size)
        assert by_size[size] == other["totals"]["all_saved_fraction"]
    assert by_size[256] == case["totals"]["all_saved_fraction"]


def test_groups_have_the_published_bytes_and_the_names_of_the_contract(flash):
    case = flash["vllm-0.33", None]
    assert (case["alignment_tokens"], case["scheduler_block_size"], case["hash_block_size"]) == (256, 256, 4)
    assert (case["block_stride_bytes"], case["host_slot_bytes"]) == (1_002_240, 1_003_520)
    pages = [(group["page_size_bytes"], group["real_page_size_bytes"]) for group in case["groups"]]
    assert pages == [
        (823_680, 822_272),
        (786_240, 784_896),
        (1_002_240, 985_664),
        (870_912, 860_160),
        (656_640, 655_360),
    ]
    assert case["proof"] == {
        "ok": True,
        "boundaries_checked": 390,
        "not_loadable": [],
        "lost_tokens": 0,
        "not_used_by_replays": 22,
    }


def test_eagle_adds_the_mtp_layer_and_marks_its_group_and_mtp_only_adds_it(planned):
    for option, marked in (("--eagle", 1), ("--mtp", 0)):
        (case,) = planned("--tokens", 2048, "--policy", "vllm-0.33", "--retention-interval", "none", option)
        sliding = [group for group in case["groups"] if group["tokens_per_block"] == 64]
        assert [group["layers"] for group in sliding] == [22, 22]
        assert sum(group["eagle"] for group in sliding) == marked
        assert case["params"]["mtp"]


def test_lists_give_a_case_each(planned):
    cases = planned("--tokens", "2048,4096", "--tokens", 8192, "--model", "deepseek-v4-flash,deepseek-v4-pro")
    assert len(cases) == 2 * 3 * 3
    assert {case["params"]["tokens"] for case in cases} == {2048, 4096, 8192}
    assert len({case["case_id"] for case in cases}) == len(cases)


def test_formats_of_the_caches_change_their_bytes(planned):
    (pro,) = planned("--model", "deepseek-v4-pro", "--tokens", 2048, "--policy", "pr", "--indexer", "mxfp4")
    (flash,) = planned("--tokens", 2048, "--policy", "pr", "--cache-dtype", "bfloat16")
    assert (pro["block_stride_bytes"], flash["block_stride_bytes"]) == (1_315_008, 1_600_000)


def test_a_hugging_face_config_is_a_model(planned, tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(CONFIG))
    (case,) = planned("--model", "tiny", "--tokens", 2048, "--policy", "pr")
    assert case["params"]["model"] == "tiny"
    assert case["replay_hit_tokens"] == 2048


def test_host_memory_is_counted_in_tokens_and_requests(planned):
    (case,) = planned("--policy", "pr", "--host-memory", "64GiB")
    memory = case["host_memory"]
    assert (memory["slots"], memory["with_skip_by_slot"]["requests"]) == (68_478, 7)
    assert memory["without_skip_by_slot"] == {"requests": 1, "tokens": 68_478 * 100_000 // 41_014}
    assert memory["with_skip_by_real_bytes"]["tokens"] > memory["with_skip_by_slot"]["tokens"]


def test_an_advertised_prefix_that_cannot_be_loaded_exits_1_and_is_named(run, tmp_path):
    (tmp_path / "window.toml").write_text(WINDOW_65)
    done = run("--no-measure", "--model", "window.toml", "--tokens", 2048, "--policy", "vllm-0.33")
    assert done.exit_code == 1
    assert "NOT LOADABLE: a request that shares 256 tokens hits 0; window shortens it" in done.stdout
    assert "NO: window/2048/vllm-0.33/retention-none" in done.stdout


def test_the_pull_request_does_not_know_eagle_so_no_prefix_loads(run):
    done = run("--no-measure", "--tokens", 2048, "--policy", "pr", "--eagle")
    assert done.exit_code == 1
    assert "NOT LOADABLE: a request that shares 256 tokens hits 0; swa-b shortens it" in done.stdout


def test_what_is_not_proved_fails_nothing_and_is_said(run, tmp_path):
    (tmp_path / "window.toml").write_text(WINDOW_65)
    done = run("--no-measure", "--no-prove", "--model", "window.toml", "--tokens", 2048, "--json", "result.json")
    assert done.exit_code == 0
    assert "not proved: ask with --prove" in done.stdout
    cases = json.loads((tmp_path / "result.json").read_text())["cases"]
    assert [case["proof"] for case in cases] == [None] * 3
    assert all(case["replay_hit_tokens"] == 0 for case in cases if case["params"]["policy"] == "vllm-0.33")


def test_prompts_beyond_a_million_tokens_are_proved_only_on_request(planned):
    (short,) = planned("--tokens", 1_000_000, "--policy", "pr")
    (long,) = planned("--tokens", 2_000_000, "--policy", "pr")
    (asked,) = planned("--tokens", 2_000_000, "--policy", "pr", "--prove")
    assert (short["proof"]["ok"], long["proof"], asked["proof"]["ok"]) == (True, None, True)


def test_lost_tokens_are_a_finding_and_no_failure(run):
    done = run("--no-measure", "--tokens", 2048, "--policy", "vllm-0.33", "--retention-interval", 0)
    assert done.exit_code == 0
    assert "lost: the replay hits 256 tokens less than the longest boundary it could" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tokens", 0), "prompt of 0 tokens: give 1 to"),
        (("--tokens", -5), "prompt of -5 tokens: give 1 to"),
        (("--tokens", "many"), "tokens 'many' is no whole number: give whole numbers such as 100000"),
        (("--tokens", "1,,2"), "tokens '1,,2' has an empty entry: leave it out"),
        (("--alignment-tokens", 100), "alignment of 100 tokens is no multiple of the chunk of swa-a (64 tokens), "),
        (("--retention-interval", -4), "retention interval is -4 tokens: give 0 to"),
        (("--retention-interval", 100), "swa-a (64 tokens), swa-b (64 tokens), c128-states (8 tokens): give 0 or a"),
        (("--retention-interval", 100, "--policy", "pr"), "retention interval of 100 tokens is no multiple"),
        (("--retention-interval", "now"), "retention interval 'now' is no whole number: give none, 0 or"),
        (("--policy", "lru"), "unknown policy 'lru': choose one of pr, vllm-0.33"),
        (("--connector-block-size", 256), "block_size = 256 cannot be set where groups have blocks of 4, 8, 64, 256"),
        (("--host-memory", "1MB"), "host memory of 1000000 bytes is below one slot of 1003520 bytes"),
        (("--host-memory", "much"), "size 'much' is not a number with a unit"),
        (("--block-size", 100), "block size of 100 tokens neither divides nor is divided by blocks of 8, 64 tokens"),
        (("--blocks-per-chunk", 0), "blocks_per_chunk is 0: give 1 to"),
        (("--tp", 0), "tensor-parallel size is 0: give 1 to"),
        (("--model", "llama"), "unknown model 'llama': choose one of deepseek-v4-flash, deepseek-v4-pro, or give"),
        (("--indexer", "int4"), "unknown indexer 'int4': choose one of fp8, mxfp4"),
        (("--cache-dtype", "int8"), "unknown cache dtype 'int8': choose one of"),
        (("--budget", "0"), "duration '0' is 0 s: give more than 0"),
        (("--device", "tpu", "--measure"), "unknown device 'tpu': choose one of"),
    ],
)
def test_bad_input_exits_2_with_the_value_and_the_mend(run, tmp_path, arguments, said):
    done = run("--no-measure", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"compress_ratios": None}, "compress_ratios missing"),
        ({"num_hidden_layers": 7}, "7"),
        ({"sliding_window": 0}, "sliding_window"),
        ({"model_type": "mamba"}, "describe any other hybrid by its groups in a TOML file"),
    ],
)
def test_a_config_that_does_not_fit_exits_2_and_names_the_key(run, tmp_path, change, said):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **change}))
    done = run("--no-measure", "--model", "config.json")
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_window_of_0_in_a_file_of_groups_exits_2(run, tmp_path):
    (tmp_path / "window.toml").write_text(WINDOW_65.replace("window_tokens = 65", "window_tokens = 0"))
    done = run("--no-measure", "--model", "window.toml")
    assert done.exit_code == 2
    assert "window_tokens" in done.stderr


def test_two_models_of_one_name_are_refused(run, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.toml").write_text(WINDOW_65)
    done = run("--no-measure", "--model", "a/same.toml,b/same.toml", "--tokens", 2048)
    assert done.exit_code == 2
    assert "asked for twice" in done.stderr


def test_reports_and_plots_are_written(run_with_reports, tmp_path):
    run_with_reports("--no-measure", "--quiet", "--tokens", 2048)
    names = {path.name.partition("Z")[2] for path in (tmp_path / "reports").iterdir()}
    plots = {f"-{plot}.{ending}" for plot in ("stored-chunks", "saved-by-block-size") for ending in ("svg", "png")}
    assert names == {".json", ".md", ".html"} | plots


def test_quiet_prints_nothing_where_all_is_well(run):
    done = run("--no-measure", "--quiet", "--tokens", 2048)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_json_holds_to_its_own_schema(run):
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(run("--no-measure", "--quiet", "--tokens", 2048, "--json", "-").stdout)
    assert (document["kind"], document["schema_version"]) == ("dsv4-swa-savings", 1)
    jsonschema.validate(document, results_schema())


def test_ctrl_c_exits_130_and_keeps_what_was_finished(run, monkeypatch):
    describe = savings.describe_plan
    done_before = []

    def interrupt_the_second(*arguments, **keywords):
        if done_before:
            raise KeyboardInterrupt
        done_before.append(True)
        return describe(*arguments, **keywords)

    monkeypatch.setattr(savings, "describe_plan", interrupt_the_second)
    done = run("--no-measure", "--tokens", 2048)
    assert done.exit_code == 130
    assert done.stderr.endswith("ecbench: interrupted; finished cases saved: 1\n")
    assert "INTERRUPTED" in done.stdout


SMALL = ("--tokens", 2048, "--policy", "vllm-0.33", "--budget", "100ms", "--memory-limit", "64MiB")


@pytest.mark.parametrize("device", ["cpu", "xpu-sim"])
def test_a_sample_of_the_store_and_the_load_is_copied_and_verified(run, tmp_path, device):
    done = run(*SMALL, "--device", device, "--retention-interval", "none", "--json", "result.json")
    assert done.exit_code == 0, done.stderr
    (case,) = json.loads((tmp_path / "result.json").read_text())["cases"]
    assert [(leg["direction"], leg["status"]) for leg in case["legs"]] == [("store", "passed"), ("load", "passed")]
    assert [leg["direction"] for leg in case["legs_without_skip"]] == ["store"]
    assert all(leg["verify"]["ok"] and len(leg["samples"]) >= 3 for leg in case["legs"] + case["legs_without_skip"])
    assert 0 < case["sample"]["store_fraction_without_skip"] < case["sample"]["store_fraction"] < 1
    assert "storing takes" in done.stdout
    assert "saved per prompt" in done.stdout
    assert "sample: " in done.stdout
    warning = "EMULATED" if device == "xpu-sim" else "Host to host: this checks bytes"
    assert warning in done.stdout


def test_measured_results_hold_to_the_schema_and_come_back_as_they_were(run, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    assert run(*SMALL, "--quiet", "--json", "result.json").exit_code == 0
    data = (tmp_path / "result.json").read_bytes()
    jsonschema.validate(json.loads(data), results_schema())
    assert to_json(with_savings_figures(msgspec.json.decode(data, type=SavingsResult))) == data


def test_wrong_bytes_exit_1_and_are_named(run, monkeypatch):
    def flip(source, destination, sources, destinations, sizes):
        destination[destinations[0]] ^= 1

    monkeypatch.setattr("ecbench.targets.reference_target.open_engine", lambda name, device: FaultyEngine(flip))
    done = run(*SMALL, "--device", "cpu", "--retention-interval", "none")
    assert done.exit_code == 1
    assert "WRONG: corrupt" in done.stdout


def test_memory_for_less_than_a_chunk_of_every_group_is_refused_before_the_run(run, tmp_path):
    done = run(*SMALL[:4], "--memory-limit", "1MiB")
    assert done.exit_code == 2
    assert "one chunk of every group takes" in done.stderr
    assert not (tmp_path / "reports").exists()


def test_a_prompt_without_a_whole_chunk_has_nothing_to_move(run, tmp_path):
    done = run("--tokens", 3, "--policy", "pr", "--json", "result.json")
    assert done.exit_code == 0
    (case,) = json.loads((tmp_path / "result.json").read_text())["cases"]
    assert [(leg["status"], leg["reason"]) for leg in case["legs"]] == [("skipped", "nothing to move")] * 2
    assert "nothing is stored" in done.stdout


def test_a_device_that_is_not_here_exits_3(run):
    if torch.xpu.is_available():
        pytest.skip("an Intel GPU is here")
    done = run(*SMALL, "--device", "xpu")
    assert done.exit_code == 3
    assert done.stderr.count("\n") == 1


def test_a_device_that_is_lost_ends_the_run_with_3_and_keeps_what_was_finished(run, monkeypatch):
    def lose(*arguments, **keywords):
        raise UnavailableError("device cpu: lost: start again")

    monkeypatch.setattr(CopyBench, "measure", lose)
    done = run(*SMALL)
    assert done.exit_code == 3
    assert done.stderr.endswith("ecbench: device cpu: lost: start again; finished cases saved: 0\n")
