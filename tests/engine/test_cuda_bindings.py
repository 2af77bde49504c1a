"""The driver call, checked against the installed cuda-bindings: its declarations, then a compiled stand-in driver."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ecbench.engine.copy_engines.cuda_batch import ARGUMENT_TYPES, why_unavailable

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
COMPILER = shutil.which("cc")

needs_bindings = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None,
    reason="cuda-bindings is not installed",
)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

CALL = """
import ctypes, importlib
import numpy as np, torch
from ecbench.engine.copy_engines import cuda_batch

assert cuda_batch.why_unavailable() is None, cuda_batch.why_unavailable()
call = cuda_batch.BatchCall.from_bindings(importlib.import_module(cuda_batch.DRIVER_MODULE))
source, destination = torch.arange(64, dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
srcs = torch.tensor([source.data_ptr() + 3, source.data_ptr() + 40])
dsts = torch.tensor([destination.data_ptr() + 20, destination.data_ptr()])
indices = np.zeros(2, dtype=np.uint64)

def submit(sizes, handle):
    failed = ctypes.c_size_t(0)
    lengths = torch.tensor(sizes)
    arrays = (dsts.data_ptr(), srcs.data_ptr(), lengths.data_ptr())
    error = call.function(
        *arrays, 2, int(call.attributes.getPtr()), indices.ctypes.data, 1, ctypes.byref(failed), handle
    )
    return error, failed.value

assert submit([5, 7], 0x1234) == (0, 0)
expected = torch.zeros(64, dtype=torch.uint8)
expected[20:25], expected[0:7] = source[3:8], source[40:47]
assert torch.equal(destination, expected)
assert submit([5, 0], 0x1234) == (1, 1)
assert submit([5, 7], 0x4321) == (1, 2**64 - 1)
assert call.error_name(1) == "CUDA_ERROR_INVALID_VALUE"
assert call.error_name(123456) == "CUresult 123456"
print("byte-exact")
"""


@needs_bindings
def test_the_argument_list_is_the_package_s_own():
    folder = Path(importlib.util.find_spec("cuda.bindings").submodule_search_locations[0])
    declaration = re.search(r"CUresult cuMemcpyBatchAsync\((.+?)\)", (folder / "cydriver.pxd").read_text())[1]
    arguments = [argument.strip().rsplit(" ", 1) for argument in declaration.split(",")]
    names = [name for _, name in arguments]
    # CUDA 13's headers dropped failIdx; drivers still offer the form of 12.8 that is asked for.
    ours = ["dsts", "srcs", "sizes", "count", "attrs", "attrsIdxs", "numAttrs", "failIdx", "hStream"]
    assert names in (ours, [name for name in ours if name != "failIdx"])
    kinds = dict(zip(ours, ARGUMENT_TYPES, strict=True))
    for kind, name in arguments:
        is_number = kind == "size_t"
        assert (kinds[name] is ctypes.c_size_t) is is_number, name


@needs_bindings
def test_without_a_driver_the_reason_is_named():
    reason = why_unavailable()
    assert reason is None or "driver" in reason


def test_without_cuda_bindings_the_reason_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    assert why_unavailable() == "cuda-bindings is not installed: pip install 'ecbench[cuda]'"


@needs_bindings
@needs_compiler
def test_a_compiled_driver_understands_the_call(tmp_path):
    library = tmp_path / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, HERE / "fake_libcuda.c"], check=True)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": path}
    ran = subprocess.run(
        [sys.executable, "-c", CALL], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stdout.strip() == "byte-exact", ran.stderr
