from __future__ import annotations

import numpy as np
import pytest
import torch

from ecbench import EcbenchError
from ecbench.transfer.descriptor_arrays import MIN_CAPACITY, DescriptorArrayPool
from tests.fakes import DTYPES

TOP = 2**64 - 128


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_and_tensors_are_the_same_memory(dtype):
    arrays = DescriptorArrayPool(dtype).acquire(4)
    for tensor, view in zip(arrays.tensors, arrays.views, strict=True):
        view[3] = TOP
        assert tensor.dtype is dtype
        assert tensor.numpy().view(np.uint64)[3] == TOP


def test_released_arrays_are_used_again_under_new_views():
    pool = DescriptorArrayPool(torch.int64)
    first = pool.acquire(10)
    address = first.tensors[0].data_ptr()
    pool.release(first)
    second = pool.acquire(10)
    assert second.tensors[0].data_ptr() == address


def test_a_view_that_was_kept_refuses_to_be_written_after_the_release():
    pool = DescriptorArrayPool(torch.uint64)
    arrays = pool.acquire(10)
    kept = arrays.views
    pool.release(arrays)
    for view in kept:
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
    again = pool.acquire(10)
    again.views[0][0] = 7
    with pytest.raises(ValueError, match="read-only"):
        kept[0][0] = 1


def test_arrays_that_were_released_say_so():
    pool = DescriptorArrayPool(torch.int64)
    arrays = pool.acquire(1)
    pool.release(arrays)
    for use in (lambda: arrays.tensors, lambda: arrays.views, lambda: arrays.capacity, lambda: pool.release(arrays)):
        with pytest.raises(EcbenchError, match="after their release"):
            use()


def test_the_smallest_free_arrays_that_fit_are_taken():
    pool = DescriptorArrayPool(torch.int64)
    small, large = pool.acquire(1), pool.acquire(100_000)
    assert small.capacity == MIN_CAPACITY
    pool.release(large)
    pool.release(small)
    assert pool.acquire(5).capacity == MIN_CAPACITY
    assert pool.acquire(5).capacity > MIN_CAPACITY


def test_growing_keeps_what_was_written():
    pool = DescriptorArrayPool(torch.uint64)
    arrays = pool.acquire(2)
    for number, view in enumerate(arrays.views):
        view[:2] = [TOP + number, number]
    larger = pool.grow(arrays, 2, 5000)
    assert larger.capacity >= 5000
    assert [view[:2].tolist() for view in larger.views] == [[TOP, 0], [TOP + 1, 1], [TOP + 2, 2]]
    assert pool.acquire(1).capacity == MIN_CAPACITY
