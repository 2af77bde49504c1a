"""R9: reading elements of uint64 tensors."""

import torch


def as_int(tensors):
    table = torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64)
    first = int(table[0])  # expect: R9 crash
    return first, hex(table[1])  # expect: R9 crash


def looped(tensors):
    table = torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64)
    for address in table:  # expect: R9 crash
        address.zero_()
    return list(map(int, table))  # expect: R9 crash


def counters(device):
    counts = torch.zeros(2, dtype=torch.uint64, device=device)
    return int(counts[0])  # expect: R9 latent


def exact(tensors):
    table = torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64)
    texts = [str(address.item()) for address in table]
    texts += [hex(address) for address in table.tolist()]
    return texts, int(table[0].item()), hex(table.numpy()[1]), table.shape


def signed(device):
    counts = torch.zeros(2, dtype=torch.int64, device=device)
    return int(counts[0]), list(counts)
