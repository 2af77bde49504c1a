"""R2: addresses assigned to elements of tensors."""

from dataclasses import dataclass

import numpy as np
import torch


def unsigned_table(tensors):
    table = torch.empty(len(tensors), dtype=torch.uint64)
    for index, tensor in enumerate(tensors):
        table[index] = tensor.data_ptr()  # expect: R2 crash
    return table


def signed_table(tensor):
    table = torch.zeros(4, dtype=torch.int64)
    table[:2] = tensor.data_ptr() + 64  # expect: R2 crash
    return table


def narrow_table(tensor):
    table = torch.zeros(4, dtype=torch.int32)
    table[0] = tensor.data_ptr()  # expect: R2 corruption
    return table


def numpy_scalar(tensor):
    table = torch.zeros(4, dtype=torch.uint64)
    table[0] = np.uint64(tensor.data_ptr())  # expect: R2 crash
    return table


def annotated(table: torch.Tensor, tensor):
    table[0] = tensor.data_ptr()  # expect: R2 crash


def filled(tensor):
    return torch.zeros(4, dtype=torch.int64).fill_(tensor.data_ptr())  # expect: R2 crash


@dataclass
class Context:
    addresses: torch.Tensor

    def put(self, index, tensor):
        self.addresses[index] = tensor.data_ptr()  # expect: R2 crash


def through_numpy(tensor):
    table = torch.zeros(4, dtype=torch.uint64)
    view = table.numpy()
    view[0] = tensor.data_ptr()
    table.numpy()[1] = tensor.data_ptr()
    return table


def dictionary(tensors):
    seen = {}
    for tensor in tensors:
        seen[tensor.data_ptr()] = tensor
        seen["last"] = tensor.data_ptr()
    return seen


def unknown_target(buffers, tensor):
    buffers.np[0] = tensor.data_ptr()
    buffers.table[0] = tensor.data_ptr()


def sizes(tensors):
    table = torch.zeros(4, dtype=torch.int64)
    table[0] = tensors[0].numel()
    return table


def unsigned_fill(tensor):
    return torch.zeros(4, dtype=torch.uint64).fill_(tensor.data_ptr())
