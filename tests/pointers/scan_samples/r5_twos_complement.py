"""R5: two's complement in unsigned slots."""

import ctypes

import numpy as np
import torch


def to_signed(address):
    return address if address < (1 << 63) else address - (1 << 64)


def by_statement(address: int) -> int:
    if address >= 2**63:
        address -= 2**64
    return address


def store(tensor):
    table = torch.zeros(4, dtype=torch.uint64)
    table[0] = to_signed(tensor.data_ptr())  # expect: R5 crash
    table[1] = by_statement(tensor.data_ptr())  # expect: R5 crash
    return table


def constructor(tensors):
    return torch.tensor([to_signed(tensor.data_ptr()) for tensor in tensors], dtype=torch.uint64)  # expect: R5 crash


def array(tensor):
    return np.array([to_signed(tensor.data_ptr())], dtype=np.uint64)  # expect: R5 crash


def helper_of_another_file(tensor, pointers):
    table = torch.zeros(4, dtype=torch.uint64)
    table[0] = pointers.reinterpret_u64_as_i64(tensor.data_ptr())  # expect: R5 crash
    return table


def signed_table(tensor):
    table = torch.zeros(4, dtype=torch.int64)
    table[0] = to_signed(tensor.data_ptr())
    table[1] = ctypes.c_uint64(tensor.data_ptr()).value
    return table


def signed_constructor(tensors):
    return torch.tensor([to_signed(tensor.data_ptr()) for tensor in tensors], dtype=torch.int64)
