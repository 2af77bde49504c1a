"""Addresses through branches, loops, nested functions, unpacking and calls."""

import itertools
from collections import defaultdict

import torch


def either(tensor):
    address = 0 if tensor is None else tensor.data_ptr()
    return torch.tensor([address])  # expect: R1 crash


def branch(tensor, plain):
    value = 1
    if not plain:
        value = tensor.data_ptr()
    return torch.tensor([value])  # expect: R1 crash


def left_early(tensor, plain):
    value = 1
    if plain:
        value = tensor.data_ptr()
        raise ValueError(value)
    return torch.tensor([value])


def carried_by_a_loop(tensors):
    previous = 0
    for tensor in tensors:
        torch.tensor([previous])  # expect: R1 crash
        previous = tensor.data_ptr()


def tried(tensor):
    try:
        address = tensor.data_ptr()
    except RuntimeError:
        return None
    finally:
        tensor.zero_()
    return torch.tensor([address])  # expect: R1 crash


def nested(tensors):
    base = tensors[0].data_ptr()

    def table():
        return torch.tensor([base])  # expect: R1 crash

    return table()


def argument(values):
    return torch.tensor(values)  # expect: R1 crash


def calls_with_an_argument(tensors):
    return argument([tensor.data_ptr() for tensor in tensors])


def produced(tensors):
    for tensor in tensors:
        yield tensor.data_ptr()


def consumed(tensors):
    return torch.tensor(list(produced(tensors)))  # expect: R1 crash


def second_of_a_pair(tensor):
    return tensor.numel(), tensor.data_ptr()


def unpacked(tensor):
    size, address = second_of_a_pair(tensor)
    torch.tensor([size])
    return torch.tensor([address])  # expect: R1 crash


def by_key(tensor):
    entry = {"size": tensor.numel(), "address": tensor.data_ptr()}
    torch.tensor([entry["size"]])
    return torch.tensor([entry["address"]])  # expect: R1 crash


def in_a_lambda(tensor):
    return lambda: torch.tensor([tensor.data_ptr()])  # expect: R1 crash


def walrus(tensor):
    if address := tensor.data_ptr():
        return torch.tensor([address])  # expect: R1 crash
    return None


class Base:
    @property
    def address(self):
        return self.tensor.data_ptr()

    @staticmethod
    def pack(addresses):
        return torch.tensor(addresses)  # expect: R1 crash


class Derived(Base):
    def packed(self):
        return self.pack([self.address])


def mapped(tensors):
    return torch.tensor(list(map(lambda tensor: tensor.data_ptr(), tensors)))  # noqa: C417 # expect: R1 crash


def address_of(tensor):
    return tensor.data_ptr()


def mapped_by_a_function(tensors):
    return torch.tensor(list(map(address_of, tensors)))  # expect: R1 crash


def mapped_by_a_method(tensors):
    return torch.tensor(list(map(torch.Tensor.data_ptr, tensors)))  # expect: R1 crash


def called_lambda(tensor):
    get = lambda index: tensor[index].data_ptr()  # noqa: E731
    return torch.tensor([get(0)])  # expect: R1 crash


def chained(tensors):
    tables = [[tensor.data_ptr()] for tensor in tensors]
    return torch.tensor(list(itertools.chain.from_iterable(tables)))  # expect: R1 crash


def grouped(tensors):
    groups = defaultdict(list)
    for tensor in tensors:
        groups[tensor.device].append(tensor.data_ptr())
    return [torch.tensor(group) for group in groups.values()]  # expect: R1 crash


SHARED = []
LATEST = None


def remember(tensor):
    global LATEST  # noqa: PLW0603
    SHARED.append(tensor.data_ptr())
    LATEST = tensor.data_ptr()


def remembered():
    return torch.tensor(SHARED), torch.tensor([LATEST])  # expect: R1 crash


def mapped_sizes(tensors):
    return torch.tensor(list(map(lambda tensor: tensor.numel(), tensors)))  # noqa: C417


def bound_method(tensor):
    get = tensor.data_ptr
    return torch.tensor([get()])  # expect: R1 crash
