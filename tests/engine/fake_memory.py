"""Tensors of a fake GPU: host memory, whose every torch operation goes through a fake stream.

The memory of a freed tensor is scribbled over in the order of the stream it was allocated on, as the next user of a
caching allocator would do, unless `record_stream` told of a use elsewhere that is still to come.
"""

from __future__ import annotations

import weakref

import torch
from torch.utils._pytree import tree_map

SCRIBBLE = 0xEE
TOP_BIT = 1 << 63


class Block:
    """Memory of one allocation, as the allocator sees it; views share it."""

    def __init__(self, allocator, index, backing):
        self.index = index
        self.backing = backing
        self.used_on = []
        self.touched = {}
        weakref.finalize(self, allocator.free, backing, allocator.gpu.current[index], self.used_on, self.touched)


class Allocator:
    """Gives out device memory and remembers all of it, so that a stray address is known.

    Args:
        gpu: Its streams.
        capacity_bytes: Of each device.
        address_bits: Set in every address a tensor shows.
    """

    def __init__(self, gpu, capacity_bytes, address_bits):
        self.gpu = gpu
        self.capacity_bytes = capacity_bytes
        self.address_bits = address_bits
        self.used_bytes = [0] * gpu.devices
        self.pinned = {}
        self.kept = []
        self.owners = {}

    def allocate(self, index, shape, dtype):
        backing = torch.full(shape, 0, dtype=dtype)
        if self.used_bytes[index] + backing.nbytes > self.capacity_bytes:
            raise torch.OutOfMemoryError("out of memory. Tried to allocate a lot")
        self.used_bytes[index] += backing.nbytes
        self.owners[backing.data_ptr()] = (backing.nbytes, index)
        return FakeTensor(backing, Block(self, index, backing), self)

    def free(self, backing, stream, used_on, touched):
        self.kept.append(backing)  # the memory stays mapped, whoever still has its address
        index = stream.device_index
        self.used_bytes[index] -= backing.nbytes
        waits = [(other, mark) for other, mark in used_on if other.done < mark]
        known = {stream, *(other for other, _ in used_on)}
        for other, mark in touched.items():
            if other not in known and other.done < mark and stream.waited.get(other, 0) < mark:
                self.gpu.violations.append(f"{backing.nbytes} bytes were freed while another stream used them")

        def scribble():
            # With a recorded use, the allocator holds the memory until that use is over.
            for other, mark in waits:
                other.advance(mark)
            backing.view(-1).view(torch.uint8).fill_(SCRIBBLE)

        if not self.gpu.lost:
            stream.submit(scribble)

    def index_of(self, address, nbytes):
        """The device that a range belongs to; None for host memory."""
        real = address & ~self.address_bits
        for start, (length, index) in self.owners.items():
            if start <= real and real + nbytes <= start + length:
                return index
        return None

    def is_pinned(self, tensor):
        first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        return any(start <= first and last <= start + nbytes for start, nbytes in self.pinned.items())


class FakeTensor(torch.Tensor):
    """A view of a block."""

    @staticmethod
    def __new__(cls, inner, block, allocator):
        # "meta" is the one device without memory that every torch build can make tensors of.
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device="meta"
        )

    def __init__(self, inner, block, allocator):
        self.inner = inner
        self.block = block
        self.allocator = allocator

    @property
    def device(self):
        return torch.device("cuda", self.block.index)

    def data_ptr(self):
        return self.inner.data_ptr() | self.allocator.address_bits

    def record_stream(self, stream):
        # The mark is taken when the memory is freed: until then, more may be submitted.
        self.block.used_on.append(_LateMark(stream))

    def cpu(self):
        stream = self.allocator.gpu.current[self.block.index]
        stream.synchronize()
        return self.inner.clone()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _dispatch(func, args, kwargs or {})


class _LateMark:
    """Unpacks to a stream and all it holds at that time."""

    def __init__(self, stream):
        self._stream = stream

    def __iter__(self):
        return iter((self._stream, self._stream.submitted))


def _dispatch(func, args, kwargs):
    tensors = [item for item in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
    fakes = [tensor for tensor in tensors if isinstance(tensor, FakeTensor)]
    indices = {fake.block.index for fake in fakes}
    if len(indices) > 1:
        raise RuntimeError(f"expected all tensors on one device, found {sorted(indices)}")
    allocator = fakes[0].allocator
    stream = allocator.gpu.current[indices.pop()]
    if func is torch.ops.aten._local_scalar_dense.default:
        stream.synchronize()
        return func(fakes[0].inner)
    if any(argument.alias_info and argument.alias_info.is_write for argument in func._schema.arguments):
        return _run_in_place(func, args, kwargs, stream, tensors)
    if any(result.alias_info for result in func._schema.returns):
        viewed = func(*_inner(args), **_inner(kwargs))
        return tree_map(lambda inner: FakeTensor(inner, fakes[0].block, allocator), viewed)
    return _run_out_of_place(func, args, kwargs, stream, fakes[0])


def _touch(tensors, stream):
    for tensor in tensors:
        if isinstance(tensor, FakeTensor):
            tensor.block.touched[stream] = stream.submitted


def _inner(values):
    return tree_map(lambda item: item.inner if isinstance(item, FakeTensor) else item, values)


def _run_in_place(func, args, kwargs, stream, tensors):
    written = next(
        kwargs.get(argument.name, args[position] if position < len(args) else None)
        for position, argument in enumerate(func._schema.arguments)
        if argument.alias_info and argument.alias_info.is_write
    )
    inner_args, inner_kwargs = _inner(args), _inner(kwargs)
    stream.submit(lambda: func(*inner_args, **inner_kwargs), nbytes=written.nbytes)
    _touch(tensors, stream)
    host = [tensor for tensor in tensors if not isinstance(tensor, FakeTensor)]
    allocator = next(tensor.allocator for tensor in tensors if isinstance(tensor, FakeTensor))
    is_async = len(args) > 2 and args[2] is True  # copy_(self, source, non_blocking)
    if host and not (is_async and all(allocator.is_pinned(tensor) for tensor in host)):
        stream.synchronize()
    return written


def _run_out_of_place(func, args, kwargs, stream, one_of_them):
    def as_meta(item):
        return torch.empty_strided(item.shape, item.stride(), dtype=item.dtype, device="meta")

    metas = tree_map(lambda item: as_meta(item) if isinstance(item, torch.Tensor) else item, (args, kwargs))
    shape = func(*metas[0], **metas[1])
    result = one_of_them.allocator.allocate(one_of_them.block.index, tuple(shape.shape), shape.dtype)
    inner_args, inner_kwargs, backing = _inner(args), _inner(kwargs), result.inner
    stream.submit(lambda: backing.copy_(func(*inner_args, **inner_kwargs)), nbytes=backing.nbytes)
    _touch([*torch.utils._pytree.tree_leaves((args, kwargs)), result], stream)
    return result
