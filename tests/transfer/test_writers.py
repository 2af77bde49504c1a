from __future__ import annotations

import numpy as np
import pytest
import torch

from ecbench import EcbenchError
from ecbench.core.copy_plan import CopyPlan
from ecbench.core.errors import CopyRefusedError, ExitCode
from ecbench.transfer.descriptor_arrays import DescriptorArrayPool
from ecbench.transfer.writers import WRITERS, find_writer, signed_form
from tests.fakes import DTYPES

HIGH = 0xFFFF_D556_B640_0FFF
"""An address that float64 cannot hold: it is no multiple of 2048."""
LOW = 0x7F12_3456_7001


def _torch_takes(dtype, value):
    try:
        torch.zeros(1, dtype=dtype)[0] = value
    except (RuntimeError, ValueError, OverflowError, TypeError):
        return False
    return True


def _plan():
    return CopyPlan([0, 7168, 21504], [14336, 0, 7168], [7168, 7168, 4], 30000, 30000)


def _written(arrays, start, count):
    return [view[start : start + count].tolist() for view in arrays.views]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("base", [LOW, HIGH, 2**64 - 65536])
def test_what_a_writer_takes_is_exact_and_what_it_cannot_take_is_refused(name, dtype, base):
    arrays = DescriptorArrayPool(dtype).acquire(8)
    encoded = signed_form(base) if name == "setitem-twos" else base
    if name.startswith("setitem") and not _torch_takes(dtype, encoded):
        with pytest.raises(CopyRefusedError, match=f"writer {name}.*numpy-batch") as refused:
            find_writer(name).write(arrays, 2, _plan(), base, LOW)
        assert refused.value.exit_code is ExitCode.CHECK_FAILED
        return
    find_writer(name).write(arrays, 2, _plan(), base, LOW)
    assert _written(arrays, 2, 3) == [
        [base, base + 7168, base + 21504],
        [LOW + 14336, LOW, LOW + 7168],
        [7168, 7168, 4],
    ]


@pytest.mark.parametrize("name", ["numpy-item", "numpy-batch"])
def test_the_numpy_writers_take_every_address_on_every_torch(name):
    for dtype in DTYPES:
        arrays = DescriptorArrayPool(dtype).acquire(8)
        find_writer(name).write(arrays, 0, CopyPlan([0], [0], [1], 1, 1), 2**64 - 1, 2**63)
        assert _written(arrays, 0, 1) == [[2**64 - 1], [2**63], [1]]


@pytest.mark.parametrize("name", WRITERS)
def test_writers_touch_only_their_own_rows(name):
    arrays = DescriptorArrayPool(torch.int64).acquire(8)
    for view in arrays.views:
        view[:] = 77
    find_writer(name).write(arrays, 3, CopyPlan([0, 1], [0, 1], [1, 1], 2, 2), LOW, LOW)
    for view in arrays.views:
        assert view[:3].tolist() == [77] * 3
        assert (view[5:] == 77).all()


@pytest.mark.parametrize("name", WRITERS)
def test_an_empty_plan_writes_nothing(name):
    arrays = DescriptorArrayPool(torch.int64).acquire(1)
    before = [view.copy() for view in arrays.views]
    find_writer(name).write(arrays, 0, CopyPlan([], [], [], 8, 8), LOW, LOW)
    for old, view in zip(before, arrays.views, strict=True):
        assert np.array_equal(old, view)


def test_an_unknown_writer_lists_the_choices():
    with pytest.raises(EcbenchError, match=r"unknown writer 'fast'.*setitem-twos.*numpy-batch"):
        find_writer("fast")


def test_signed_form_keeps_the_bits():
    assert [signed_form(a) for a in (0, 2**63 - 1, 2**63, 2**64 - 1)] == [0, 2**63 - 1, -(2**63), -1]
