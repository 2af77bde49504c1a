from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ecbench.pointers import probe
from tests.pointers.faulty_torch import DAMAGE, SILENT_FAULTS, FaultyTorch

SOURCE = Path(probe.__file__)
WORDS = st.lists(st.integers(0, probe.WORD - 1), min_size=1, max_size=8)
BENCH = probe.Bench(torch, np)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return probe.probe(torch, np)


def outcomes(document: dict[str, Any], method: str, dtype: str = "none", encoding: str = "raw") -> dict[str, str]:
    return {
        finding["value_class"]: finding["outcome"]
        for finding in document["findings"]
        if (finding["method"], finding["dtype"], finding["encoding"]) == (method, dtype, encoding)
    }


def test_the_probe_takes_less_than_three_seconds(document):
    assert document["elapsed_s"] <= 3.0


def test_the_file_imports_only_the_standard_library_where_it_is_imported():
    tree = ast.parse(SOURCE.read_text())
    names = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_file_is_python_3_9():
    ast.parse(SOURCE.read_text(), feature_version=(3, 9))


def test_the_file_runs_alone_and_prints_one_json_line():
    done = subprocess.run([sys.executable, "-I", str(SOURCE)], capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["torch"] == torch.__version__


def test_no_address_is_shown(document):
    text = json.dumps(document)
    shown = [
        form for address in probe.VALUES.values() for form in (str(address), hex(address), str(address - probe.WORD))
    ]
    assert not [form for form in shown if len(form) > 4 and form in text]


def test_every_method_is_tried_with_every_value_it_takes(document):
    tried = {(f["method"], f["dtype"], f["encoding"]) for f in document["findings"]}
    known = {
        (m.name, dtype, encoding) for m in probe.METHODS if not m.slow for dtype in m.dtypes for encoding in m.encodings
    }
    assert tried == known


def test_aligned_addresses_hide_what_float64_does_to_unaligned_ones(document):
    found = outcomes(document, "np-uint64-plus-int64-array")
    assert (found["high-aligned"], found["high-unaligned"]) == ("exact", "corrupts")


def test_the_recommended_way_stores_every_address_and_refuses_what_is_none(document):
    for dtype in ("uint64", "int64"):
        found = outcomes(document, "numpy-view", dtype)
        assert {found.pop("overflow")} == {"raises"}
        assert set(found.values()) == {"exact"}


def test_an_int64_table_keeps_the_bits_but_reads_negative(document):
    assert set(outcomes(document, "setitem", "int64", "twos").values()) == {"exact"}
    assert set(outcomes(document, "item", "int64", "twos").values()) == {"negative"}


def test_a_table_of_32_bits_truncates_on_copy(document):
    found = [f for f in document["findings"] if f["method"] == "copy-from-numpy-array" and f["dtype"] == "int32"]
    assert {f["damage"] for f in found if f["value_class"] != "overflow"} == {"truncated"}


def test_ways_that_work_have_a_cost_and_ways_that_raise_have_none(document):
    costs = {(t["method"], t["dtype"], t["encoding"]): t["ns_per_element"] for t in document["timings"]}
    assert costs["numpy-view", "uint64", "raw"] > 0
    assert costs["numpy-view-vectorised", "uint64", "raw"] < costs["numpy-view", "uint64", "raw"]
    assert costs["tensor", "uint64", "twos"] is None


def test_details_add_compiled_graphs_and_triton_or_say_why_not():
    slow = [method for method in probe.METHODS if method.slow]
    findings = probe.find(BENCH, slow, dict(probe.VALUES))
    assert {finding.group for finding in findings} == {"compile", "triton"}
    compiled = {f.method: f.outcome for f in findings if f.group == "compile" and f.value_class == "low"}
    assert set(compiled.values()) == {"exact"}
    unavailable = [finding for finding in findings if finding.outcome == "unavailable"]
    assert all(finding.exception == "not available here: triton is not installed" for finding in unavailable)


@pytest.mark.parametrize("fault", SILENT_FAULTS)
@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_a_torch_that_stores_wrong_words_silently_is_found(fault, dtype):
    bench = probe.Bench(FaultyTorch(SILENT_FAULTS[fault]), np)
    setitem = next(method for method in probe.METHODS if method.name == "setitem")
    found = probe.attempt(bench, setitem, probe.Cell(dtype, "raw", probe.VALUES["high-unaligned"]), "high-unaligned")
    assert (found.outcome, found.damage) == ("corrupts", DAMAGE[fault])


def test_a_write_that_also_touches_a_neighbour_is_found():
    table = BENCH.place("uint64", [0, probe.LOW, 1])
    outcome, _ = probe.judge(probe.normalise(BENCH, table, "uint64"), [0, probe.LOW, 0])
    assert outcome == "corrupts"


def test_a_warning_is_kept_with_the_finding():
    def warn(_bench: probe.Bench, cell: probe.Cell) -> int:
        warnings.warn("this will stop working", DeprecationWarning, stacklevel=1)
        return cell.address

    warning_method = probe.METHODS[0]._replace(run=warn, expect=lambda address: [address])
    found = probe.attempt(BENCH, warning_method, probe.Cell("none", "raw", probe.LOW), "low")
    assert (found.outcome, found.warning) == ("exact", "DeprecationWarning: this will stop working")


def test_an_exception_is_shown_in_one_line_without_the_address():
    def refuse(_bench: probe.Bench, cell: probe.Cell) -> None:
        raise ValueError(f"{cell.address} and {cell.address:#x}\nmore")

    found = probe.attempt(
        BENCH, probe.METHODS[0]._replace(run=refuse), probe.Cell("none", "raw", probe.WORD - 1), "max"
    )
    assert (found.outcome, found.exception) == ("raises", "ValueError: ADDRESS and ADDRESS")


def test_collectives_say_why_they_cannot_run_in_a_torch_without_gloo():
    torch_without = _torch_with_distributed(is_available=lambda: False)
    findings = _collectives(torch_without)
    assert {(f.outcome, f.exception) for f in findings} == {
        ("unavailable", "not available here: gloo: NotHere: this torch has no gloo")
    }


def test_collectives_that_never_answer_do_not_hang_the_probe_nor_take_its_stdout(monkeypatch, capfd):
    released = threading.Event()
    monkeypatch.setattr(probe, "GLOO_TIMEOUT_S", 0.05)
    hanging = _torch_with_distributed(init_process_group=lambda *_, **__: released.wait())
    findings = _collectives(hanging)
    os.write(1, b"still here")
    released.set()
    assert capfd.readouterr().out == "still here"
    assert {f.exception for f in findings} == {"not available here: gloo gave no answer within 0.05 s"}


def test_collectives_leave_no_process_group_behind(document):
    assert outcomes(document, "gloo-all-reduce-int64-view", "uint64")["high-unaligned"] == "exact"
    assert not torch.distributed.is_initialized()


def _collectives(modules: Any) -> list[probe.Finding]:
    gloo = [method for method in probe.METHODS if method.group == "gloo"]
    return probe._find_with_gloo(probe.Bench(modules, np), gloo, dict(probe.VALUES))


def _torch_with_distributed(**replaced: Any) -> Any:
    working = {
        "is_available": lambda: True,
        "is_gloo_available": lambda: True,
        "is_initialized": lambda: False,
        "HashStore": object,
        "init_process_group": lambda *_, **__: None,
        "destroy_process_group": lambda: None,
    }
    return SimpleNamespace(distributed=SimpleNamespace(**{**working, **replaced}))


class TorchWithAccelerator:
    """torch that also sees an accelerator whose addresses are high."""

    address = 0xFFFF_81AB_54E0_1000
    accelerator = SimpleNamespace(is_available=lambda: True, current_accelerator=lambda: SimpleNamespace(type="xpu"))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *shape: Any, device: str | None = None, **options: Any) -> Any:
        if device is None:
            return torch.zeros(*shape, **options)
        return SimpleNamespace(data_ptr=lambda: self.address)


