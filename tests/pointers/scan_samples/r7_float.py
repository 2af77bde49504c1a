"""R7: addresses as floats."""

import numpy as np


def plain(tensor):
    return float(tensor.data_ptr())  # expect: R7 corruption


def scalar(tensor):
    return np.float64(tensor.data_ptr() + 1)  # expect: R7 corruption


def array(tensors):
    table = np.array([tensor.data_ptr() for tensor in tensors], dtype=np.uint64)
    return table.astype(np.float64)  # expect: R7 corruption


def size(tensor):
    return float(tensor.nbytes), float(tensor.data_ptr() % 64)


def whole_pages(tensor):
    return tensor.data_ptr() // 4096
