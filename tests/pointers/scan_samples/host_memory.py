"""Addresses of host memory are low: findings are latent."""

import torch


def by_name(cpu_backup):
    return torch.tensor([cpu_backup.data_ptr()])  # expect: R1 latent


def by_device():
    staging = torch.empty(64, dtype=torch.uint8, device="cpu")
    return torch.tensor([staging.data_ptr()])  # expect: R1 latent


def moved(tensor):
    return torch.tensor([tensor.cpu().data_ptr()])  # expect: R1 latent


def both(host_cache, cache):
    return torch.tensor([host_cache.data_ptr(), cache.data_ptr()])  # expect: R1 crash


def buffer_with_both(buffer):
    return torch.tensor([buffer.host_gpu_view.data_ptr()])  # expect: R1 crash