def test_real_device_addresses_are_probed_and_counted_but_never_shown():
    document = probe.probe(TorchWithAccelerator(), np)
    assert (document["device"], document["device_addresses"]) == ("xpu", probe.DEVICE_TENSORS)
    assert document["device_addresses_high"] == probe.DEVICE_TENSORS
    assert outcomes(document, "numpy-view", "uint64")["device"] == "exact"
    tried = TorchWithAccelerator.address + probe.DEVICE_TENSOR_BYTES - 1
    text = json.dumps(document)
    assert str(tried) not in text
    assert str(TorchWithAccelerator.address) not in text


def test_an_accelerator_of_a_torch_without_the_generic_api_is_found():
    old = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: False), xpu=SimpleNamespace(is_available=lambda: True)
    )
    assert probe.accelerator(old) == "xpu"
    assert probe.accelerator(SimpleNamespace()) is None


@given(WORDS)
def test_words_are_placed_and_read_without_any_conversion(words):
    tensor = BENCH.place("uint64", words)
    assert BENCH.raw(tensor) == b"".join(word.to_bytes(8, sys.byteorder) for word in words)


@given(st.integers(0, probe.WORD - 1))
def test_both_encodings_are_the_same_64_bits(address):
    assert probe.encode(address, "raw") == address
    assert probe.encode(address, "twos") % probe.WORD == address
    assert -probe.HALF <= probe.encode(address, "twos") < probe.HALF


@given(st.integers(0, probe.WORD - 1), st.integers(0, probe.WORD - 1))
def test_a_word_is_exact_only_where_every_bit_is_right(stored, wanted):
    found = probe.Found([stored], "uint64", signed=False, rounded=False)
    outcome, damage = probe.judge(found, [wanted])
    assert (outcome == "exact") == (stored == wanted)
    assert (damage is None) == (stored == wanted)
