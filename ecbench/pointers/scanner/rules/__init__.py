"""The rules: what must not be done with an address, why, and what to do instead. One class each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.pointers.scanner.rules.arrays import FloatConversion, SignedArithmetic, SignedArray
from ecbench.pointers.scanner.rules.boundaries import CustomOperator, SignedBytes
from ecbench.pointers.scanner.rules.tensors import (
    TensorConstructor,
    TensorStore,
    TwosComplementUnsigned,
    UnsignedTensorRead,
)

if TYPE_CHECKING:
    from ecbench.pointers.scanner.rules.base import Rule

RULES: tuple[Rule, ...] = (
    TensorConstructor(),
    TensorStore(),
    SignedArray(),
    SignedArithmetic(),
    TwosComplementUnsigned(),
    CustomOperator(),
    FloatConversion(),
    SignedBytes(),
    UnsignedTensorRead(),
)
