"""Which targets there are, and what stands in for what they need."""

from __future__ import annotations

import sys

import pytest
import torch

from ecbench.core.errors import EcbenchError, ExitCode, UnavailableError
from ecbench.engine.copy_engines.vllm_op import find_operator
from ecbench.engine.devices.cpu import CpuDevice
from ecbench.engine.devices.xpu_sim import XpuSimDevice
from ecbench.targets.registry import import_notice, names_of, open_target, open_targets, version_of, why_unavailable

CPU = CpuDevice()
NAMES = {
    "swap_blocks_batch": "swap_blocks_batch (ecbench's host copies)",
    "event": "torch.Event (host clock)",
    "record_stream": "Tensor.record_stream (does nothing)",
    "empty": "torch.empty of loads (pooled memory)",
    "ranks": "tp and pcp rank 0",
    "config": "config object",
}


def test_a_choice_stands_for_one_target_or_for_all():
    assert (names_of("reference"), names_of("vllm"), names_of("both")) == (
        ("reference",),
        ("vllm",),
        ("reference", "vllm"),
    )


@pytest.mark.parametrize("ask", [names_of, import_notice, lambda name: open_targets(name, CPU)])
def test_an_unknown_name_lists_the_choices(ask):
    with pytest.raises(EcbenchError, match="unknown target 'sglang': choose one of reference, vllm, both"):
        ask("sglang")


def test_the_reference_needs_nothing_and_has_no_version_of_its_own():
    target = open_target("reference", CPU)
    assert (target.version, target.stand_ins, target.own_load_bytes(5)) == (None, (), 0)
    assert (why_unavailable("reference"), version_of("reference"), import_notice("reference")) == (None, None, None)


def test_with_both_engine_and_writer_are_the_reference_s(vllm_tree):
    reference, vllm = open_targets("both", CPU, engine="memmove", writer="setitem")
    assert (reference.engine, reference.writer) == ("memmove", "setitem")
    assert (vllm.engine, vllm.writer, vllm.version) == ("vllm", "vllm", "0.32.9")


@pytest.mark.parametrize("choice", [{"engine": "gather"}, {"writer": "setitem"}])
def test_alone_vllm_refuses_what_it_decides_itself_before_it_is_imported(vllm_tree, choice):
    ((option, value),) = choice.items()
    with pytest.raises(EcbenchError, match=f"leave out --{option} {value}") as caught:
        open_target("vllm", CPU, **choice)
    assert caught.value.exit_code is ExitCode.USAGE
    assert "vllm" not in sys.modules


def test_a_device_that_vllm_does_not_run_on_is_refused(vllm_tree):
    with pytest.raises(UnavailableError, match="runs on cpu here, not on xpu-sim: use --device cpu"):
        open_target("vllm", XpuSimDevice())


def test_an_import_that_takes_long_is_announced_with_the_version(vllm_tree):
    assert import_notice("both") == "importing vllm 0.32.9: this takes some seconds"


def test_absent_vllm_is_not_announced(no_vllm):
    assert import_notice("vllm") is None


def test_every_stand_in_of_a_cpu_is_named(vllm_tree):
    assert open_target("vllm", CPU).stand_ins == tuple(NAMES.values())


def test_a_vllm_that_found_no_device_is_made_a_cpu(vllm_tree):
    platforms = vllm_tree / "platforms/__init__.py"
    platforms.write_text(platforms.read_text().replace('device_type = "cpu"', 'device_type = ""'))
    names = open_target("vllm", CPU).stand_ins
    assert names == ("platform (vLLM found none: its CPU platform)", *NAMES.values())
    assert sys.modules["vllm.platforms"].current_platform.device_type == "cpu"


def test_an_operator_that_the_build_has_is_not_replaced(vllm_tree):
    operators = vllm_tree / "_custom_ops.py"
    operators.write_text(
        operators.read_text()
        + 'library = torch.library.Library("_C_cache_ops", "FRAGMENT")\n'
        + 'library.define("swap_blocks_batch(Tensor a, Tensor b, Tensor c, bool d=False) -> ()")\n'
    )
    assert NAMES["swap_blocks_batch"] not in open_target("vllm", CPU).stand_ins
    sys.modules["vllm._custom_ops"].library._destroy()


def test_on_an_accelerator_nothing_of_the_data_path_is_replaced(vllm_tree):
    from ecbench.targets.vllm.stand_ins import WORKER_MODULE, install_stand_ins

    event, record_stream = torch.Event, torch.Tensor.record_stream
    assert install_stand_ins("cuda") == (NAMES["ranks"], NAMES["config"])
    assert (torch.Event, torch.Tensor.record_stream) == (event, record_stream)
    assert sys.modules[WORKER_MODULE].torch is torch
    assert find_operator(lambda _: None) is None
