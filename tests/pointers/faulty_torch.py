"""A torch whose scalar assignment does what a careless change could make it do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

WORD = 1 << 64

SILENT_FAULTS: dict[str, Callable[[int], int]] = {
    "truncates": lambda value: value % (1 << 32),
    "wraps": lambda value: value % (1 << 63),
    "rounds": lambda value: int(float(value)) % WORD,
}
DAMAGE = {"truncates": "truncated", "wraps": "wrapped", "rounds": "rounded"}


class FaultyTorch:
    """torch, but `zeros` gives tables whose element assignment passes values through a fault.

    Args:
        fault: Turns the value that is assigned into the 64-bit word that is stored.
    """

    def __init__(self, fault: Callable[[int], int]) -> None:
        self._table = _table_with(fault)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *shape: Any, **options: Any) -> torch.Tensor:
        return torch.zeros(*shape, **options).as_subclass(self._table)


def _table_with(fault: Callable[[int], int]) -> type[torch.Tensor]:
    class Table(torch.Tensor):
        def __setitem__(self, index: Any, value: Any) -> None:
            plain = self.as_subclass(torch.Tensor)
            if isinstance(value, int) and plain.dtype in (torch.uint64, torch.int64):
                plain.numpy().view(np.uint64)[index] = fault(value)
            else:
                plain[index] = value

    return Table
