"""The kernel itself, run byte by byte in Triton's interpreter; no GPU takes part."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ecbench.core.descriptors import DescriptorBatch, Direction
from ecbench.core.errors import CopyRefusedError
from ecbench.engine.copy_engines import triton_kernel
from ecbench.engine.copy_engines.triton_kernel import refuse_odd_words, why_unavailable

ROOT = Path(__file__).parent.parent.parent

INTERPRETED = """
import numpy as np, torch
from ecbench.engine.copy_engines.triton_kernel import launch_kernel
from ecbench.measure.content import content_bytes
from ecbench.measure.memory import HostMemory
from tests.conftest import random_plan

sizes_seen = set()
for seed in range(12):
    plan = random_plan(np.random.default_rng(seed), copies=5, most_units=(4, 600, 1100)[seed % 3])
    source = np.array(content_bytes(seed, 0, plan.source_bytes + 8))
    buffer = np.zeros(plan.destination_bytes + 8, dtype=np.uint8)
    source, destination = (array[-array.ctypes.data % 8:] for array in (source, buffer))
    memory = HostMemory(destination[: plan.destination_bytes])
    HostMemory(source[: plan.source_bytes]).write_content(seed)
    memory.poison()
    columns = [plan.source_offsets + source.ctypes.data, plan.destination_offsets + destination.ctypes.data, plan.sizes]
    launch_kernel(*(torch.from_numpy(np.array(column)) for column in columns), programs=(1, 3, 8)[seed % 3])
    assert memory.holds_copies(plan, seed), seed
    sizes_seen.update(plan.sizes.tolist())
assert min(sizes_seen) < 4096 < max(sizes_seen)
print("byte-exact")
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernel_is_byte_exact_in_the_interpreter():
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    ran = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.stdout.strip() == "byte-exact", ran.stderr


COMPILED = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from ecbench.engine.copy_engines.triton_source import WORDS_PER_STEP, copy_words

signature = {"sources": "*i64", "destinations": "*i64", "sizes": "*i64", "count": "i32", "WORDS": "constexpr"}
source = ASTSource(copy_words, signature=signature, constexprs={"WORDS": WORDS_PER_STEP})
backend, arch, warp = sys.argv[1:]
binary = compile(source, target=GPUTarget(backend, int(arch) if arch.isdigit() else arch, int(warp)))
print(*binary.asm)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize(
    ("target", "product"), [(("cuda", "90", "32"), "cubin"), (("hip", "gfx942", "64"), "hsaco")], ids=["cuda", "rocm"]
)
def test_the_kernel_compiles_for_gpus_that_are_not_here(target, product, tmp_path):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}
    command = [sys.executable, "-c", COMPILED, *target]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert product in ran.stdout.split(), ran.stderr


def test_without_triton_the_reason_names_the_extra(monkeypatch):
    monkeypatch.setattr(triton_kernel, "find_spec", lambda name: None)
    assert why_unavailable() == "triton is not installed: pip install 'ecbench[triton]'"


def batch(source, destination, size):
    columns = [torch.tensor([8, value]) for value in (source, destination, size)]
    return DescriptorBatch(Direction.TO_HOST, *columns, (), ())


@pytest.mark.parametrize("values", [(9, 16, 8), (16, 12, 8), (16, 24, 12)])
def test_an_odd_address_or_size_is_refused_by_its_descriptor(values):
    with pytest.raises(CopyRefusedError, match=r"descriptor 1 \(\d+ bytes\)"):
        refuse_odd_words(batch(*values))


def test_whole_words_are_taken():
    refuse_odd_words(batch(16, 24, 4096))
