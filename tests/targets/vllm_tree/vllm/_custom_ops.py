"""Compiled operators by name."""

import torch


def swap_blocks_batch(sources, destinations, sizes, is_src_access_order_any=False):
    torch.ops._C_cache_ops.swap_blocks_batch(sources, destinations, sizes, is_src_access_order_any)
