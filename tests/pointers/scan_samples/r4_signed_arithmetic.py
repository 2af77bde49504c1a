"""R4: addresses and signed NumPy integers."""

import numpy as np


def int_and_array(tensor, blocks):
    starts = np.fromiter(blocks, dtype=np.int64)
    return tensor.data_ptr() + starts * tensor.stride(0)  # expect: R4 crash


def int_and_range(tensor, count):
    base = tensor.data_ptr()
    return np.arange(count) * 64 + base  # expect: R4 crash


def scalar_and_array(tensor, count):
    base = np.uint64(tensor.data_ptr())
    return base + np.arange(count)  # expect: R4 corruption


def array_and_scalar(tensors, stride):
    base = np.array([tensor.data_ptr() for tensor in tensors], dtype=np.uint64)
    return base - np.int64(stride)  # expect: R4 corruption


def mixed_product(tensor, count, stride):
    steps = np.arange(count, dtype=np.uint64) * np.int64(stride)
    return tensor.data_ptr() + steps  # expect: R4 corruption


def in_place(tensor, count):
    table = np.full(count, tensor.data_ptr(), dtype=np.uint64)
    table += np.arange(count)  # expect: R4 corruption
    return table


def joined(tensors, offsets):
    base = np.array([tensor.data_ptr() for tensor in tensors], dtype=np.uint64)
    return np.concatenate((base, np.asarray(offsets, dtype=np.int64)))  # expect: R4 corruption


def runs(ids):
    starts = np.fromiter(ids, dtype=np.int64)
    return starts, np.diff(starts)


def from_a_function_of_the_file(tensor, ids):
    starts, lengths = runs(ids)
    return tensor.data_ptr() + starts * 64, lengths * 64  # expect: R4 crash


def host_memory(host_cache, rows):
    starts = np.asarray(rows, dtype=np.int64)
    return host_cache.data_ptr() + starts  # expect: R4 latent


def unsigned(tensor, ids):
    base = np.uint64(tensor.data_ptr())
    starts = np.fromiter(ids, dtype=np.int64)
    return base + starts.astype(np.uint64) * np.uint64(64)


def int_and_unsigned(tensor, count):
    return tensor.data_ptr() + np.arange(count, dtype=np.uint64) * 64


def plain_ints(tensor, offsets):
    return [tensor.data_ptr() + offset for offset in offsets]


def offset_within(view, storage, count):
    return (view.data_ptr() - storage.data_ptr()) + np.arange(count)


def parts(tensor, count):
    return tensor.data_ptr() % 64 + np.arange(count)
