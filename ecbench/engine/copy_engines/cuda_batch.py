"""One driver call for a whole batch: ``cuMemcpyBatchAsync``, CUDA 12.8 and later.

cuda-bindings finds the function and builds its attributes. The call itself goes through ctypes: the driver reads the
descriptor arrays as they are, while the Python wrapper wants one object per address and would be timed with them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ecbench.core.descriptors import PreparedCopy
from ecbench.core.errors import CopyRefusedError, UnavailableError
from ecbench.engine.devices.accelerator import native_handle, require_accelerator
from ecbench.engine.devices.device_faults import DeviceLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import Device, Stream

DRIVER_MODULE = "cuda.bindings.driver"
SYMBOL = b"cuMemcpyBatchAsync"
INTERFACE_VERSION = 12080
"""CUDA 12.8's form of the function, with ``failIdx``; later drivers keep it under this version."""
ARGUMENT_TYPES: tuple[Any, ...] = (
    ctypes.c_void_p,  # CUdeviceptr* dsts
    ctypes.c_void_p,  # CUdeviceptr* srcs
    ctypes.c_void_p,  # size_t* sizes
    ctypes.c_size_t,  # size_t count
    ctypes.c_void_p,  # CUmemcpyAttributes* attrs
    ctypes.c_void_p,  # size_t* attrsIdxs
    ctypes.c_size_t,  # size_t numAttrs
    ctypes.POINTER(ctypes.c_size_t),  # size_t* failIdx
    ctypes.c_void_p,  # CUstream hStream
)
LEGACY_STREAMS = (0, 1)
"""The null handle and ``CU_STREAM_LEGACY``: the driver refuses both (vLLM #46345)."""
MAX_COPIES_PER_CALL = 16_384
"""One call with 51,828 copies crashed a driver (vLLM #49276, RTX PRO 6000, driver 580), 50,000 ran on an H100 (#42212):
well below both, at the price of a few further calls."""
_INVALID_VALUE = 1
_NO_INDEX = 2**64 - 1


def why_unavailable() -> str | None:
    """Why the engine cannot run on an NVIDIA GPU here; None where it can."""
    try:
        _find_function(import_module(DRIVER_MODULE))
    except ImportError:
        return "cuda-bindings is not installed: pip install 'ecbench[cuda]'"
    except UnavailableError as error:
        return str(error)
    return None


def _find_function(driver: Any) -> int:
    try:
        error, version = driver.cuDriverGetVersion()
    except RuntimeError as missing:  # cuda-bindings' loader where there is no libcuda
        raise UnavailableError("the NVIDIA driver's library libcuda is not here: install the driver") from missing
    if int(error) or version < INTERFACE_VERSION:
        found = f"{version // 1000}.{version % 1000 // 10}" if not int(error) else "none"
        raise UnavailableError(f"the NVIDIA driver supports CUDA {found}: cuMemcpyBatchAsync needs 12.8 or later")
    error, address, *_ = driver.cuGetProcAddress(SYMBOL, INTERFACE_VERSION, 0)
    if int(error) or not address:
        raise UnavailableError(f"the NVIDIA driver has no {SYMBOL.decode()} (error {int(error)}): update it")
    return int(address)


@dataclass(frozen=True, eq=False)
class BatchCall:
    """The driver's function and what stays the same in every call of it.

    Args:
        function: Takes `ARGUMENT_TYPES`, returns CUresult.
        attributes: One CUmemcpyAttributes, from cuda-bindings; kept alive here.
        error_name: Names a CUresult.
    """

    function: Callable[..., int]
    attributes: Any
    error_name: Callable[[int], str]

    @classmethod
    def from_bindings(cls, driver: Any) -> BatchCall:
        """Looks the function up in the driver.

        Args:
            driver: The module ``cuda.bindings.driver``.

        Raises:
            UnavailableError: No driver, or one without the function.
        """
        function = ctypes.CFUNCTYPE(ctypes.c_int, *ARGUMENT_TYPES)(_find_function(driver))
        return cls(function, stream_ordered(driver), lambda error: _name_of(error, driver))


def _name_of(error: int, driver: Any) -> str:
    try:
        return str(driver.CUresult(error).name)
    except ValueError:  # a driver newer than cuda-bindings
        return f"CUresult {error}"


def stream_ordered(driver: Any) -> Any:
    """Attributes under which sources are read in stream order.

    The looser order ANY lets the driver read a source before the kernel that writes it has run, and lets it read host
    memory after the stream has moved on (vLLM #39306).
    """
    attributes = driver.CUmemcpyAttributes()
    attributes.srcAccessOrder = driver.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
    return attributes


class CudaBatchEngine:
    """``cuMemcpyBatchAsync`` over the descriptor arrays themselves.

    Args:
        device: An NVIDIA GPU.
        call: The driver's function; by default looked up now.

    Raises:
        UnavailableError: No cuda-bindings, no driver, or one older than CUDA 12.8.
    """

    name = "cuda-batch"

    def __init__(self, device: Device, call: BatchCall | None = None) -> None:
        self._device = require_accelerator(device, self.name)
        self._call = call or BatchCall.from_bindings(import_module(DRIVER_MODULE))

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Cuts the batch into calls; translates nothing, since the arrays are the driver's own form."""
        count = len(batch)
        # The documentation asks for one index per attribute, some readings of it for one per copy (vLLM #53863): zeros
        # for every copy satisfy both.
        indices = np.zeros(min(count, MAX_COPIES_PER_CALL), dtype=np.uint64)
        columns = (batch.destinations, batch.sources, batch.sizes)
        starts = range(0, count, MAX_COPIES_PER_CALL)

        def run(stream: Stream) -> None:
            handle = native_handle(stream)
            if handle in LEGACY_STREAMS:
                raise CopyRefusedError(
                    "engine cuda-batch: the driver refuses the legacy default stream: give the transfer its own stream"
                )
            with stream:
                for start in starts:
                    part = slice(start, start + MAX_COPIES_PER_CALL)
                    self._submit([column[part] for column in columns], start, indices, handle)

        return PreparedCopy(self.name, threads=0, run=run)

    def _submit(self, columns: list[Tensor], start: int, indices: NDArray[np.uint64], handle: int) -> None:
        fail_index = ctypes.c_size_t(_NO_INDEX)
        error = self._call.function(
            *(column.data_ptr() for column in columns),
            len(columns[0]),
            int(self._call.attributes.getPtr()),
            indices.ctypes.data,
            1,
            ctypes.byref(fail_index),
            handle,
        )
        if error:
            self._refuse(error, start, fail_index.value)

    def _refuse(self, error: int, start: int, fail_index: int) -> None:
        name = self._call.error_name(error)
        if error != _INVALID_VALUE:
            raise DeviceLostError(
                f"device {self._device.name} failed in cuMemcpyBatchAsync ({name}): run ecbench doctor"
            )
        where = f"descriptor {start + fail_index}" if fail_index < _NO_INDEX - start else "the call as a whole"
        raise CopyRefusedError(
            f"engine cuda-batch: the driver refused {where} ({name}): try --engine per-copy to see which memory it is"
        )
