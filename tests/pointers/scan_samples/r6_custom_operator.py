"""R6: addresses as arguments of custom operators."""

import torch
from vllm import _custom_ops as ops


def direct(tensor, size):
    torch.ops._C.copy_from(tensor.data_ptr(), size)  # expect: R6 crash


def by_keyword(tensor, size):
    torch.ops._C.copy_from(size=size, source=tensor.data_ptr() + 64)  # expect: R6 crash


def list_of_addresses(tensors):
    pointers = [tensor.data_ptr() for tensor in tensors]
    torch.ops._C.register(pointers)  # expect: R6 crash


def by_a_shorter_name(tensor):
    operators = torch.ops._C
    operators.register(tensor.data_ptr())  # expect: R6 crash


def wrapped(tensor):
    ops.register_buffer(tensor.data_ptr())  # expect: R6 crash


def declared(ptr: int, size: int):
    torch.ops._C.register(ptr, size)  # expect: R6 crash


def register_host_range(ptr: int, size: int):
    torch.ops._C.register(ptr, size)  # expect: R6 latent


class Buffers:
    def __init__(self, handle):
        self.multicast = handle.multicast_ptr

    def gather(self, tensor):
        torch.ops._C.gather(tensor, self.multicast)  # expect: R6 crash


def to_int64(address: int) -> int:
    return address if address < 2**63 else address - 2**64


def rewritten(tensor):
    torch.ops._C.copy_from(to_int64(tensor.data_ptr()), tensor.numel())


def tensors_themselves(tensor):
    torch.ops._C.copy(tensor, tensor.numel())


def table_of_addresses(tensors):
    table = torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64)
    torch.ops._C.copy(table)


def not_an_operator(tensor, library):
    library.register(tensor.data_ptr())
    torch.ops.load_library("operators.so")
