"""R1: tensors made of addresses."""

import torch


def without_a_dtype(tensors):
    return torch.tensor([tensor.data_ptr() for tensor in tensors])  # expect: R1 crash


def as_int64(tensor):
    address = tensor.data_ptr()
    return torch.as_tensor([address, 0], dtype=torch.int64)  # expect: R1 crash


def as_long_by_another_name(tensor):
    make = torch.tensor
    return make([tensor.data_ptr()], dtype=torch.long)  # expect: R1 crash


def collected(tensors, stride):
    table = []
    table += [0] * 4
    for index, tensor in enumerate(tensors):
        base = tensor.data_ptr()
        base += index * stride
        table.append(base)
    return torch.tensor(table, dtype=torch.int64, device="xpu")  # expect: R1 crash


def rows(tensors):
    ranges, left = [], 10
    for tensor in tensors:
        ranges.append((tensor.data_ptr(), left))
        left -= 1
    return torch.tensor(ranges, dtype=torch.int64)  # expect: R1 crash


def options(tensors):
    kind = {"dtype": torch.int64, "device": "cuda"}
    return torch.tensor(tuple(tensor.data_ptr() for tensor in tensors), **kind)  # expect: R1 crash


def filled(tensor):
    return torch.full((4,), tensor.data_ptr(), dtype=torch.int64)  # expect: R1 crash


def rounded(tensor):
    return torch.scalar_tensor(tensor.data_ptr())  # expect: R1 corruption


def through_a_helper_of_another_file(tensors, to_device):
    return to_device([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)  # expect: R1 crash


class Peers:
    def __init__(self, handle, tensors):
        self.addresses = [tensor.data_ptr() for tensor in tensors]
        self.peers = torch.tensor(handle.buffer_ptrs, dtype=torch.int64)  # expect: R1 crash

    def table(self):
        return torch.tensor(self.addresses, dtype=torch.int64)  # expect: R1 crash


class Child(Peers):
    def halves(self):
        return torch.tensor([address + 8 for address in self.addresses[:2]])  # expect: R1 crash


def unsigned(tensors):
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64)


def strides(tensors):
    return torch.tensor([tensor.stride(0) for tensor in tensors], dtype=torch.int64)


def distance(view, storage):
    return torch.tensor([view.data_ptr() - storage.data_ptr()], dtype=torch.int64)


def alignment(tensor):
    return torch.tensor([tensor.data_ptr() % 256, tensor.data_ptr() & 255], dtype=torch.int64)


def count(tensors):
    table = [tensor.data_ptr() for tensor in tensors]
    return torch.tensor([len(table)], dtype=torch.int64)


def replaced(tensor):
    value = tensor.data_ptr()
    value = tensor.numel()
    return torch.tensor([value])


def chosen_by_platform(tensors, on_xpu):
    dtype = torch.uint64 if on_xpu else torch.int64
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=dtype)


def aligned(number):
    return number + 15


def addresses_do_not_leak_from_one_call_to_another(tensor):
    high = aligned(tensor.data_ptr())
    return high, torch.tensor([aligned(tensor.numel())])


def type_of_what_lies_there(tensor, make_pointer):
    return make_pointer(tensor.data_ptr(), dtype=torch.float32)
