"""Existing host memory, pinned by the driver for as long as a registration lives."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ecbench.core.host_memory import HostMemoryKind, HostRegistration, NoRegistration
from ecbench.core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ecbench.engine.devices.accelerator_kinds import AcceleratorKind

PORTABLE_AND_MAPPED = 0x01 | 0x02
"""``cudaHostRegisterPortable | cudaHostRegisterMapped``: every context, and kernels too, may use the memory."""


class PinnedHost:
    """Which host memory this process has pinned for one device, and what became of the requests.

    Args:
        kind: Names the driver's call.
        wanted: What the user asked for.
        runtime: torch, or what stands for it in a test.
        synchronize: Waits for everything on the device.
        clear_error: Takes back the error that a refusal leaves in the driver's state.
    """

    def __init__(
        self,
        kind: AcceleratorKind,
        wanted: HostMemoryKind,
        *,
        runtime: Any,
        synchronize: Callable[[], None],
        clear_error: Callable[[], None],
    ) -> None:
        self._kind = kind
        self._wanted = wanted
        self._runtime = runtime
        self._synchronize = synchronize
        self._clear_error = clear_error
        self._ranges: set[tuple[int, int]] = set()
        self._accepted = 0
        self._refused = 0

    @property
    def state(self) -> str:
        """How host memory is held, in words; changes when the driver refuses."""
        if self._wanted is HostMemoryKind.PAGEABLE:
            return "pageable, as asked"
        if self._kind.registration is None:
            return "pageable: torch registers no host memory on this kind of device"
        if self._refused:
            return f"{'partly ' if self._accepted else ''}pageable: {self._kind.registration} refused"
        return f"pinned by {self._kind.registration}"

    def covers(self, address: int, nbytes: int) -> bool:
        """Tells whether a range lies in registered memory."""
        return any(start <= address and address + nbytes <= end for start, end in self._ranges)

    def register(self, tensor: Tensor) -> HostRegistration:
        """Pins a tensor's memory; a refusal becomes a note."""
        if self._wanted is HostMemoryKind.PAGEABLE:
            return NoRegistration("host memory is pageable, as asked: the driver stages every copy")
        if self._kind.registration is None:
            return NoRegistration(
                f"host memory is pageable: torch offers no registration on {self._kind.name}, so copies are staged"
            )
        reason = self._refusal(tensor)
        if reason is None:
            self._accepted += 1
            return _Registration(self, tensor)
        self._refused += 1
        return NoRegistration(
            f"host memory is pageable: {self._kind.registration} refused {format_bytes(tensor.nbytes)} ({reason})"
        )

    def _refusal(self, tensor: Tensor) -> str | None:
        cudart = self._runtime.cuda.cudart()
        error = cudart.cudaHostRegister(tensor.data_ptr(), tensor.nbytes, PORTABLE_AND_MAPPED)
        if int(error) == 0:
            self._ranges.add(_range_of(tensor))
            return None
        self._clear_error()
        return str(cudart.cudaGetErrorString(error))

    def unregister(self, tensor: Tensor) -> None:
        """Takes memory back. The driver must not lose it under a copy, so this waits for the device first."""
        self._ranges.discard(_range_of(tensor))
        # A device that was lost answers with errors; the process must still be able to end in order.
        with suppress(RuntimeError):
            self._synchronize()
        with suppress(RuntimeError):
            self._runtime.cuda.cudart().cudaHostUnregister(tensor.data_ptr())


class _Registration:
    """Pinned memory. Released by name, by garbage collection or at the interpreter's exit, whichever comes first."""

    note: str | None = None

    def __init__(self, host: PinnedHost, tensor: Tensor) -> None:
        self._end = weakref.finalize(self, host.unregister, tensor)

    def release(self) -> None:
        """Unregisters, once."""
        self._end()


def _range_of(tensor: Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
