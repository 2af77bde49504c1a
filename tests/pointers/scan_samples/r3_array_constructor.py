"""R3: NumPy arrays made of addresses."""

import numpy as np


def without_a_dtype(device, host):
    return np.array([device.data_ptr(), host.data_ptr()])  # expect: R3 corruption


def as_int64(tensors):
    return np.asarray([tensor.data_ptr() for tensor in tensors], dtype=np.int64)  # expect: R3 crash


def positional_dtype(tensors):
    return np.array([tensor.data_ptr() for tensor in tensors], "i8")  # expect: R3 crash


def generated(tensors):
    return np.fromiter((tensor.data_ptr() for tensor in tensors), dtype=np.int64)  # expect: R3 crash


def filled(tensor):
    return np.full(8, tensor.data_ptr(), dtype=np.int64)  # expect: R3 corruption


def scalar(tensor):
    return np.int64(tensor.data_ptr())  # expect: R3 crash


def counted(tensor):
    return np.arange(tensor.data_ptr(), tensor.data_ptr() + 4096, 64)  # expect: R3 corruption


class Layout:
    def register(self, caches):
        base: list[int] = []
        for cache in caches:
            storage = cache.untyped_storage()
            if storage.nbytes():
                base.append(storage.data_ptr())
        self.base = base

    def plan(self):
        return np.asarray(self.base, dtype=np.int64)  # expect: R3 crash

    def safe_plan(self):
        return np.asarray(self.base, dtype=np.uint64)


def lengths(tensors):
    return np.asarray([tensor.nbytes for tensor in tensors], dtype=np.int64)


def of_objects(tensors):
    return np.array([tensor.data_ptr() for tensor in tensors], dtype=object)


def unsigned(tensor):
    return np.full(8, tensor.data_ptr(), dtype=np.uint64), np.uint64(tensor.data_ptr())


def stored(tensor):
    table = np.zeros(4, dtype=np.int64)
    table[0] = tensor.data_ptr()  # expect: R3 crash
    rounded = np.zeros(4)
    rounded[0] = tensor.data_ptr()  # expect: R3 corruption
    unsigned_table = np.zeros(4, dtype=np.uint64)
    unsigned_table[0] = tensor.data_ptr()
    return table, rounded, unsigned_table
