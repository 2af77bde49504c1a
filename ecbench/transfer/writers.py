"""Ways to write addresses into descriptor arrays, and what each costs and breaks.

To add one: something with ``name`` and ``write``, and a line in `_WRITERS`. Writers hold no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ecbench.core.errors import CopyRefusedError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecbench.core.copy_plan import CopyPlan
    from ecbench.core.protocols import DescriptorArrays, DescriptorWriter

_MASK = (1 << 64) - 1
_TOP_BIT = 1 << 63

DEFAULT_WRITER = "numpy-batch"


def signed_form(address: int) -> int:
    """The two's-complement reading of an address: what an int64 with the same bits holds."""
    return address - (1 << 64) if address & _TOP_BIT else address


@dataclass(frozen=True)
class TorchItemWriter:
    """One torch scalar assignment per value; which values torch refuses depends on its version.

    Args:
        name: Registered name.
        encode: Turns an address (0 to 2**64 - 1) into what is assigned.
    """

    name: str
    encode: Callable[[int], int]

    def write(
        self, arrays: DescriptorArrays, start: int, plan: CopyPlan, source_address: int, destination_address: int
    ) -> None:
        """Writes a plan, one element at a time."""
        sources, destinations, sizes = arrays.tensors
        try:
            for index, (source, destination, size) in enumerate(
                _rows(plan, source_address, destination_address), start
            ):
                sources[index] = self.encode(source)
                destinations[index] = self.encode(destination)
                sizes[index] = size
        except (RuntimeError, ValueError, OverflowError, TypeError) as error:
            raise CopyRefusedError(
                f"writer {self.name}: torch {torch.__version__} refused an address in a {sources.dtype} array "
                f"({type(error).__name__}: {error}): use --writer {DEFAULT_WRITER}"
            ) from error


class NumpyItemWriter:
    """``view[i] = address`` for all three arrays through cached NumPy views: the ``set_ptrs`` design of vLLM #49532."""

    name = "numpy-item"

    def write(
        self, arrays: DescriptorArrays, start: int, plan: CopyPlan, source_address: int, destination_address: int
    ) -> None:
        """Writes a plan, one element at a time."""
        sources, destinations, sizes = arrays.views
        for index, (source, destination, size) in enumerate(_rows(plan, source_address, destination_address), start):
            sources[index] = source
            destinations[index] = destination
            sizes[index] = size


class NumpyBatchWriter:
    """Whole plans at once in np.uint64; never through int64 or a Python int, which NumPy would turn into float64."""

    name = "numpy-batch"

    def write(
        self, arrays: DescriptorArrays, start: int, plan: CopyPlan, source_address: int, destination_address: int
    ) -> None:
        """Writes a plan in three vectorised statements."""
        sources, destinations, sizes = arrays.views
        end = start + len(plan)
        np.add(plan.source_offsets.view(np.uint64), np.uint64(source_address), out=sources[start:end])
        np.add(plan.destination_offsets.view(np.uint64), np.uint64(destination_address), out=destinations[start:end])
        sizes[start:end] = plan.sizes.view(np.uint64)


def _rows(plan: CopyPlan, source_address: int, destination_address: int) -> Iterator[tuple[int, int, int]]:
    columns = (plan.source_offsets.tolist(), plan.destination_offsets.tolist(), plan.sizes.tolist())
    for source, destination, size in zip(*columns, strict=True):
        yield source_address + source, destination_address + destination, size


_WRITERS: tuple[DescriptorWriter, ...] = (
    # Refused for addresses >= 2**63 until torch 2.14, and always by int64 arrays.
    TorchItemWriter("setitem", encode=lambda address: address),
    # Refused by uint64 arrays from torch 2.14 on (pytorch#191458).
    TorchItemWriter("setitem-twos", encode=signed_form),
    NumpyItemWriter(),
    NumpyBatchWriter(),
)
WRITERS: dict[str, DescriptorWriter] = {writer.name: writer for writer in _WRITERS}


def find_writer(name: str) -> DescriptorWriter:
    """Finds a writer by its registered name.

    Raises:
        EcbenchError: No such writer; the message lists the choices.
    """
    if name not in WRITERS:
        raise unknown_name("writer", name, tuple(WRITERS))
    return WRITERS[name]
