"""The folder's name says that its code runs on one platform: findings are latent."""

import torch


def table(tensors):
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)  # expect: R1 latent
