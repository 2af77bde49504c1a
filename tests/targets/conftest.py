from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch

from ecbench.targets.vllm import installation, kv_stand_ins, stand_ins

TREE = Path(__file__).parent / "vllm_tree"


def is_vllm(module):
    return module == "vllm" or module.startswith("vllm.")


def _forget():
    for cached in (installation.load_vllm, stand_ins.install_stand_ins, kv_stand_ins.install_kv_stand_ins):
        cached.cache_clear()


@pytest.fixture
def no_vllm(monkeypatch):
    """A process that has not imported vLLM and finds none; what a test changes is taken back."""
    monkeypatch.setattr(torch, "Event", torch.Event)
    monkeypatch.setattr(torch.Tensor, "record_stream", torch.Tensor.record_stream)
    monkeypatch.setattr(stand_ins, "_LIBRARIES", [])
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if is_vllm(name)}
    places = [place for place in sys.path if not (Path(place or ".") / "vllm").is_dir()]
    monkeypatch.setattr(sys, "path", places)
    _forget()
    yield
    for library in stand_ins._LIBRARIES:
        library._destroy()
    vars(torch.ops._C_cache_ops).pop("swap_blocks_batch", None)
    for name in [name for name in sys.modules if is_vllm(name)]:
        del sys.modules[name]
    sys.modules.update(kept)
    _forget()


@pytest.fixture
def vllm_tree(no_vllm, tmp_path, monkeypatch):
    """A package `vllm` that works; its files may be changed until it is imported."""
    tree = tmp_path / "tree"
    shutil.copytree(TREE, tree)
    monkeypatch.syspath_prepend(tree)
    return tree / "vllm"
